-- The dialect inside the server: each function gives the text of a JSON answer, or of
-- a refusal after an exclamation mark, which the function that callers use raises.
-- One text is the cheapest thing that PL/Python can hand over.

create or replace function aiq.query_plpython(p_query text, p_embedding text) returns text
language plpython3u stable security invoker
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $plpython$@plpy:query@$plpython$;
alter function aiq.query_plpython(text, text) owner to aiq_owner;
comment on function aiq.query_plpython(text, text) is
    'What aiq.query calls: the text of an envelope, or of a refusal after an exclamation mark';
revoke all on function aiq.query_plpython(text, text) from public;

create or replace function aiq.parse_plpython(p_query text) returns text
language plpython3u immutable security invoker
set search_path = pg_catalog, pg_temp
as $plpython$@plpy:parse@$plpython$;
alter function aiq.parse_plpython(text) owner to aiq_owner;
comment on function aiq.parse_plpython(text) is
    'What aiq.parse calls: the text of a plan, or of a refusal after an exclamation mark';
revoke all on function aiq.parse_plpython(text) from public;
grant execute on function aiq.parse_plpython(text) to authenticated, aiq_worker;
