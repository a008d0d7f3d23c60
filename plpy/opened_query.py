from graphalgo.server import opened_query

return opened_query(plpy, GD, p_query, p_embedding)
