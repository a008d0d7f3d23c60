from graphalgo.server import walk

return walk(plpy, GD, p_key, p_depth, p_relation, p_degree_cap, p_limit, p_as_of)
