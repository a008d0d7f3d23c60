"""What lies in our schemas, what of it we made, and what depends on it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from graphalgo.install.connection import Connection

SCHEMAS = ("aiq", "rbac")
# What is recorded by its bare name. All other kinds are those of pg_identify_object.
ROLE, EXTENSION, SCHEMA, GRANT = "role", "extension", "schema", "grant"
NAMED_KINDS = (ROLE, EXTENSION, SCHEMA, GRANT)

Address: TypeAlias = tuple[int, int]
Entry: TypeAlias = tuple[str, str]
# An object, or with a number other than 0 one of its columns.
_Part: TypeAlias = tuple[int, int, int]

# pg_depend knows what lies in a schema directly; indexes, policies and triggers
# lie on their table, and some triggers of ours on tables elsewhere. What an
# extension brought is the extension's.
_LISTED = """
with direct (classid, objid) as (
    select d.classid, d.objid
    from pg_catalog.pg_depend as d
    join pg_catalog.pg_namespace as n on n.oid = d.refobjid
    where
        d.refclassid = 'pg_catalog.pg_namespace'::regclass
        and n.nspname = any (%(schemas)s)
        and not exists (
            select from pg_catalog.pg_depend as e
            where e.classid = d.classid and e.objid = d.objid and e.deptype = 'e'
        )
),
listed (classid, objid) as (
    select classid, objid from direct
    union
    select 'pg_catalog.pg_class'::regclass, i.indexrelid
    from direct join pg_catalog.pg_index as i on i.indrelid = objid
    where classid = 'pg_catalog.pg_class'::regclass
    union
    select 'pg_catalog.pg_policy'::regclass, p.oid
    from direct join pg_catalog.pg_policy as p on p.polrelid = objid
    where classid = 'pg_catalog.pg_class'::regclass
    union
    select 'pg_catalog.pg_trigger'::regclass, t.oid
    from direct join pg_catalog.pg_trigger as t on t.tgrelid = objid and not t.tgisinternal
    where classid = 'pg_catalog.pg_class'::regclass
    union
    select 'pg_catalog.pg_trigger'::regclass, t.oid
    from pg_catalog.pg_trigger as t
    cross join lateral
        pg_catalog.pg_identify_object('pg_catalog.pg_trigger'::regclass, t.oid, 0) as i
    where not t.tgisinternal and i.identity = any (%(triggers)s)
)
select
    l.classid::bigint, l.objid::bigint, i.type, i.identity,
    coalesce(p.xmin::text, r.oid::text || ' ' || r.xmin::text, '')
from listed as l
cross join lateral pg_catalog.pg_identify_object(l.classid, l.objid, 0) as i
left join pg_catalog.pg_proc as p
    on l.classid = 'pg_catalog.pg_proc'::regclass and p.oid = l.objid
left join pg_catalog.pg_rewrite as r
    on l.classid = 'pg_catalog.pg_class'::regclass and r.ev_class = l.objid
    and r.rulename = '_RETURN'
order by i.type, i.identity
"""

# Follows dependence outwards, as DROP ... CASCADE would: whatever depends on a
# reached object or column is reached, and so is the whole that a reached part is
# an internal part of (a view's rule takes the view with it, the expression of a
# generated column the column).
_REACHED = """
with recursive reached (classid, objid, objsubid) as (
    select unnest(%(classids)s::bigint[])::oid, unnest(%(objids)s::bigint[])::oid, 0
    union
    select step.classid, step.objid, step.objsubid
    from reached
    cross join lateral (
        select d.classid, d.objid, d.objsubid
        from pg_catalog.pg_depend as d
        where
            d.refclassid = reached.classid and d.refobjid = reached.objid
            and (reached.objsubid = 0 or d.refobjsubid = reached.objsubid)
        union all
        select d.refclassid, d.refobjid, d.refobjsubid
        from pg_catalog.pg_depend as d
        where
            d.classid = reached.classid and d.objid = reached.objid
            and d.objsubid = reached.objsubid and d.deptype = 'i'
    ) as step
)
select
    r.classid::bigint, r.objid::bigint, r.objsubid,
    pg_catalog.pg_describe_object(r.classid, r.objid, r.objsubid),
    d.refclassid::bigint, d.refobjid::bigint, d.refobjsubid, d.deptype::text
from reached as r
left join pg_catalog.pg_depend as d
    on d.classid = r.classid and d.objid = r.objid and d.objsubid = r.objsubid
    and d.deptype in ('i', 'a')
order by 4
"""

# What registering puts on tables of others. Nobody but the engine may execute the function.
_STEP_TRIGGERS = "graphalgo_(insert|update|delete|truncate)"
_STEPPING = """
select i.type, i.identity
from pg_catalog.pg_trigger as t
join pg_catalog.pg_proc as p on p.oid = t.tgfoid
join pg_catalog.pg_namespace as n on n.oid = p.pronamespace
cross join lateral
    pg_catalog.pg_identify_object('pg_catalog.pg_trigger'::regclass, t.oid, 0) as i
where n.nspname = 'aiq' and p.proname = 'keep_in_step' and t.tgname ~ %s
"""


@dataclass(frozen=True, slots=True)
class DatabaseObject:
    """An object of the database.

    Attributes
    ----------
    address : tuple of int
        The catalogue it is in and its oid there.
    kind : str
        What it is, such as ``table`` or ``function``.
    name : str
        Its identity; two objects of one kind never share one.
    written : str
        Changes whenever the function or view is created or replaced.
    """

    address: Address
    kind: str
    name: str
    written: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def entry(self) -> Entry:
        """The object as ``aiq.installed_objects`` records it."""
        return (self.kind, self.name)


def in_schemas(connection: Connection, recorded: Collection[Entry] = ()) -> list[DatabaseObject]:
    """List what lies in our schemas, whoever made it, and our triggers elsewhere.

    Parameters
    ----------
    connection : psycopg.Connection
        Anyone's.
    recorded : collection of (str, str)
        What is recorded as ours, for the triggers on tables of others.

    Returns
    -------
    list of DatabaseObject
        By kind and name.
    """
    triggers = [name for kind, name in recorded if kind == "trigger"]
    parameters = {"schemas": list(SCHEMAS), "triggers": triggers}
    rows = connection.execute(_LISTED.encode(), parameters).fetchall()
    return [DatabaseObject((row[0], row[1]), *row[2:]) for row in rows]


def schemas_there(connection: Connection) -> list[str]:
    """Tell which of our schemas there are, whoever made them."""
    rows = connection.execute(
        "select nspname from pg_catalog.pg_namespace where nspname = any (%s) order by 1",
        (list(SCHEMAS),),
    ).fetchall()
    return [row[0] for row in rows]


def recorded_entries(connection: Connection) -> set[Entry]:
    """Read what is recorded as made by an installation; nothing where there is none.

    The triggers on registered tables are looked up as they are now: their owner may
    have renamed, moved or dropped the table since they were put there.
    """
    if not has_books(connection):
        return set()
    rows = connection.execute(
        "select kind, name from aiq.installed_objects where not (kind = 'trigger' and name ~ %s)",
        (rf"^{_STEP_TRIGGERS} on ",),
    ).fetchall()
    rows += connection.execute(_STEPPING.encode(), (rf"^{_STEP_TRIGGERS}$",)).fetchall()
    return {(row[0], row[1]) for row in rows}


def has_books(connection: Connection) -> bool:
    """Tell whether graphalgo has been installed in this database."""
    # Looked up in the catalogue, since to_regclass asks for usage on the schema.
    row = connection.execute(
        "select count(*) from pg_catalog.pg_class as c"
        " join pg_catalog.pg_namespace as n on n.oid = c.relnamespace"
        " where n.nspname = 'aiq' and c.relname in ('installed_objects', 'meta')"
    ).fetchone()
    return row is not None and row[0] == 2


def dependents(
    connection: Connection,
    start: Iterable[DatabaseObject],
    ours: Collection[Address],
    *,
    parts_go_along: bool,
) -> list[str]:
    """Name what would go with some objects but is not ours.

    Parameters
    ----------
    connection : psycopg.Connection
        Anyone's.
    start : iterable of DatabaseObject
        What is to be dropped.
    ours : collection of (int, int)
        Addresses of what we made.
    parts_go_along : bool
        Whether a part of an object of ours counts as ours, such as an index that
        somebody made on our table: true if the table itself goes.

    Returns
    -------
    list of str
        Descriptions such as ``view public.strongest``; empty if all that goes is ours.
    """
    addresses = [item.address for item in start]
    rows = connection.execute(
        _REACHED.encode(),
        {"classids": [a for a, _ in addresses], "objids": [b for _, b in addresses]},
    ).fetchall()
    described: dict[_Part, str] = {}
    wholes: dict[_Part, list[tuple[_Part, str]]] = {}
    for row in rows:
        part, description, whole, how = row[:3], row[3], row[4:7], row[7]
        described[part] = description
        if how is not None:
            wholes.setdefault(part, []).append((whole, how))
        if part[2]:
            wholes.setdefault(part, []).append(((part[0], part[1], 0), "a"))
    mine = _with_parts({(a, b, 0) for a, b in ours}, wholes, "ia" if parts_go_along else "i")
    foreign = {part for part in described if part not in mine}
    # A part is told by its whole: not a view's rule but the view.
    return [
        text
        for part, text in described.items()
        if part in foreign
        and not any({at, (at[0], at[1], 0)} & foreign for at, _ in wholes.get(part, ()))
    ]


def _with_parts(
    mine: set[_Part], wholes: dict[_Part, list[tuple[_Part, str]]], kinds: str
) -> set[_Part]:
    """Add the parts of what is ours, the parts of those parts, and so on."""
    while True:
        # What depends on a column of ours depends on a part of our table.
        parts = {
            part
            for part, belongs in wholes.items()
            if part not in mine
            and any(
                how in kinds and (at in mine or (at[0], at[1], 0) in mine) for at, how in belongs
            )
        }
        if not parts:
            return mine
        mine |= parts


def listing(names: Sequence[str]) -> str:
    """Join names in a sentence; of many, the first ten and how many more."""
    shown = list(names[:10])
    if len(names) > len(shown):
        shown.append(f"{len(names) - len(shown)} more")
    return ", ".join(shown[:-1]) + " and " + shown[-1] if len(shown) > 1 else "".join(shown)
