-- The dialect as callers use it.

-- A definer function: candidate functions may be executed by aiq_owner alone. What it
-- reads it reads under the caller's claims, as the views do.
create or replace function aiq.query(p_query text, p_embedding text default null) returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
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
            then aiq.query_plpython(p_query, p_embedding)
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
