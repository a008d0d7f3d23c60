-- The schemas and the installer's own books. Roles and extensions are there
-- already: the installer makes them, since they are not this database's alone.

create schema if not exists aiq authorization aiq_owner;
create schema if not exists rbac authorization aiq_owner;
grant usage on schema aiq to aiq_owner, aiq_engine, authenticated, aiq_worker;
grant usage on schema rbac to aiq_owner, aiq_engine;

create table if not exists aiq.meta (
    key text collate "C" primary key,
    value text not null
);
alter table aiq.meta owner to aiq_owner;
comment on table aiq.meta is
    'What is installed here: schema_version, the digest of the files that made it, whether with PL/Python';

create table if not exists aiq.installed_objects (
    kind text collate "C" not null,
    name text collate "C" not null,
    primary key (kind, name)
);
alter table aiq.installed_objects owner to aiq_owner;
comment on table aiq.installed_objects is
    'Everything that installing made, and nothing else: what is listed is ours to replace and to remove';
comment on column aiq.installed_objects.name is
    'The identity of the object as pg_identify_object tells it for this kind; the bare name for a role, an extension or a schema';
