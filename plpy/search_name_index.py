from graphalgo.server import search_name_index

return search_name_index(plpy, GD, p_names, p_similarity)
