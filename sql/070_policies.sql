-- Who sees a row: one predicate, written once and put on every table of tenants'
-- rows. It is forced on the owner, through whose views and functions everyone
-- reads; the engine role writes and searches all rows. The caller's audiences
-- are constant for a statement, so they are asked for once.
--
-- An edge is visible only if its own scope and both its ends' are.
do $$
declare
    item record;
    audience text;
    visible text;
begin
    for item in
        select *
        from (values
            ('nodes', array['audience']),
            ('node_keys', array['audience']),
            ('edges', array['audience', 'src_audience', 'dst_audience']),
            ('link_verdicts', array[]::text[]),
            ('link_pair_queue', array[]::text[])
        ) as t (name, audiences)
    loop
        visible := 'true';
        foreach audience in array item.audiences loop
            visible := visible || format(
                ' and (%1$I is null or %1$I = any ((select rbac.caller_audiences())::uuid[]))',
                audience
            );
        end loop;
        execute format('alter table aiq.%I enable row level security', item.name);
        execute format('alter table aiq.%I force row level security', item.name);
        execute format('drop policy if exists caller_sees on aiq.%I', item.name);
        execute format(
            'create policy caller_sees on aiq.%I for select to aiq_owner using (%s)',
            item.name, visible
        );
        execute format('drop policy if exists engine_does on aiq.%I', item.name);
        execute format(
            'create policy engine_does on aiq.%I to aiq_engine using (true) with check (true)',
            item.name
        );
    end loop;
end
$$;

-- Workers judge pairs of every tenant.
drop policy if exists worker_reads on aiq.link_pair_queue;
create policy worker_reads on aiq.link_pair_queue for select to aiq_worker using (true);
