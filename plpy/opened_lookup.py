from graphalgo.server import opened_lookup

return opened_lookup(plpy, GD, p_keys, p_fuzzy, p_limit)
