from graphalgo.server import parse

return parse(plpy, p_query)
