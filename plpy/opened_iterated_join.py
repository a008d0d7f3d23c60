from graphalgo.server import opened_iterated_join

return opened_iterated_join(plpy, GD, p_seed, p_target_type, p_max_rounds, p_links, p_similarity, p_budget, p_degree_cap, p_relations, p_as_of, p_limit)
