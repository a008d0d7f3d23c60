-- The dialect inside the server. Each function gives an answer, or null where it refuses;
-- the refusal is then had from another, and the function that callers use raises it.

-- Its plans are made, and without JIT, as aiq.query says, which alone calls it.
create or replace function aiq.query_plpython(
    p_query text, p_embedding text, p_looked_up boolean
) returns jsonb
language plpython3u stable security invoker
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $plpython$@plpy:query@$plpython$;
alter function aiq.query_plpython(text, text, boolean) owner to aiq_owner;
comment on function aiq.query_plpython(text, text, boolean) is
    'What aiq.query calls; null where it refuses. p_looked_up: no node is known by the one key of p_query as its canonical one';
revoke all on function aiq.query_plpython(text, text, boolean) from public;
drop function if exists aiq.query_plpython(text, text);

-- The same with the settings that an index of vectors is searched with. The planner does
-- not know how long a scan over vectors takes that are stored apart; and where few rows
-- are the caller's, the index has far to go. They are the function's, since to set them
-- and to set them back by statements would take as long as to compare what is found.
create or replace function aiq.query_by_index_plpython(p_query text, p_embedding text) returns jsonb
language plpython3u stable security invoker
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_sort = off
as $plpython$@plpy:query_by_index@$plpython$;
alter function aiq.query_by_index_plpython(text, text) owner to aiq_owner;
comment on function aiq.query_by_index_plpython(text, text) is
    'What aiq.query calls for a search among vectors where an index may answer it; null where it refuses';
revoke all on function aiq.query_by_index_plpython(text, text) from public;
do $$
begin
    -- A pgvector that is loaded and too old refuses settings that it does not know.
    if current_setting('hnsw.ef_search', true) is null
        or current_setting('hnsw.iterative_scan', true) is not null
    then
        alter function aiq.query_by_index_plpython(text, text) set hnsw.ef_search = 100;
        alter function aiq.query_by_index_plpython(text, text) set hnsw.iterative_scan = 'relaxed_order';
        alter function aiq.query_by_index_plpython(text, text) set hnsw.max_scan_tuples = 2147483647;
        alter function aiq.query_by_index_plpython(text, text) set hnsw.scan_mem_multiplier = 8;
    end if;
end
$$;

create or replace function aiq.parse_plpython(p_query text) returns jsonb
language plpython3u immutable security invoker
set search_path = pg_catalog, pg_temp
as $plpython$@plpy:parse@$plpython$;
alter function aiq.parse_plpython(text) owner to aiq_owner;
comment on function aiq.parse_plpython(text) is
    'What aiq.parse calls; null where it refuses';
revoke all on function aiq.parse_plpython(text) from public;
grant execute on function aiq.parse_plpython(text) to authenticated, aiq_worker;

create or replace function aiq.refusal_plpython() returns text
language plpython3u volatile security invoker
set search_path = pg_catalog, pg_temp
as $plpython$@plpy:refusal@$plpython$;
alter function aiq.refusal_plpython() owner to aiq_owner;
comment on function aiq.refusal_plpython() is
    'The refusal behind the null that aiq.query_plpython or aiq.parse_plpython gave last';
revoke all on function aiq.refusal_plpython() from public;
grant execute on function aiq.refusal_plpython() to authenticated, aiq_worker;
