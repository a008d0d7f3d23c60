run = SD.get("query")
if run is None:
    from graphalgo.server import query as run

    SD["query"] = run
return run(plpy, GD, p_query, p_embedding, False, p_looked_up)
