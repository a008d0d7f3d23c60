from graphalgo.server import parse

return parse(plpy, GD, p_query)
