-- What the writers keep beside the graph itself: who has asserted an edge, which
-- soft nodes have been folded into which typed ones, and which nodes are known
-- to be different.

create table if not exists aiq.edge_assertions (
    edge_id bigint not null references aiq.edges (id) on delete cascade,
    memory text collate "C" not null,
    agent text,
    stated_from timestamptz not null,
    weight real not null,
    asserted_at timestamptz not null default now(),
    primary key (edge_id, memory)
);
alter table aiq.edge_assertions owner to aiq_owner;
comment on table aiq.edge_assertions is
    'The memories that have asserted an edge, each with its earliest start and greatest weight; each may close the edge';
create index if not exists edge_assertions_memory on aiq.edge_assertions (memory, edge_id);

create table if not exists aiq.node_promotions (
    soft_id bigint primary key references aiq.nodes (id) on delete cascade,
    node_id bigint not null references aiq.nodes (id) on delete cascade,
    promoted_by text,
    evidence jsonb,
    promoted_at timestamptz not null default now()
);
alter table aiq.node_promotions owner to aiq_owner;
comment on table aiq.node_promotions is
    'The soft nodes that turned out to be typed ones: what names the soft node names the typed one from then on';
create index if not exists node_promotions_node on aiq.node_promotions (node_id);

create table if not exists aiq.distinct_nodes (
    node_a bigint not null references aiq.nodes (id) on delete cascade,
    node_b bigint not null references aiq.nodes (id) on delete cascade,
    recorded_by text,
    evidence jsonb,
    recorded_at timestamptz not null default now(),
    primary key (node_a, node_b),
    check (node_a < node_b)
);
alter table aiq.distinct_nodes owner to aiq_owner;
comment on table aiq.distinct_nodes is
    'Pairs of nodes that are known not to be the same, the lower id first: similar and judged never link them';
create index if not exists distinct_nodes_b on aiq.distinct_nodes (node_b, node_a);

-- A name that came with a promoted soft node stays with those who could see that
-- node, wherever the typed node is seen by more.
alter table aiq.node_keys add column if not exists promoted_from bigint;
alter table aiq.node_keys add column if not exists narrowed_to uuid;
comment on column aiq.node_keys.promoted_from is
    'The soft node whose promotion brought this key; such a key is not of the source table, and rebuilding leaves it';
comment on column aiq.node_keys.narrowed_to is
    'The only audience of this key where the node is seen by more; null: whoever sees the node';
create index if not exists node_keys_promoted_from
    on aiq.node_keys (promoted_from) where promoted_from is not null;

-- The closed periods of one fact, so that a stated start finds its place at once.
create index if not exists edges_closed_periods
    on aiq.edges (src_id, relation, dst_id, valid_to) where valid_to is not null;

grant select, insert, update, delete on
    aiq.edge_assertions, aiq.node_promotions, aiq.distinct_nodes
    to aiq_engine;

do $$
declare
    name text;
begin
    foreach name in array array['edge_assertions', 'node_promotions', 'distinct_nodes'] loop
        execute format('alter table aiq.%I enable row level security', name);
        execute format('alter table aiq.%I force row level security', name);
        -- The views below show a row only with the nodes or the edge it is about.
        execute format('drop policy if exists caller_sees on aiq.%I', name);
        execute format('create policy caller_sees on aiq.%I for select to aiq_owner using (true)', name);
        execute format('drop policy if exists engine_does on aiq.%I', name);
        execute format(
            'create policy engine_does on aiq.%I to aiq_engine using (true) with check (true)', name
        );
    end loop;
end
$$;

create or replace view aiq.distinct_nodes_api with (security_barrier) as
    select d.node_a, d.node_b
    from aiq.distinct_nodes as d
    where
        (select rbac.caller_audiences()) is not null
        and (select true from aiq.nodes as a where a.id = d.node_a)
        and (select true from aiq.nodes as b where b.id = d.node_b);
alter view aiq.distinct_nodes_api owner to aiq_owner;
comment on view aiq.distinct_nodes_api is
    'The pairs of nodes, the lower id first, that are known not to be the same and of which both can be seen, retired ones too';

create or replace view aiq.edge_assertions_api with (security_barrier) as
    select a.edge_id, a.memory, a.agent, a.stated_from, a.weight, a.asserted_at
    from aiq.edge_assertions as a
    where
        (select rbac.caller_audiences()) is not null
        and (select true from aiq.edges as e where e.id = a.edge_id);
alter view aiq.edge_assertions_api owner to aiq_owner;
comment on view aiq.edge_assertions_api is 'The memories that have asserted the edges that can be seen';

grant select on aiq.distinct_nodes_api, aiq.edge_assertions_api
    to authenticated, aiq_worker, aiq_engine;
