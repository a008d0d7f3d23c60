-- Names similar to given ones, as callers use it.

create or replace function aiq.similar_names_plpython(
    p_names text[], p_similarity real, p_limit int, p_scorer text, p_candidate_similarity real
) returns table (
    input_name text, node_id bigint, key text, score real, candidate_similarity real, refusal text
)
language plpython3u stable security invoker rows 100
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $plpython$@plpy:similar_names@$plpython$;
alter function aiq.similar_names_plpython(text[], real, int, text, real) owner to aiq_owner;
comment on function aiq.similar_names_plpython(text[], real, int, text, real) is
    'What aiq.similar_names calls; a refusal is in its last column';
revoke all on function aiq.similar_names_plpython(text[], real, int, text, real) from public;
grant execute on function aiq.similar_names_plpython(text[], real, int, text, real)
    to authenticated, aiq_worker;

create or replace function aiq.similar_names(
    p_names text[],
    p_similarity real default 0.6,
    p_limit int default 10,
    p_scorer text default 'trigram',
    p_candidate_similarity real default null
) returns table (
    input_name text, node_id bigint, handle text, key text, entity_type text, summary text,
    score real, candidate_similarity real
)
language plpgsql stable security invoker
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    return query
    select
        r.input_name, r.node_id, n.handle, r.key, n.entity_type, n.summary, r.score,
        r.candidate_similarity
    from aiq.similar_names_plpython(
        p_names, p_similarity, p_limit, p_scorer, p_candidate_similarity
    ) with ordinality as r (
        input_name, node_id, key, score, candidate_similarity, refusal, number
    )
    left join lateral (
        select m.handle, m.entity_type, m.summary
        from aiq.nodes_ever as m where m.id = r.node_id limit 1
    ) as n on true
    where r.refusal is null or aiq.refuse(r.refusal)
    order by r.number;
end
$$;
alter function aiq.similar_names(text[], real, int, text, real) owner to aiq_owner;
comment on function aiq.similar_names(text[], real, int, text, real) is
    'Nodes, soft ones too, with a name similar to each of p_names. Arguments: p_names; p_similarity, the least score, above 0 and at most 1; p_limit, at least 1 row for each name; p_scorer: trigram, jaro_winkler or token_set; p_candidate_similarity, for the last two: the trigram similarity from which a name is scored at all (0.3, or p_similarity where that is less).';
revoke all on function aiq.similar_names(text[], real, int, text, real) from public;
grant execute on function aiq.similar_names(text[], real, int, text, real)
    to authenticated, aiq_worker;
