from graphalgo.server import search_name_index

return search_name_index(plpy, GD, p_tokens, p_similarity, p_cache_mb)
