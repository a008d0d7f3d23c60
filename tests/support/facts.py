"""The writers called as a worker calls them, and what they have written read back."""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

ORG_A = "d0000000-0000-0000-0000-00000000000a"
ORG_B = "d0000000-0000-0000-0000-00000000000b"
USER_A = "e0000000-0000-0000-0000-00000000000a"
USER_B = "e0000000-0000-0000-0000-00000000000b"

JANUARY, FEBRUARY, MARCH, APRIL = (f"2024-0{month}-01T00:00:00Z" for month in (1, 2, 3, 4))
FUTURE, FAR_FUTURE = "2124-01-01T00:00:00Z", "2125-01-01T00:00:00Z"

TYPES = {"person": "P", "company": "C", "Vessel": "V"}
RELATIONS = [
    ("person", "works_for", "company"),
    ("person", "knows", "person"),
    ("company", "owns", "Vessel"),
    ("company", "owns", "company"),
]


class Period(NamedTuple):
    """One row of `aiq.edges`, times as text in UTC."""

    id: int
    src: int
    relation: str
    dst: int
    weight: float
    start: str
    end: str | None
    memory: str | None
    closed_by: str | None


class Facts:
    """A database with a vocabulary, two organisations and a user of each.

    Parameters
    ----------
    connection : psycopg.Connection
        A superuser's, in autocommit mode.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        connection.execute("set timezone = 'UTC'")

    def prepare(self) -> None:
        """Fill in the vocabulary and the tenants."""
        with self.connection.cursor() as cursor:
            cursor.executemany(
                "insert into aiq.entity_types (name, handle_prefix) values (%s, %s)",
                list(TYPES.items()),
            )
            cursor.executemany("insert into aiq.relations values (%s, %s, %s)", RELATIONS)
            cursor.executemany(
                "insert into rbac.orgs (id, slug) values (%s, %s)", [(ORG_A, "a"), (ORG_B, "b")]
            )
            cursor.executemany("insert into rbac.users (id) values (%s)", [(USER_A,), (USER_B,)])
            cursor.executemany(
                "insert into rbac.org_members (org_id, user_id) values (%s, %s)",
                [(ORG_A, USER_A), (ORG_B, USER_B)],
            )

    def clear(self) -> None:
        """Take all nodes and edges away."""
        self.connection.execute("truncate aiq.nodes restart identity cascade")

    def upsert(self, graph: Any, **context: Any) -> dict[str, Any]:
        """Call `aiq.upsert_graph` as a worker."""
        return self.call("upsert_graph", Jsonb(graph), Jsonb(context))  # type: ignore[no-any-return]

    def state(
        self,
        source: str,
        relation: str,
        target: str,
        *,
        w: float | None = None,
        **context: Any,
    ) -> int:
        """State one fact between two nodes written `kind/name`; returns the edge."""
        nodes = [dict(zip("kn", end.split("/", 1), strict=True)) for end in (source, target)]
        edge = {"s": 0, "t": 1, "r": relation} | ({} if w is None else {"w": w})
        written = self.upsert({"nodes": nodes, "edges": [edge]}, **context)
        return int(written["edges"][0])

    def node(self, kind: str, name: str, **context: Any) -> int:
        """Name one node; returns it."""
        return int(self.upsert({"nodes": [{"k": kind, "n": name}]}, **context)["nodes"][0])

    def call(self, function: str, *positional: Any, **named: Any) -> Any:
        """Call a function of the schema `aiq` as a worker."""
        marks = [sql.SQL("%s")] * len(positional) + [
            sql.SQL("p_{} => %s").format(sql.SQL(name)) for name in named
        ]
        query = sql.SQL("select aiq.{}({})").format(
            sql.Identifier(function), sql.SQL(", ").join(marks)
        )
        with self.connection.transaction():
            self.connection.execute("set local role aiq_worker")
            row = self.connection.execute(query, [*positional, *named.values()]).fetchone()
            # In a transaction of the caller's the role would stay.
            self.connection.execute("set local role none")
        assert row is not None
        return row[0]

    def close(self, at: str | None = None, **named: Any) -> int:
        """Call `aiq.close_edge` as a worker."""
        moment = {} if at is None else {"at": at}
        return int(self.call("close_edge", **moment, **named))

    def typed(
        self,
        entity_type: str,
        *keys: str,
        org: str | None = None,
        visibility: str = "org",
        owner: str | None = None,
        is_name: bool = True,
    ) -> int:
        """Make a typed node with canonical keys; returns it."""
        made = self.one(
            "insert into aiq.nodes (entity_type, org_id, visibility, owner_id)"
            " values (%s, %s, %s, %s) returning id",
            entity_type, org, visibility, owner,
        )  # fmt: skip
        for key in keys:
            self.connection.execute(
                "insert into aiq.node_keys (node_id, key, kind, is_name)"
                " values (%s, %s, 'canonical', %s)",
                (made, key, is_name),
            )
        return int(made)

    def retire(self, node: int, retired: bool = True) -> None:
        """Retire a node, or bring it back."""
        self.connection.execute(
            "update aiq.nodes set retired_at = case when %s then now() end where id = %s",
            (retired, node),
        )

    def periods(self, edge: int | None = None) -> list[Period]:
        """Read the edges, or the one that is asked for, in the order of their starts."""
        rows = self.connection.execute(
            "select id, src_id, relation, dst_id, weight, valid_from::text, valid_to::text,"
            " memory, closed_by from aiq.edges where %(edge)s::bigint is null or id = %(edge)s"
            " order by valid_from, id",
            {"edge": edge},
        )
        return [Period(*row) for row in rows]

    def spans(self) -> list[tuple[str, str | None]]:
        """Read the starts and ends of all edges, days alone."""
        return [(row.start[:10], row.end and row.end[:10]) for row in self.periods()]

    def memories(self, edge: int) -> set[str]:
        """Read who has asserted an edge."""
        rows = self.connection.execute(
            "select memory from aiq.edge_assertions where edge_id = %s", (edge,)
        )
        return {row[0] for row in rows}

    def seen_edges(self, sub: str | None) -> list[int]:
        """Read the current edges that a caller sees."""
        return [row[0] for row in self.seen("select id from aiq.edges_current order by id", sub)]

    def seen_keys(self, node: int, sub: str | None) -> list[str]:
        """Read the keys of a node that a caller sees."""
        query = f"select key from aiq.node_keys_api where node_id = {int(node)} order by key"
        return [row[0] for row in self.seen(query, sub)]

    def seen(self, query: str, sub: str | None) -> list[Any]:
        """Run a query as a caller."""
        claims = "" if sub is None else f'{{"sub": "{sub}"}}'
        with self.connection.transaction():
            self.connection.execute("set local role authenticated")
            self.connection.execute("select set_config('request.jwt.claims', %s, true)", (claims,))
            rows = self.connection.execute(query.encode()).fetchall()
            self.connection.execute("set local role none")
        return rows

    def one(self, query: str, *parameters: Any) -> Any:
        """Run a query for one value."""
        row = self.connection.execute(query.encode(), parameters).fetchone()
        assert row is not None
        return row[0]

    def count(self) -> tuple[int, int, int, int]:
        """Count the nodes, keys, edges and assertions."""
        tables = ("nodes", "node_keys", "edges", "edge_assertions")
        a, b, c, d = (self.one(f"select count(*) from aiq.{table}") for table in tables)
        return a, b, c, d
