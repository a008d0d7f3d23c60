from graphalgo.passthrough import sql_passthrough

return sql_passthrough(plpy, GD, p_statement, p_limit)
