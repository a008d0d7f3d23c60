"""What a database's catalogue says of some schemas, in full, so that two can be compared."""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg

Schema: TypeAlias = dict[str, list[tuple[Any, ...]]]

OURS = ("aiq", "rbac")

# Objects are named and never told by their oid; the order of grants and of columns
# that were dropped meanwhile makes no difference.
_ACL = "array(select a::text from unnest({}) as a order by 1)"
_QUERIES = {
    "schemas": f"""
        select n.nspname, n.nspowner::regrole::text, {_ACL.format("n.nspacl")}
        from pg_namespace as n where n.nspname = any (%(schemas)s)
    """,
    "relations": f"""
        select n.nspname, c.relname, c.relkind::text, c.relowner::regrole::text,
            {_ACL.format("c.relacl")}, c.reloptions, c.relrowsecurity, c.relforcerowsecurity,
            c.relpersistence::text, c.relreplident::text
        from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = any (%(schemas)s)
    """,
    "columns": f"""
        select c.oid::regclass::text,
            row_number() over (partition by c.oid order by a.attnum), a.attname,
            format_type(a.atttypid, a.atttypmod), a.attnotnull,
            (select l.collname from pg_collation as l where l.oid = a.attcollation),
            a.attidentity::text, a.attgenerated::text, a.attstorage::text,
            coalesce(a.attstattarget, -1), pg_get_expr(d.adbin, d.adrelid),
            {_ACL.format("a.attacl")}
        from pg_class as c
        join pg_namespace as n on n.oid = c.relnamespace
        join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        left join pg_attrdef as d on d.adrelid = c.oid and d.adnum = a.attnum
        where n.nspname = any (%(schemas)s)
    """,
    "constraints": """
        select k.conrelid::regclass::text, k.conname, pg_get_constraintdef(k.oid),
            k.convalidated
        from pg_constraint as k join pg_namespace as n on n.oid = k.connamespace
        where n.nspname = any (%(schemas)s)
    """,
    "indexes": """
        select x.indrelid::regclass::text, x.indexrelid::regclass::text,
            pg_get_indexdef(x.indexrelid), x.indisvalid, x.indisclustered
        from pg_index as x join pg_class as c on c.oid = x.indrelid
        join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = any (%(schemas)s)
    """,
    "views": """
        select schemaname, viewname, definition from pg_views where schemaname = any (%(schemas)s)
    """,
    "functions": f"""
        select p.oid::regprocedure::text, p.proowner::regrole::text, {_ACL.format("p.proacl")},
            p.proconfig, p.proleakproof, p.proparallel::text, p.prosrc,
            case p.prokind when 'a' then null else pg_get_functiondef(p.oid) end
        from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
        where n.nspname = any (%(schemas)s)
    """,
    "types": f"""
        select t.oid::regtype::text, t.typtype::text, t.typowner::regrole::text,
            {_ACL.format("t.typacl")}
        from pg_type as t join pg_namespace as n on n.oid = t.typnamespace
        where n.nspname = any (%(schemas)s)
    """,
    "sequences": """
        select schemaname, sequencename, sequenceowner, data_type::text, start_value, min_value,
            max_value, increment_by, cycle, cache_size
        from pg_sequences where schemaname = any (%(schemas)s)
    """,
    "statistics": """
        select pg_get_statisticsobjdef(s.oid) from pg_statistic_ext as s
        join pg_namespace as n on n.oid = s.stxnamespace where n.nspname = any (%(schemas)s)
    """,
    "triggers": """
        select t.tgrelid::regclass::text, t.tgname, pg_get_triggerdef(t.oid), t.tgenabled::text
        from pg_trigger as t join pg_class as c on c.oid = t.tgrelid
        join pg_namespace as n on n.oid = c.relnamespace
        where not t.tgisinternal and n.nspname = any (%(schemas)s)
    """,
    "policies": """
        select schemaname, tablename, policyname, permissive, roles::text, cmd, qual, with_check
        from pg_policies where schemaname = any (%(schemas)s)
    """,
    "rules": """
        select schemaname, tablename, rulename, definition
        from pg_rules where schemaname = any (%(schemas)s)
    """,
    "comments": """
        select i.type, i.identity, d.description
        from pg_description as d
        cross join lateral pg_identify_object(d.classoid, d.objoid, d.objsubid) as i
        where
            i.schema = any (%(schemas)s) or i.identity = any (%(schemas)s)
            or exists (
                select from unnest(%(schemas)s) as s (name)
                where i.identity ~ (' on (function |type )?"?' || s.name || '"?[.]')
            )
    """,
    "default privileges": f"""
        select d.defaclrole::regrole::text, coalesce(n.nspname, ''), d.defaclobjtype::text,
            {_ACL.format("d.defaclacl")}
        from pg_default_acl as d left join pg_namespace as n on n.oid = d.defaclnamespace
    """,
    "extensions": """
        select e.extname, n.nspname, e.extversion
        from pg_extension as e join pg_namespace as n on n.oid = e.extnamespace
    """,
}


def schema_of(dsn: str, *schemas: str) -> Schema:
    """Everything that the catalogue says of those schemas (by default ours), sorted."""
    parameters = {"schemas": list(schemas or OURS)}
    with psycopg.connect(dsn) as connection:
        # Names are then written with their schema, wherever they lie.
        connection.execute("set search_path = pg_catalog")
        return {
            what: sorted(connection.execute(query.encode(), parameters).fetchall(), key=repr)
            for what, query in _QUERIES.items()
        }


def differences(one: Schema, other: Schema) -> dict[str, tuple[list[Any], list[Any]]]:
    """What either has and the other has not, by kind; empty if they are the same."""
    return {
        what: (
            [row for row in one[what] if row not in other[what]],
            [row for row in other[what] if row not in one[what]],
        )
        for what in one
        if one[what] != other[what]
    }
