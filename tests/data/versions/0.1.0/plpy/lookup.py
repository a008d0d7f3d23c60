from graphalgo.server import lookup

return lookup(plpy, GD, p_keys, p_fuzzy, p_limit)
