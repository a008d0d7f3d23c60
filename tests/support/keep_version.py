"""Keep a version that came out, so that upgrading from it can be tested for good.

Run it in a checkout of that version, with that version's own package:

    PYTHONPATH=$PWD python .../tests/support/keep_version.py 0.3.1.tar.xz

It loads the harbour sample into a private cluster as that version does, and writes
one archive: `sql/` and `plpy/` as they are, `harbour.sql`, the statements by which the
sample was loaded and some more, `names.sql`, the rows of its index of names, which no
other version writes so, and `answers.json`, what that version then answered.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from psycopg import sql

from graphalgo.cluster import down, up
from graphalgo.install import install
from graphalgo.loading import load_harbour
from tests.support.server import ServerFunctions

# What the sample has none of: a vessel that is retired and one of an organisation, ended
# and remembered edges, one to a soft node, verdicts, a pair to be judged, one known to be
# distinct, and a soft node that has been folded into a typed one.
MORE = """
insert into harbour.vessels (id, name, imo, status, org) values
    (6, 'Old Hulk', '9000001', 'in_service', null),
    (7, 'Quiet Runner', '9000002', 'in_service', 'd0000000-0000-0000-0000-00000000000a');
select aiq.upsert_graph(
    '{"nodes": [{"k": "vessel", "n": "Meridian Dawn"}, {"k": "port", "n": "Felixstowe"}],
      "edges": [{"s": 0, "t": 1, "r": "last_called", "w": 0.9}]}',
    '{"agent": "log", "memory": "log-1", "valid_from": "2023-01-01T00:00:00Z"}'
);
select aiq.close_edge('2024-02-01 00:00:00+00', 'log-2', p_memory => 'log-1',
    p_relation => 'last_called');
select aiq.upsert_graph(
    '{"nodes": [{"k": "vessel", "n": "Quiet Runner"}, {"k": "operator", "n": "NORD"}],
      "edges": [{"s": 0, "t": 1, "r": "operated_by", "w": 0.8}]}',
    '{"agent": "log", "memory": "log-3", "valid_from": "2023-06-01T00:00:00Z",
      "org": "d0000000-0000-0000-0000-00000000000a"}'
);
select aiq.upsert_graph(
    '{"nodes": [{"k": "vessel", "n": "Meridian Star"}, {"k": "project", "n": "Harbour Rewrite"},
                {"k": "vessel", "n": "Old Hulk"}, {"k": "operator", "n": "KEST"}],
      "edges": [{"s": 0, "t": 1, "r": "last_called", "w": 0.5},
                {"s": 2, "t": 3, "r": "operated_by"}]}',
    '{"agent": "log", "memory": "log-4", "valid_from": "2023-06-01T00:00:00Z"}'
);
update harbour.vessels set status = 'scrapped' where id = 6;
insert into aiq.link_verdicts (node_a, node_b, confidence, reason, judged_by)
select least(a.node_id, b.node_id), greatest(a.node_id, b.node_id), v.confidence, v.reason,
    'a worker'
from (values ('meridian dawn', 0.9, 'a misspelling'), ('meridian star', 0, 'another ship'))
    as v (key, confidence, reason)
join aiq.node_keys as a on a.key = v.key
join aiq.node_keys as b on b.key = 'meridien dawn';
insert into aiq.link_pair_queue (node_a, node_b, name_a, name_b, similarity)
select a.node_id, b.node_id, a.key, b.key, 0.5
from aiq.node_keys as a join aiq.node_keys as b on a.node_id < b.node_id
where a.key in ('meridian dawn', 'meridian star') and b.key in ('meridian dawn', 'meridian star');
select aiq.upsert_graph(
    '{"nodes": [{"k": "vessel", "n": "Aurora Kestrell"}, {"k": "vessel", "n": "Bulk Armony"}]}',
    '{"agent": "docs"}'
);
select aiq.promote_soft_node(s.node_id, t.node_id)
from aiq.node_keys as s join aiq.node_keys as t on t.key = 'aurora kestrel'
where s.key = 'aurora kestrell';
select aiq.record_distinct(s.node_id, t.node_id)
from aiq.node_keys as s join aiq.node_keys as t on t.key = 'bulk harmony'
where s.key = 'bulk armony';
"""
# From 0.3.0 on entities have titles, texts, vectors and a policy.
DOCUMENTS = """
create table harbour.berths (id int primary key, name text, title text, body text);
grant usage on schema harbour to public;
create function harbour.may_open(p_nodes bigint[]) returns setof bigint language sql stable as $$
    select n.id from aiq.nodes_api as n where n.id = any (p_nodes) and n.summary <> 'Navy Pier'
$$;
insert into aiq.entity_types (name, handle_prefix, description) values
    ('berth', 'BTH', 'a place to lie at');
insert into harbour.berths values
    (1, 'North Quay', 'North quay', 'Deep water and a crane for boilers.'),
    (2, 'South Quay', 'South quay', 'Shallow; no crane.'),
    (3, 'Navy Pier', 'Navy pier', 'A crane that is nobody else''s.');
select aiq.register_entity_table(
    'berth', 'harbour.berths', 'name', 'name', p_number_expr => 'id', p_title_expr => 'title',
    p_body_expr => 'body', p_policy => 'harbour.may_open'
);
select aiq.put_entity_embeddings(
    'hand-4d', array['BTH-1', 'BTH-2'], '{{0, 0, 1, 1}, {1, 0, 0, 0}}'
);
"""
# Names beside the sample's, so that the index of names has several kinds of lists.
NAMES = """
insert into aiq.entity_types (name, handle_prefix) values ('company', 'CO');
insert into aiq.nodes (id, entity_type)
select 1000 + g, 'company' from generate_series(1, 600) as g;
insert into aiq.node_keys (node_id, key, kind)
select 1000 + g, (array['global', 'baltic', 'nordic', 'café', '東京海上'])[g % 5 + 1] || ' '
    || (array['trading', 'shipping', 'freight'])[g % 3 + 1] || ' ' || g / 15, 'canonical'
from generate_series(1, 600) as g;
"""
LATER_NAMES = """
insert into aiq.nodes (id, entity_type)
select {first} + g, 'company' from generate_series(1, 9) as g;
insert into aiq.node_keys (node_id, key, kind)
select {first} + g, 'baltic freight {first}' || g, 'canonical' from generate_series(1, 9) as g;
"""
CHANGED_NAMES = """
update aiq.node_keys set key = 'renamed ' || key where node_id between 1001 and 1005;
delete from aiq.node_keys where node_id between 1006 and 1009;
"""

QUESTIONS: list[dict[str, Any]] = [
    {"call": "lookup", "arguments": {"keys": ["Meridian Dawn", "9331802", "meridian", "VSL-1",
     "nobody", "old hulk", "aurora kestrell", "quiet runner", "VSL-5", "VSL-6"]}},
    {"call": "lookup", "arguments": {"keys": ["meridian dwan", "rotterdamm"], "fuzzy": True,
     "limit": 5}},
    {"call": "walk", "arguments": {"key": "Meridian Dawn", "depth": 3}},
    {"call": "walk", "arguments": {"key": "VSL-2", "depth": 2, "degree_cap": 1}},
    {"call": "walk", "arguments": {"key": "meri", "depth": 1, "relation": "operated_by"}},
    {"call": "walk", "arguments": {"key": "Meridian Dawn", "depth": 2,
     "as_of": "2024-01-15T00:00:00Z"}},
    {"call": "walk", "arguments": {"key": "VSL-1", "depth": 1, "as_of": "2024-02-15T00:00:00Z"}},
    {"call": "iterated_join", "arguments": {"seed": "NL-2231", "target_type": "operator"}},
    {"call": "iterated_join", "arguments": {"seed": "NL-2231", "target_type": "port",
     "links": ["edge", "shared_key"], "max_rounds": 3}},
    {"call": "iterated_join", "arguments": {"seed": "vessel/meridien dawn",
     "target_type": "operator", "links": ["edge", "similar"], "similarity": 0.5}},
    {"call": "iterated_join", "arguments": {"seed": "kest", "target_type": "vessel",
     "relations": ["operated_by"], "max_rounds": 1}},
]  # fmt: skip
STATEMENTS = [
    """select aiq.query('TEXT "boiler OR generator" FROM notes') -> 'rows'""",
    """select aiq.query('SEMANTIC "steam" FROM notes LIMIT 3', '[0, 0.1, 0.6, 0.7]') -> 'rows'""",
    """select aiq.query('SEARCH "boiler" FROM notes', '[0, 0.1, 0.6, 0.7]') -> 'rows'""",
    """select aiq.query('GRAPH "meridian dawn" DEPTH 2') -> 'rows'""",
    "select aiq.search_entities('crane')",
    "select aiq.search_entities('steam', p_embedding => '[0, 0.1, 0.6, 0.7]')",
    "select aiq.entity('BTH-1')",
    """select jsonb_agg(s order by node_id, key)
    from aiq.similar_keys(array['baltic freight 7', 'meridien'], 0.6) as s""",
]


class Recording(psycopg.ClientCursor[Any]):
    """Notes every statement, as it was run."""

    statements: ClassVar[list[str]] = []

    def execute(self, query: Any, params: Any = None, **more: Any) -> Recording:
        self.statements.append(self.mogrify(query, params).strip().rstrip(";"))
        return super().execute(query, params, **more)


def index_of_names(connection: psycopg.Connection[Any]) -> list[str]:
    """The statements that write the rows of the index of names."""
    inserts = ["delete from aiq.name_changes"]
    for table in ("name_segments", "name_lists"):
        cursor = psycopg.ClientCursor(connection)
        cursor.execute(f"select * from aiq.{table} order by 1, 2")
        names = [column.name for column in cursor.description or ()]
        for row in cursor.fetchall():
            # Made where the test runs: what is a word there is asked there.
            values = [
                sql.SQL("aiq.name_ctype()") if name == "ctype" else sql.Literal(value)
                for name, value in zip(names, row, strict=True)
            ]
            statement = sql.SQL("insert into {} ({}) overriding system value values ({})").format(
                sql.Identifier("aiq", table),
                sql.SQL(", ").join(map(sql.Identifier, names)),
                sql.SQL(", ").join(values),
            )
            inserts.append(statement.as_string(connection))
    inserts.append(
        "select setval(pg_get_serial_sequence('aiq.name_segments', 'id'), max(id))"
        " from aiq.name_segments"
    )
    return inserts


def exists(connection: psycopg.Connection[Any], table: str) -> bool:
    row = connection.execute("select pg_catalog.to_regclass(%s) is not null", [table]).fetchone()
    return bool(row and row[0])


def load(connection: psycopg.Connection[Any]) -> dict[str, bytes]:
    """Load the sample and what there is beside it; return the scripts that do."""
    connection.cursor_factory = Recording
    load_harbour(connection)
    connection.execute(MORE)
    if exists(connection, "aiq.text_sources"):
        connection.execute(DOCUMENTS)
    scripts = {"harbour.sql": script(Recording.statements)}
    if exists(connection, "aiq.name_segments"):
        connection.execute(NAMES)
        scripts["harbour.sql"] = script(Recording.statements)
        connection.execute("select aiq.refresh_names()")
        Recording.statements.clear()
        connection.execute(LATER_NAMES.format(first=2000))
        connection.cursor_factory = psycopg.Cursor
        connection.execute("select aiq.refresh_names()")
        Recording.statements += index_of_names(connection)
        connection.cursor_factory = Recording
        connection.execute(LATER_NAMES.format(first=3000))
        connection.execute(CHANGED_NAMES)
        scripts["names.sql"] = script(Recording.statements)
    connection.cursor_factory = psycopg.Cursor
    return scripts


def script(statements: list[str]) -> bytes:
    """What was run, but for what only asked the catalogue."""
    changing = [text for text in statements if not text.startswith("select pg_catalog")]
    return (";\n".join(changing) + ";\n").encode()


def answers(connection: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    """What the version answers a caller without claims."""
    connection.execute("set role authenticated")
    functions = ServerFunctions(connection)
    given = []
    for question in QUESTIONS:
        rows = getattr(functions, question["call"])(**question["arguments"])
        given.append({**question, "rows": [row.as_dict() for row in rows]})
    row = connection.execute("select to_regproc('aiq.query') is not null").fetchone()
    for statement in STATEMENTS if row and row[0] else ():
        given.append({"statement": statement, "rows": connection.execute(statement).fetchall()})
    return given


def archive(target: Path, files: dict[str, bytes]) -> None:
    """Write the files into an archive that is the same whenever and by whomever it is made."""
    with tarfile.open(target, "w:xz", preset=9, format=tarfile.USTAR_FORMAT) as into:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            into.addfile(entry, io.BytesIO(files[name]))


def main(target: Path) -> None:
    """Keep the version whose checkout is the current directory."""
    here = Path.cwd()
    files = {str(file.relative_to(here)): file.read_bytes()
             for pattern in ("sql/*.sql", "plpy/*.py") for file in here.glob(pattern)}  # fmt: skip
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        try:
            dsn = up(Path(folder) / "cluster").dsn
            install(dsn)
            with psycopg.connect(dsn, autocommit=True) as connection:
                files |= load(connection)
                lines = [json.dumps(answer, default=str) for answer in answers(connection)]
        finally:
            down(Path(folder) / "cluster", purge=True)
    files["answers.json"] = ("[\n" + ",\n".join(lines) + "\n]\n").encode()
    archive(target, files)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
