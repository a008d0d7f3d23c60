-- The dialect as callers use it.

-- A definer function: candidate functions may be executed by aiq_owner alone. What it
-- reads it reads under the caller's claims, as the views do.
--
-- What is asked most, one key, is answered without Python where the key is a canonical one
-- and needs no folding but small letters: beside the select itself PL/Python takes longer
-- than to find the key. The statement is EXACT_KEY_SHOWN of graphalgo.stores.sql, and the
-- answer must be the one that graphalgo.p8ql.query gives. Where there is none, Python asks
-- on, but not for the canonical key once more.
create or replace function aiq.query(p_query text, p_embedding text default null) returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
declare
    answer jsonb;
    looked_up boolean;
begin
    if p_query ~* '^lookup "[!#-~]+( [!#-~]+)*"$' collate "C" and length(p_query) <= 100000 then
        answer := (
            select
                jsonb_build_object(
                    'mode', 'LOOKUP',
                    'plan', jsonb_build_object(
                        'mode', 'LOOKUP',
                        'keys', jsonb_build_array(substr(p_query, 9, length(p_query) - 9)),
                        'fuzzy', false,
                        'limit', 10
                    ),
                    'rows', jsonb_agg(
                        jsonb_build_object(
                            'input_key', i.asked,
                            'node_id', k.node_id,
                            'handle', n.handle,
                            'key', k.key,
                            'entity_type', n.entity_type,
                            'summary', n.summary,
                            'match_kind', k.kind,
                            'score', 1.0
                        )
                        order by k.node_id
                    ),
                    'unresolved', jsonb_build_array()
                )
            from (
                select
                    p.asked, lower(p.asked collate "C") as key
                from (select substr(p_query, 9, length(p_query) - 9) as asked) as p
                offset 0
            ) as i
            cross join lateral aiq.one_key_places(i.key, true, 10) as c
            cross join lateral (
                select h.node_id, h.key, h.kind
                from aiq.node_keys as h
                where h.ctid = c.place and h.node_id = c.node_id and h.key = i.key limit 1
            ) as k
            cross join lateral (
                select
                    t.handle_prefix || '-'
                    || case when m.handle_number is null then m.id else m.handle_number end::text
                        as handle,
                    m.entity_type, m.summary
                from aiq.nodes as m
                join aiq.entity_types as t on t.name = m.entity_type
                where m.id = k.node_id limit 1
            ) as n
            having count(*) > 0
        );
        if answer is not null then
            return answer;
        end if;
        looked_up := true;
    end if;
    -- One expression: each takes its time again in every transaction. Which of the two is
    -- called makes no other answer; a server that does not know the settings of one of
    -- them, since pgvector is too old or not yet loaded, must not call it.
    return coalesce(
        case
            when
                p_embedding is null
                or current_setting('aiq.vector_search', true) is distinct from 'approximate'
                or current_setting('hnsw.iterative_scan', true) is null
                or p_query !~* '^\s*se(mantic|arch)\M'
            then aiq.query_plpython(p_query, p_embedding, looked_up)
            else aiq.query_by_index_plpython(p_query, p_embedding)
        end,
        case when aiq.refuse(aiq.refusal_plpython()) then null::jsonb end
    );
end
$$;
alter function aiq.query(text, text) owner to aiq_owner;
comment on function aiq.query(text, text) is
    'Answers a query of P8QL: LOOKUP, GRAPH, TEXT, SEMANTIC, SEARCH, SCHEMA, or a statement of SQL, which is planned but not run. Try SCHEMA. Arguments: p_query; p_embedding, for SEMANTIC and SEARCH the vector of the words as ''[0.1, -0.2]''. Returns {"mode", "plan", "rows", …}.';
revoke all on function aiq.query(text, text) from public;
grant execute on function aiq.query(text, text) to authenticated, aiq_worker;

create or replace function aiq.parse(p_query text) returns jsonb
language plpgsql immutable security invoker
set search_path = pg_catalog, pg_temp
as $$
declare
    answer constant jsonb := aiq.parse_plpython(p_query);
begin
    if answer is null then
        perform aiq.refuse(aiq.refusal_plpython());
    end if;
    return answer;
end
$$;
alter function aiq.parse(text) owner to aiq_owner;
comment on function aiq.parse(text) is
    'The plan of a query of P8QL, defaults included; nothing is read. Argument: p_query';
revoke all on function aiq.parse(text) from public;
grant execute on function aiq.parse(text) to authenticated, aiq_worker;
