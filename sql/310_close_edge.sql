-- Ending a fact. The row stays: the past is a query over aiq.edge_periods.

create or replace function aiq.node_handle(p_node_id bigint) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case
        when n.entity_type is null then 'soft-' || n.id::text
        else t.handle_prefix || '-' || case when n.handle_number is null then n.id else n.handle_number end::text
    end
    from aiq.nodes as n
    left join aiq.entity_types as t on t.name = n.entity_type
    where n.id = p_node_id
$$;
alter function aiq.node_handle(bigint) owner to aiq_engine;
comment on function aiq.node_handle(bigint) is 'A node''s handle, whoever asks: for the words of the workers'' errors';
revoke all on function aiq.node_handle(bigint) from public;

create or replace function aiq.edge_words(p_edge_ids bigint[]) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select string_agg(w.words, ', ' order by w.id)
        || case when cardinality(p_edge_ids) > 10 then format(' and %s more', cardinality(p_edge_ids) - 10) else '' end
    from (
        select e.id, format('%s (%s %s %s)', e.id, s.handle, e.relation, d.handle) as words
        from aiq.edges as e
        cross join lateral aiq.node_handle(e.src_id) as s (handle)
        cross join lateral aiq.node_handle(e.dst_id) as d (handle)
        where e.id = any (p_edge_ids)
        order by e.id limit 10
    ) as w
$$;
alter function aiq.edge_words(bigint[]) owner to aiq_engine;
comment on function aiq.edge_words(bigint[]) is 'Names edges in the words of the workers'' errors, the first ten of them';
revoke all on function aiq.edge_words(bigint[]) from public;

-- An edge is to be closed by the id it has, or by a memory that has asserted it.
-- One that is to begin can be closed too; it just cannot end before it does.
create or replace function aiq.closable_edges(p_edge_id bigint, p_memory text, p_relation text)
returns bigint[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select array(
        select e.id from aiq.edges as e
        where
            e.retired_at is null and (e.valid_to is null or e.valid_to > now())
            and (
                e.id = p_edge_id
                or (e.relation = p_relation and e.id = any (array(
                    select a.edge_id from aiq.edge_assertions as a where a.memory = p_memory
                )))
            )
        order by e.id
    )
$$;
alter function aiq.closable_edges(bigint, text, text) owner to aiq_engine;
comment on function aiq.closable_edges(bigint, text, text) is
    'The edges of that id, or of that relation and asserted by that memory, that have not ended';
revoke all on function aiq.closable_edges(bigint, text, text) from public;

create or replace function aiq.close_edge(
    p_at timestamptz default now(), p_by text default null, p_edge_id bigint default null,
    p_memory text default null, p_relation text default null
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    found_ids bigint[];
    edge aiq.edges;
begin
    if p_at is null or not isfinite(p_at) then
        raise exception using
            errcode = '22023',
            message = format('p_at is %s, but must be a moment', coalesce(p_at::text, 'null')),
            hint = 'Write when the edge ends, or leave p_at out for now.';
    end if;
    if (p_edge_id is null) = (p_memory is null) or (p_memory is null) <> (p_relation is null) then
        raise exception using
            errcode = '22023',
            message = format(
                'p_edge_id is %s, p_memory %s and p_relation %s, but an edge is named by its id alone or by a memory and a relation',
                coalesce(p_edge_id::text, 'null'), coalesce('"' || left(p_memory, 80) || '"', 'null'),
                coalesce('"' || left(p_relation, 80) || '"', 'null')
            ),
            hint = 'Write p_edge_id => 12, or p_memory => ''doc-7'', p_relation => ''employs''.';
    end if;
    perform aiq.require_read_committed();
    for attempt in 1..20 loop
        found_ids := aiq.closable_edges(p_edge_id, p_memory, p_relation);
        if cardinality(found_ids) > 1 then
            raise exception using
                errcode = '21000',
                message = format(
                    'memory "%s" has asserted %s current edges "%s": %s',
                    left(p_memory, 80), cardinality(found_ids), left(p_relation, 80), aiq.edge_words(found_ids)
                ),
                hint = 'Close one by its id: p_edge_id => ' || found_ids[1] || '.';
        end if;
        exit when cardinality(found_ids) = 0;
        select e.* into edge from aiq.edges as e
        where
            e.id = found_ids[1] and e.retired_at is null and (e.valid_to is null or e.valid_to > now())
        for no key update;
        -- Closed by somebody else while this waited: look again.
        exit when found;
    end loop;
    if edge.id is null then
        raise exception using
            errcode = 'P0002',
            message = case
                when p_edge_id is not null then format('there is no current edge %s', p_edge_id)
                else format(
                    'there is no current edge "%s" that memory "%s" has asserted',
                    left(p_relation, 80), left(p_memory, 80)
                )
            end,
            hint = 'aiq.edge_periods tells which edges there are and when they ended.';
    end if;
    if p_at < edge.valid_from then
        raise exception using
            errcode = '22023',
            message = format('edge %s begins at %s and cannot end before that, at %s', aiq.edge_words(array[edge.id]), edge.valid_from, p_at),
            hint = 'Write an end that is not before the start.';
    end if;
    if p_at > edge.valid_to then
        raise exception using
            errcode = '22023',
            message = format('edge %s ends at %s already and cannot be made to end later, at %s', aiq.edge_words(array[edge.id]), edge.valid_to, p_at),
            hint = 'What goes on after that is asserted again, with aiq.upsert_graph.';
    end if;
    update aiq.edges as e
    set valid_to = p_at, closed_by = coalesce(p_by, p_memory, session_user::text)
    where e.id = edge.id;
    return edge.id;
end
$$;
alter function aiq.close_edge(timestamptz, text, bigint, text, text) owner to aiq_engine;
comment on function aiq.close_edge(timestamptz, text, bigint, text, text) is
    'Ends exactly one edge, named by its id or by a memory that has asserted it and its relation, and records who did (p_by, else the memory, else the session''s user); returns its id. '
    'An end ahead is allowed, and until then may be brought forward. The row stays';
revoke all on function aiq.close_edge(timestamptz, text, bigint, text, text) from public;
grant execute on function aiq.close_edge(timestamptz, text, bigint, text, text) to aiq_worker;
