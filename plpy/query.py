from graphalgo.server import query

return query(plpy, GD, p_query, p_embedding)
