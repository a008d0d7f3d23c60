-- What rows written by an earlier version lack. Run over an empty database and over
-- one of this version, nothing here changes anything.

-- 0.1.0 knew no other assertion of an edge than the memory written on it.
do $$
begin
    if exists (select from aiq.meta as m where m.key = 'schema_version' and m.value = '0.1.0') then
        insert into aiq.edge_assertions (edge_id, memory, stated_from, weight)
        select e.id, e.memory, e.valid_from, e.weight
        from aiq.edges as e
        where e.memory is not null
        on conflict do nothing;
    end if;
end
$$;
