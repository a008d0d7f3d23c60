from graphalgo.server import iterated_join_trace

return iterated_join_trace(plpy, GD, p_seed, p_target_type, p_max_rounds, p_links, p_similarity, p_budget, p_degree_cap, p_relations, p_as_of, p_limit)
