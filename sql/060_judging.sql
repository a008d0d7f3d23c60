-- Judged links: verdicts that a worker has stored, and the pairs still to judge.

create or replace function aiq.stored_link_judge(p_nodes bigint[])
returns table (node_id bigint, linked_id bigint, confidence real, reason text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select v.node_a, v.node_b, v.confidence, v.reason
    from aiq.link_verdicts_api as v
    where v.node_a = any (p_nodes) and v.confidence > 0
    union all
    select v.node_b, v.node_a, v.confidence, v.reason
    from aiq.link_verdicts_api as v
    where v.node_b = any (p_nodes) and v.confidence > 0
$$;
alter function aiq.stored_link_judge(bigint[]) owner to aiq_owner;
comment on function aiq.stored_link_judge(bigint[]) is
    'A judge over stored verdicts: set percolate.link_judge to aiq.stored_link_judge to use it';
revoke all on function aiq.stored_link_judge(bigint[]) from public;
grant execute on function aiq.stored_link_judge(bigint[]) to authenticated, aiq_worker;

create or replace function aiq.record_link_verdict(
    p_a bigint, p_b bigint, p_confidence real, p_reason text default null, p_by text default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set extra_float_digits = 1
as $$
declare
    missing bigint;
begin
    if p_a is null or p_b is null or p_a = p_b then
        raise exception using
            errcode = '22023',
            message = format('a verdict is about two different nodes, not %s and %s',
                coalesce(p_a::text, 'null'), coalesce(p_b::text, 'null')),
            hint = 'Give the ids of two nodes.';
    end if;
    if p_confidence is null or not (p_confidence >= 0 and p_confidence <= 1) then
        raise exception using
            errcode = '22023',
            message = format('p_confidence is %s, but must be from 0 to 1', coalesce(p_confidence::text, 'null')),
            hint = 'Write 0 for "not linked" and 1 for "certainly linked".';
    end if;
    select u.id into missing
    from unnest(array[p_a, p_b]) as u (id)
    where not exists (select from aiq.nodes as n where n.id = u.id)
    order by u.id limit 1;
    if found then
        raise exception using
            errcode = 'P0002',
            message = format('there is no node %s', missing),
            hint = 'Give the ids of nodes that exist.';
    end if;
    insert into aiq.link_verdicts (node_a, node_b, confidence, reason, judged_by)
    values (least(p_a, p_b), greatest(p_a, p_b), p_confidence, p_reason, p_by)
    on conflict (node_a, node_b) do update
    set confidence = excluded.confidence, reason = excluded.reason,
        judged_by = excluded.judged_by, judged_at = now();
    delete from aiq.link_pair_queue as q
    where q.node_a = least(p_a, p_b) and q.node_b = greatest(p_a, p_b);
end
$$;
alter function aiq.record_link_verdict(bigint, bigint, real, text, text) owner to aiq_engine;
comment on function aiq.record_link_verdict(bigint, bigint, real, text, text) is
    'Stores a verdict on two nodes (confidence 0: not linked) and takes the pair off the queue';
revoke all on function aiq.record_link_verdict(bigint, bigint, real, text, text) from public;
grant execute on function aiq.record_link_verdict(bigint, bigint, real, text, text) to aiq_worker;

create or replace function aiq.queue_link_pairs(p_low real, p_high real, p_limit int)
returns table (node_a bigint, node_b bigint, name_a text, name_b text, similarity real)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set pg_trgm.similarity_threshold = 0.3
set extra_float_digits = 1
as $$
begin
    if p_low is null or not (p_low > 0 and p_low <= 1) then
        raise exception using
            errcode = '22023',
            message = format('p_low is %s, but must be above 0 and at most 1', coalesce(p_low::text, 'null')),
            hint = 'Write the least similarity of a pair worth judging, such as 0.4.';
    end if;
    -- Just above 1 so that identical trigram sets (C and C++) can be asked for.
    if p_high is null or not (p_high > p_low and p_high <= 1.1::real) then
        raise exception using
            errcode = '22023',
            message = format('p_high is %s, but must be above p_low (%s) and at most 1.1', coalesce(p_high::text, 'null'), p_low),
            hint = 'Write the similarity from which a pair needs no judge, such as 0.8.';
    end if;
    if p_limit is null or p_limit < 1 then
        raise exception using
            errcode = '22023',
            message = format('p_limit is %s, but must be at least 1', coalesce(p_limit::text, 'null')),
            hint = 'Write how many pairs to queue at most.';
    end if;
    perform set_config('pg_trgm.similarity_threshold', (p_low::float8)::text, true);
    return query
    with pairs as (
        select
            a.node_id as pair_a, b.node_id as pair_b, a.key as key_a, b.key as key_b,
            @trgm@.similarity(a.key, b.key) as sim
        from aiq.node_keys as a
        join aiq.node_keys as b
            on b.key operator(@trgm@.%) a.key and b.node_id > a.node_id
        where
            a.is_name and a.retired_at is null and b.is_name and b.retired_at is null
            and a.key <> b.key
            and @trgm@.similarity(a.key, b.key) >= p_low
            and @trgm@.similarity(a.key, b.key) < p_high
            and not exists (
                select from aiq.link_verdicts as v
                where v.node_a = a.node_id and v.node_b = b.node_id
            )
            and not exists (
                select from aiq.distinct_nodes as d
                where d.node_a = a.node_id and d.node_b = b.node_id
            )
            and not exists (
                select from aiq.link_pair_queue as q
                where q.node_a = a.node_id and q.node_b = b.node_id
            )
    ),
    best as (
        select distinct on (p.pair_a, p.pair_b) p.*
        from pairs as p
        order by p.pair_a, p.pair_b, p.sim desc, p.key_a, p.key_b
    ),
    chosen as (
        select b.* from best as b order by b.sim desc, b.pair_a, b.pair_b limit p_limit
    ),
    queued as (
        insert into aiq.link_pair_queue as q (node_a, node_b, name_a, name_b, similarity)
        select c.pair_a, c.pair_b, c.key_a, c.key_b, c.sim from chosen as c
        on conflict do nothing
        returning q.node_a, q.node_b, q.name_a, q.name_b, q.similarity
    )
    select q.node_a, q.node_b, q.name_a, q.name_b, q.similarity
    from queued as q
    order by q.similarity desc, q.node_a, q.node_b;
end
$$;
alter function aiq.queue_link_pairs(real, real, int) owner to aiq_engine;
comment on function aiq.queue_link_pairs(real, real, int) is
    'Queues pairs of nodes with names of a similarity in [p_low, p_high) that have no verdict, are not known to be distinct and are not queued yet, the most similar first; returns what it queued';
revoke all on function aiq.queue_link_pairs(real, real, int) from public;
grant execute on function aiq.queue_link_pairs(real, real, int) to aiq_worker;

grant select on aiq.link_pair_queue to aiq_worker;
