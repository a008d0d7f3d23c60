-- The algorithms as SQL functions. All are SECURITY INVOKER: a judge must run
-- as the caller. Generic plans and no JIT: the arguments are arrays whose
-- values the planner cannot use, so planning again for each call buys nothing.

create or replace function aiq.iterated_join(
    p_seed text,
    p_target_type text,
    p_max_rounds int default 3,
    p_links text[] default '{edge,shared_key,similar}',
    p_similarity real default 0.6,
    p_budget int default 500,
    p_degree_cap int default 100,
    p_relations text[] default null,
    p_as_of timestamptz default null,
    p_limit int default 100
) returns table (
    resolved boolean, round int, hops int, node_id bigint, handle text, key text,
    entity_type text, summary text, score float8, path jsonb, deferred int, examined int,
    reason text
)
language plpython3u stable security invoker
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $plpython$@plpy:iterated_join@$plpython$;
alter function aiq.iterated_join(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) owner to aiq_owner;
comment on function aiq.iterated_join(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) is
    'Walks out from one node, a round at a time, over edges, shared keys, similar names and judged links, until a round reaches nodes of the target type; says by which path';
revoke all on function aiq.iterated_join(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) from public;
grant execute on function aiq.iterated_join(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) to authenticated, aiq_worker;

create or replace function aiq.iterated_join_trace(
    p_seed text,
    p_target_type text,
    p_max_rounds int default 3,
    p_links text[] default '{edge,shared_key,similar}',
    p_similarity real default 0.6,
    p_budget int default 500,
    p_degree_cap int default 100,
    p_relations text[] default null,
    p_as_of timestamptz default null,
    p_limit int default 100
) returns jsonb
language plpython3u stable security invoker
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $plpython$@plpy:iterated_join_trace@$plpython$;
alter function aiq.iterated_join_trace(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) owner to aiq_owner;
comment on function aiq.iterated_join_trace(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) is
    'The account of the same iterated join: for each round the frontier, the candidates by link kind, the examined, the deferred, the nodes that the degree cap cut, and the milliseconds';
revoke all on function aiq.iterated_join_trace(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) from public;
grant execute on function aiq.iterated_join_trace(
    text, text, int, text[], real, int, int, text[], timestamptz, int
) to authenticated, aiq_worker;

create or replace function aiq.walk(
    p_key text,
    p_depth int default 1,
    p_relation text default null,
    p_degree_cap int default 100,
    p_limit int default 100,
    p_as_of timestamptz default null
) returns table (
    depth int, node_id bigint, handle text, key text, entity_type text, summary text,
    path text[], weight float8, capped boolean
)
language plpython3u stable security invoker
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $plpython$@plpy:walk@$plpython$;
alter function aiq.walk(text, int, text, int, int, timestamptz) owner to aiq_owner;
comment on function aiq.walk(text, int, text, int, int, timestamptz) is
    'Everything within p_depth hops of a node, edges walked both ways, at most p_degree_cap strongest per node';
revoke all on function aiq.walk(text, int, text, int, int, timestamptz) from public;
grant execute on function aiq.walk(text, int, text, int, int, timestamptz)
    to authenticated, aiq_worker;

create or replace function aiq.lookup(
    p_keys text[], p_fuzzy boolean default false, p_limit int default 10
) returns table (
    input_key text, node_id bigint, handle text, key text, entity_type text, summary text,
    match_kind text, score real
)
language plpython3u stable security invoker
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $plpython$@plpy:lookup@$plpython$;
alter function aiq.lookup(text[], boolean, int) owner to aiq_owner;
comment on function aiq.lookup(text[], boolean, int) is
    'Nodes by key, in a cascade: canonical, then short and alias, then soft names, then (with p_fuzzy) similar names';
revoke all on function aiq.lookup(text[], boolean, int) from public;
grant execute on function aiq.lookup(text[], boolean, int) to authenticated, aiq_worker;
