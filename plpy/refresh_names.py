from graphalgo.server import refresh_names

return refresh_names(plpy, GD, p_rebuild)
