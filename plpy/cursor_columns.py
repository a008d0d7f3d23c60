from graphalgo.passthrough import cursor_columns

return cursor_columns(plpy, p_cursor)
