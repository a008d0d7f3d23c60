-- What an edge or a key is about does not change: checks and copies are made when
-- it is written. Another end, relation or node is another row.

create or replace function aiq.refuse_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = '55000',
        message = format('the %s of a row of aiq.%I do not change', tg_argv[0], tg_table_name),
        hint = 'End or delete the row, and insert another.';
end
$$;
alter function aiq.refuse_change() owner to aiq_engine;
comment on function aiq.refuse_change() is
    'Trigger: refuses to change what a row is about';
revoke all on function aiq.refuse_change() from public;

create or replace trigger edges_fixed before update of src_id, dst_id, relation on aiq.edges
for each row
when (
    old.src_id is distinct from new.src_id or old.dst_id is distinct from new.dst_id
    or old.relation is distinct from new.relation
)
execute function aiq.refuse_change('ends and the relation');

create or replace trigger node_keys_fixed before update of node_id on aiq.node_keys
for each row
when (old.node_id is distinct from new.node_id)
execute function aiq.refuse_change('nodes');
