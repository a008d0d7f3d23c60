-- The algorithms inside the server: PL/Python functions that call the engine.
-- They answer ids; what is shown of a node is read where the rows are handed over.
-- PL/Python puts the name of an exception class before every message it raises,
-- so a refusal comes back as a value and the function that callers use, in the
-- next file, raises it.
--
-- All are SECURITY INVOKER: a judge must run as the caller. Generic plans and no
-- JIT: the arguments are arrays whose values the planner cannot use.

create or replace function aiq.iterated_join_plpython(
    p_seed text, p_target_type text, p_max_rounds int, p_links text[], p_similarity real,
    p_budget int, p_degree_cap int, p_relations text[], p_as_of timestamptz, p_limit int
) returns table (
    resolved boolean, round int, hops int, node_id bigint, score float8, path jsonb,
    deferred int, examined int, reason text, refusal text
)
language plpython3u stable security invoker rows 100
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set datestyle = 'ISO'
as $plpython$@plpy:iterated_join@$plpython$;
alter function aiq.iterated_join_plpython(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) owner to aiq_owner;
comment on function aiq.iterated_join_plpython(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) is
    'What aiq.iterated_join calls; a refusal is in its last column';
revoke all on function aiq.iterated_join_plpython(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) from public;
grant execute on function aiq.iterated_join_plpython(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) to authenticated, aiq_worker;

create or replace function aiq.iterated_join_trace_plpython(
    p_seed text, p_target_type text, p_max_rounds int, p_links text[], p_similarity real,
    p_budget int, p_degree_cap int, p_relations text[], p_as_of timestamptz, p_limit int
) returns table (
    trace jsonb, refusal text
)
language plpython3u stable security invoker
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set datestyle = 'ISO'
as $plpython$@plpy:iterated_join_trace@$plpython$;
alter function aiq.iterated_join_trace_plpython(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) owner to aiq_owner;
comment on function aiq.iterated_join_trace_plpython(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) is
    'What aiq.iterated_join_trace calls; a refusal is in its last column';
revoke all on function aiq.iterated_join_trace_plpython(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) from public;
grant execute on function aiq.iterated_join_trace_plpython(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) to authenticated, aiq_worker;

create or replace function aiq.walk_plpython(
    p_key text, p_depth int, p_relation text, p_degree_cap int, p_limit int, p_as_of timestamptz
) returns table (
    depths text, node_ids text, paths text, weights text, capped text, refusal text
)
language plpython3u stable security invoker rows 1
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set datestyle = 'ISO'
as $plpython$@plpy:walk@$plpython$;
alter function aiq.walk_plpython(text, int, text, int, int, timestamptz) owner to aiq_owner;
comment on function aiq.walk_plpython(text, int, text, int, int, timestamptz) is
    'What aiq.walk calls: blocks of rows, each column the text of an array; a refusal is in the last';
revoke all on function aiq.walk_plpython(text, int, text, int, int, timestamptz) from public;
grant execute on function aiq.walk_plpython(text, int, text, int, int, timestamptz)
    to authenticated, aiq_worker;

create or replace function aiq.lookup_plpython(
    p_keys text[], p_fuzzy boolean, p_limit int
) returns table (
    input_key text, node_id bigint, key text, match_kind text, score real, refusal text
)
language plpython3u stable security invoker rows 100
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $plpython$@plpy:lookup@$plpython$;
alter function aiq.lookup_plpython(text[], boolean, int) owner to aiq_owner;
comment on function aiq.lookup_plpython(text[], boolean, int) is
    'What aiq.lookup calls; a refusal is in its last column';
revoke all on function aiq.lookup_plpython(text[], boolean, int) from public;
grant execute on function aiq.lookup_plpython(text[], boolean, int)
    to authenticated, aiq_worker;
