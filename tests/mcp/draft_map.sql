-- TO BE DELETED when the installed schema has aiq.search_entities, aiq.neighbors,
-- aiq.entity, aiq.ontology and the titles and bodies of registrations: a plain
-- stand-in for them, with the same signatures and answers, applied by conftest.py
-- where they are missing.
create table if not exists aiq.draft_entities (node_id bigint primary key, title text, body text);
grant select on aiq.draft_entities to aiq_owner;

create or replace function aiq.register_entity_table(
    p_entity_type text, p_source_table regclass, p_key_expr text, p_summary_expr text,
    p_org_expr text, p_visibility_expr text, p_owner_expr text, p_number_expr text,
    p_title_expr text, p_body_expr text
) returns void language plpgsql as $$
begin
    perform aiq.register_entity_table(
        p_entity_type, p_source_table, p_key_expr, p_summary_expr, p_org_expr,
        p_visibility_expr => p_visibility_expr, p_owner_expr => p_owner_expr,
        p_number_expr => p_number_expr
    );
    execute format(
        'insert into aiq.draft_entities select n.id, %s, %s from %s as t
         join aiq.nodes as n on n.source_table = %L and n.source_pk = t.id::text
         on conflict (node_id) do nothing',
        p_title_expr, p_body_expr, p_source_table, p_source_table::text
    );
end
$$;

create or replace function aiq.ontology() returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'entity_types', (
            select coalesce(jsonb_agg(to_jsonb(t) order by name), '[]') from aiq.entity_types as t
        ),
        'routes', (
            select coalesce(jsonb_agg(to_jsonb(r) order by src_type, relation, dst_type), '[]')
            from aiq.relations as r
        )
    )
$$;
alter function aiq.ontology() owner to aiq_owner;
grant execute on function aiq.ontology() to authenticated;

create or replace function aiq.draft_found(p_handle text) returns bigint
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    found_id bigint;
begin
    select id into found_id from aiq.nodes_api where lower(handle) = lower(p_handle);
    if found_id is null then
        raise exception using
            errcode = 'P0002', message = format('no entity has the handle "%s"', p_handle),
            hint = 'Take a handle from search_entities or get_neighbors.';
    end if;
    return found_id;
end
$$;
alter function aiq.draft_found(text) owner to aiq_owner;

create or replace function aiq.search_entities(
    p_query text, p_types text[] default null, p_limit int default 10,
    p_embedding text default null, p_model text default null
) returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with words as (
        select to_tsquery('english', string_agg(quote_literal(w), ' | ')) as q
        from regexp_split_to_table(p_query, '\W+') as w where w <> ''
    ),
    found as materialized (
        select n.handle, n.entity_type, d.title, d.body, w.q,
            ts_rank(
                setweight(to_tsvector('english', d.title), 'A') || to_tsvector('english', d.body), w.q
            ) as score
        from aiq.nodes_api as n
        join aiq.draft_entities as d on d.node_id = n.id, words as w
        where
            (to_tsvector('english', d.title) || to_tsvector('english', d.body)) @@ w.q
            and (p_types is null or n.entity_type = any (p_types))
    ),
    ranked as (
        select *, row_number() over (order by score desc, handle) as rank from found
    )
    select jsonb_build_object(
        'rows', coalesce(
            (
                select jsonb_agg(
                    jsonb_build_object(
                        'handle', handle, 'type', entity_type, 'title', title,
                        'snippet', ts_headline('english', body, q), 'rank', rank,
                        'rrf', 1.0 / (60 + rank), 'found_by', jsonb_build_array('words')
                    ) order by rank
                ) from ranked where rank <= p_limit
            ),
            '[]'
        ),
        'ranked_by', 'words', 'note', 'ranked by words alone: no vector was given',
        'total', (select count(*) from ranked),
        'truncated', (select count(*) from ranked) > p_limit
    )
$$;
alter function aiq.search_entities(text, text[], int, text, text) owner to aiq_owner;
grant execute on function aiq.search_entities(text, text[], int, text, text) to authenticated;

create or replace function aiq.neighbors(
    p_handle text, p_direction text default null, p_relations text[] default null,
    p_limit int default 25, p_cursor text default null
) returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with start as (select aiq.draft_found(p_handle) as id),
    ends as (
        select e.id as edge, e.dst_id as other, e.relation, 'out' as direction, e.weight
        from aiq.edges_current as e, start as s where e.src_id = s.id
        union all
        select e.id, e.src_id, e.relation, 'in', e.weight
        from aiq.edges_current as e, start as s where e.dst_id = s.id
    ),
    numbered as (
        select n.handle, n.entity_type, coalesce(d.title, n.summary) as title, e.relation,
            e.direction, e.weight,
            row_number() over (
                order by e.weight desc, e.other, e.relation, e.direction desc, e.edge
            ) as place
        from ends as e join aiq.nodes_api as n on n.id = e.other
        left join aiq.draft_entities as d on d.node_id = n.id
        where
            (p_direction is null or e.direction = p_direction)
            and (p_relations is null or e.relation = any (p_relations))
    ),
    page as (
        select * from numbered
        where place > coalesce(p_cursor::int, 0) and place <= coalesce(p_cursor::int, 0) + p_limit
    )
    select jsonb_build_object(
        'handle', (select n.handle from aiq.nodes_api as n, start as s where n.id = s.id),
        'rows', coalesce(
            (select jsonb_agg(to_jsonb(p) - 'place' - 'entity_type'
                || jsonb_build_object('type', entity_type) order by place) from page as p),
            '[]'
        ),
        'truncated', (select count(*) from numbered) > coalesce(p_cursor::int, 0) + p_limit,
        'cursor', case
            when (select count(*) from numbered) > coalesce(p_cursor::int, 0) + p_limit
            then (coalesce(p_cursor::int, 0) + p_limit)::text
        end
    )
$$;
alter function aiq.neighbors(text, text, text[], int, text) owner to aiq_owner;
grant execute on function aiq.neighbors(text, text, text[], int, text) to authenticated;

create or replace function aiq.entity(p_handle text) returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'handle', n.handle, 'type', n.entity_type, 'title', coalesce(d.title, n.summary),
        'summary', n.summary, 'body', d.body,
        'keys', (select jsonb_agg(key order by key) from aiq.node_keys_api where node_id = n.id)
    )
    from (select aiq.draft_found(p_handle) as id) as s
    join aiq.nodes_api as n on n.id = s.id
    left join aiq.draft_entities as d on d.node_id = n.id
$$;
alter function aiq.entity(text) owner to aiq_owner;
grant execute on function aiq.entity(text) to authenticated;
