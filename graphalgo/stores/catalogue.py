"""What a database is, read from its catalogue: types, relations, and what can be read in SQL."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

ENTITY_TYPES = """
select name, handle_prefix, description from aiq.entity_types_api order by name
"""
RELATIONS = """
select src_type, relation, dst_type, inverse_label, description
from aiq.relations_api order by src_type, relation, dst_type
"""

# A range rather than a pattern, which no index serves under a policy.
KEYS_WITH_PREFIX = """
select distinct key from aiq.node_keys_api
where key >= $1 and key < $1 || chr(1114111) order by key limit $2
"""

# Whoever calls: inside a definer function the current user is its owner.
CALLER = """
case current_setting('role') when 'none' then session_user::text else current_setting('role') end
"""
READABLE = f"""
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
cross join (select {CALLER} as name) as caller
where
    c.relkind in ('r', 'p', 'v', 'm', 'f')
    and n.nspname not in ('pg_catalog', 'information_schema')
    and n.nspname !~ '^pg_(toast|temp)'
    and has_schema_privilege(caller.name, n.oid, 'usage')
    and has_any_column_privilege(caller.name, c.oid, 'select')
"""
READABLE_RELATIONS = f"""
select
    n.nspname as schema, c.relname as name,
    case c.relkind
        when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table'
        else 'table'
    end as kind,
    obj_description(c.oid, 'pg_class') as description
{READABLE}
order by n.nspname collate "C", c.relname collate "C"
"""
RELATION_COLUMNS = f"""
select
    a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
    col_description(a.attrelid, a.attnum) as description
from (
    select c.oid, caller.name as caller
    {READABLE}
    and (n.nspname || '.' || c.relname = $1 or (n.nspname = 'aiq' and c.relname = $1))
    order by n.nspname || '.' || c.relname = $1 desc
    limit 1
) as r
join pg_catalog.pg_attribute as a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
where has_column_privilege(r.caller, r.oid, a.attnum, 'select')
order by a.attnum
"""
CALLABLE_FUNCTIONS = f"""
select
    p.proname as name, pg_get_function_arguments(p.oid) as arguments,
    pg_get_function_result(p.oid) as result, obj_description(p.oid, 'pg_proc') as description
from pg_catalog.pg_proc as p
join pg_catalog.pg_namespace as n on n.oid = p.pronamespace
cross join (select {CALLER} as name) as caller
where
    n.nspname = 'aiq' and p.proname = any ($1)
    and has_schema_privilege(caller.name, n.oid, 'usage')
    and has_function_privilege(caller.name, p.oid, 'execute')
order by p.proname collate "C", 2
"""


class Catalogue:
    """The part of a store on PostgreSQL that reads the catalogue."""

    def _query(
        self, text: str, types: Sequence[str], parameters: Sequence[Any]
    ) -> Sequence[Mapping[str, Any]]:
        """Run a statement of this project and return its rows."""
        raise NotImplementedError

    def _rows(
        self, text: str, types: Sequence[str] = (), parameters: Sequence[Any] = ()
    ) -> list[dict[str, Any]]:
        return [dict(row) for row in self._query(text, types, parameters)]

    def keys_with_prefix(self, prefix: str, limit: int) -> list[str]:
        rows = self._query(KEYS_WITH_PREFIX, ("text", "int"), (prefix, limit))
        return [row["key"] for row in rows]

    def entity_type_rows(self) -> list[dict[str, Any]]:
        return self._rows(ENTITY_TYPES)

    def relation_rows(self) -> list[dict[str, Any]]:
        return self._rows(RELATIONS)

    def readable_relations(self) -> list[dict[str, Any]]:
        return self._rows(READABLE_RELATIONS)

    def relation_columns(self, relation: str) -> list[dict[str, Any]] | None:
        return self._rows(RELATION_COLUMNS, ("text",), (relation,)) or None

    def callable_functions(self, names: Sequence[str]) -> list[dict[str, Any]]:
        return self._rows(CALLABLE_FUNCTIONS, ("text[]",), (list(names),))
