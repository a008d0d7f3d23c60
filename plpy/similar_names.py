from graphalgo.server import similar_names

return similar_names(plpy, GD, p_names, p_similarity, p_limit, p_scorer, p_candidate_similarity)
