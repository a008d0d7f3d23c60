"""The copies that keys and edges carry of their nodes, and the checked vocabulary."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.support.building import Building
from tests.support.server import ServerFunctions, write_graph

ORG_A = "aaaaaaaa-0000-0000-0000-000000000001"
ORG_B = "bbbbbbbb-0000-0000-0000-000000000002"
OWNER = "cccccccc-0000-0000-0000-000000000003"
RETIRED = "2022-01-01 00:00:00+00"
EARLIER = "2021-01-01 00:00:00+00"


@pytest.fixture
def connection(empty_dsn):
    """A transaction over two typed nodes and a soft one, rolled back at the end."""
    with (
        psycopg.connect(empty_dsn, autocommit=True) as connection,
        connection.transaction(force_rollback=True),
    ):
        graph = Building().node(1, "thing", "one").node(2, "goal", "two").soft(3, "ship", "three")
        write_graph(connection, graph.edge(1, 2).edge(2, 3).edge(3, 1).plain)
        # The graph brought its own ids.
        connection.execute("alter table aiq.edges alter column id restart with 1000")
        yield connection


def key_copies(connection: psycopg.Connection[Any], node: int) -> list[tuple[Any, ...]]:
    return connection.execute(
        "select soft, audience::text, retired_at = %s from aiq.node_keys where node_id = %s",
        (RETIRED, node),
    ).fetchall()


def edge_copies(connection: psycopg.Connection[Any]) -> dict[int, tuple[Any, ...]]:
    rows = connection.execute(
        "select id, src_audience::text, dst_audience::text, retired_at = %s, ends_at = %s"
        " from aiq.edges order by id",
        (RETIRED, RETIRED),
    ).fetchall()
    return {row[0]: row[1:] for row in rows}


def private_audience(connection: psycopg.Connection[Any], owner: str) -> str:
    row = connection.execute("select md5('private:' || %s::uuid::text)::uuid::text", (owner,))
    found = row.fetchone()
    assert found is not None
    return str(found[0])


OPEN = (None, None, None, None)


class TestOnInsert:
    def test_a_shared_node_has_no_audience(self, connection):
        assert key_copies(connection, 1) == [(False, None, None)]
        assert edge_copies(connection) == {1: OPEN, 2: OPEN, 3: OPEN}

    def test_a_key_says_whether_its_node_is_soft(self, connection):
        assert key_copies(connection, 3) == [(True, None, None)]

    def test_what_the_writer_claims_is_overwritten(self, connection):
        connection.execute(
            "insert into aiq.node_keys (node_id, key, kind, soft, audience, retired_at)"
            " values (2, 'forged', 'alias', true, %s, %s)",
            (ORG_A, RETIRED),
        )
        connection.execute(
            "insert into aiq.edges"
            " (id, src_id, dst_id, relation, weight, src_audience, dst_audience, retired_at)"
            " values (9, 1, 2, 'owns', 1, %s, %s, %s)",
            (ORG_A, ORG_B, RETIRED),
        )
        assert key_copies(connection, 2) == [(False, None, None)] * 2
        assert edge_copies(connection)[9] == OPEN

    def test_a_scoped_nodes_audience_comes_along(self, connection):
        connection.execute(
            "insert into aiq.nodes (id, entity_type, org_id, visibility, owner_id, retired_at)"
            " values (11, 'thing', %(a)s, 'org', null, null),"
            "        (12, 'thing', %(a)s, 'private', %(owner)s, null),"
            "        (13, 'thing', %(a)s, 'public', null, %(retired)s)",
            {"a": ORG_A, "owner": OWNER, "retired": RETIRED},
        )
        connection.execute(
            "insert into aiq.node_keys (node_id, key, kind)"
            " values (11, 'k', 'alias'), (12, 'k', 'alias'), (13, 'k', 'alias')"
        )
        connection.execute(
            "insert into aiq.edges (id, src_id, dst_id, relation, weight) values"
            " (21, 11, 12, 'knows', 1), (22, 12, 13, 'knows', 1), (23, 13, 11, 'knows', 1)"
        )
        private = private_audience(connection, OWNER)
        assert key_copies(connection, 11) == [(False, ORG_A, None)]
        assert key_copies(connection, 12) == [(False, private, None)]
        assert key_copies(connection, 13) == [(False, None, True)]
        copies = edge_copies(connection)
        assert copies[21] == (ORG_A, private, None, None)
        assert copies[22] == (private, None, True, True)
        assert copies[23] == (None, ORG_A, True, True)

    def test_a_load_of_many_rows_fills_them_all(self, connection):
        connection.execute(
            "insert into aiq.nodes (id, entity_type, org_id)"
            " select i, 'thing', %s from generate_series(1001, 2000) as i",
            (ORG_A,),
        )
        connection.execute(
            "insert into aiq.node_keys (node_id, key, kind)"
            " select i, 'key ' || i, 'alias' from generate_series(1001, 2000) as i"
        )
        with (
            connection.cursor() as cursor,
            cursor.copy("copy aiq.edges (id, src_id, dst_id, relation, weight) from stdin") as copy,
        ):
            for node in range(1001, 2000):
                copy.write_row((node, node, node + 1, "knows", 0.5))
        count = "select count(*) from aiq.{} where {} = %s"
        for table, column in (
            ("node_keys", "audience"), ("edges", "src_audience"), ("edges", "dst_audience"),
        ):  # fmt: skip
            (found,) = connection.execute(count.format(table, column), (ORG_A,)).fetchone()
            assert found == (1000 if table == "node_keys" else 999)


class TestOnANodesChange:
    def change(self, connection, node: int, **columns: Any) -> None:
        assignments = ", ".join(f"{name} = %({name})s" for name in columns)
        connection.execute(
            f"update aiq.nodes set {assignments} where id = %(id)s", {"id": node, **columns}
        )

    def test_a_new_scope_is_carried_to_keys_and_edges(self, connection):
        self.change(connection, 1, org_id=ORG_A)
        assert key_copies(connection, 1) == [(False, ORG_A, None)]
        assert edge_copies(connection) == {
            1: (ORG_A, None, None, None), 2: OPEN, 3: (None, ORG_A, None, None),
        }  # fmt: skip
        self.change(connection, 1, visibility="private", owner_id=OWNER)
        private = private_audience(connection, OWNER)
        assert key_copies(connection, 1) == [(False, private, None)]
        assert edge_copies(connection)[1] == (private, None, None, None)
        self.change(connection, 1, visibility="public")
        assert key_copies(connection, 1) == [(False, None, None)]
        assert edge_copies(connection)[1] == OPEN

    def test_both_ends_changed_by_one_statement(self, connection):
        connection.execute(
            "update aiq.nodes set org_id = case id when 1 then %s::uuid else %s::uuid end"
            " where id in (1, 2)",
            (ORG_A, ORG_B),
        )
        assert edge_copies(connection)[1] == (ORG_A, ORG_B, None, None)
        assert edge_copies(connection)[2] == (ORG_B, None, None, None)

    def test_retirement_ends_the_nodes_edges_and_hides_its_keys(self, connection):
        self.change(connection, 2, retired_at=RETIRED)
        assert key_copies(connection, 2) == [(False, None, True)]
        retired = (None, None, True, True)
        assert edge_copies(connection) == {1: retired, 2: retired, 3: OPEN}
        current = connection.execute("select id from aiq.edges_current").fetchall()
        assert current == [(3,)]
        keys = connection.execute("select node_id from aiq.node_keys_api order by 1").fetchall()
        assert keys == [(1,), (3,)]

    def test_the_earlier_of_two_retirements_ends_an_edge(self, connection):
        self.change(connection, 1, retired_at=RETIRED)
        self.change(connection, 2, retired_at=EARLIER)
        ends = connection.execute(
            "select retired_at = %s, ends_at = %s from aiq.edges where id = 1", (EARLIER, EARLIER)
        ).fetchone()
        assert ends == (True, True)

    def test_a_node_that_returns_is_the_same_again(self, connection):
        self.change(connection, 2, retired_at=RETIRED)
        self.change(connection, 2, retired_at=None)
        assert key_copies(connection, 2) == [(False, None, None)]
        assert edge_copies(connection) == {1: OPEN, 2: OPEN, 3: OPEN}
        (row,) = ServerFunctions(connection).walk("G-2", depth=1, relation="knows", limit=1)
        assert row.node_id == 1

    def test_an_edge_stays_ended_while_its_other_end_is_retired(self, connection):
        self.change(connection, 1, retired_at=RETIRED)
        self.change(connection, 2, retired_at=RETIRED)
        self.change(connection, 2, retired_at=None)
        assert edge_copies(connection)[1] == (None, None, True, True)

    def test_a_closed_period_keeps_its_own_end(self, connection):
        connection.execute(
            "update aiq.edges set valid_from = '2019-01-01', valid_to = '2020-01-01' where id = 1"
        )
        self.change(connection, 1, retired_at=RETIRED)
        row = connection.execute(
            "select ends_at = valid_to, retired_at = %s from aiq.edges where id = 1", (RETIRED,)
        ).fetchone()
        assert row == (True, True)

    def test_a_soft_node_that_becomes_typed_has_typed_keys(self, connection):
        self.change(connection, 3, entity_type="thing", claimed_kind=None, soft_name=None)
        assert key_copies(connection, 3) == [(False, None, None)]

    def test_a_change_of_the_summary_alone_writes_no_key_and_no_edge(self, connection):
        def versions():
            return connection.execute(
                "select 'key', node_id, ctid::text from aiq.node_keys"
                " union all select 'edge', id, ctid::text from aiq.edges order by 1, 2"
            ).fetchall()

        before = versions()
        connection.execute("update aiq.nodes set summary = 'another'")
        assert versions() == before
        self.change(connection, 1, org_id=ORG_A)
        assert versions() != before


class TestVocabulary:
    def refused(self, connection, src: int, dst: int, relation: str) -> str:
        with pytest.raises(psycopg.Error) as caught, connection.transaction():
            connection.execute(
                "insert into aiq.edges (src_id, dst_id, relation, weight) values (%s, %s, %s, 1)",
                (src, dst, relation),
            )
        assert caught.value.sqlstate == "42704"
        assert caught.value.diag.message_hint
        return str(caught.value.diag.message_primary)

    @pytest.fixture
    def narrow(self, connection):
        """Only `person` may `teach`, and only a `goal`."""
        connection.execute("insert into aiq.relations values ('person', 'teaches', 'goal')")
        connection.execute("insert into aiq.nodes (id, entity_type) values (7, 'person')")
        return connection

    def test_an_unknown_relation_is_refused_by_name(self, connection):
        message = self.refused(connection, 1, 2, "adores")
        assert message == 'relation "adores" is not declared from "thing" to "goal"'

    def test_a_relation_of_other_types_is_refused_by_name(self, narrow):
        assert self.refused(narrow, 1, 2, "teaches") == (
            'relation "teaches" is not declared from "thing" to "goal"'
        )
        # And not the other way round.
        assert self.refused(narrow, 2, 7, "teaches") == (
            'relation "teaches" is not declared from "goal" to "person"'
        )

    def test_a_declared_relation_is_accepted(self, narrow):
        narrow.execute(
            "insert into aiq.edges (src_id, dst_id, relation, weight) values (7, 2, 'teaches', 1)"
        )

    @pytest.mark.parametrize(("src", "dst"), [(3, 1), (1, 3), (3, 3)])
    def test_an_edge_with_a_soft_end_is_checked_by_relation_alone(self, narrow, src, dst):
        narrow.execute(
            "insert into aiq.edges (src_id, dst_id, relation, weight)"
            " values (%s, %s, 'teaches', 1)",
            (src, dst),
        )
        message = self.refused(narrow, src, dst, "adores")
        assert message.startswith('relation "adores" is not declared from ')
        assert "a soft node" in message

    def test_one_wrong_edge_of_many_refuses_them_all(self, narrow):
        before = narrow.execute("select count(*) from aiq.edges").fetchone()
        with pytest.raises(psycopg.Error) as caught, narrow.transaction():
            narrow.execute(
                "insert into aiq.edges (src_id, dst_id, relation, weight)"
                " select 7, 2, case i when 500 then 'adores' else 'teaches' end, 1"
                " from generate_series(1, 1000) as i"
                " where i in (1, 500)"
            )
        assert caught.value.sqlstate == "42704"
        assert narrow.execute("select count(*) from aiq.edges").fetchone() == before

    def test_a_name_that_is_sql_is_only_a_name(self, connection):
        nasty = '"); drop table aiq.nodes; --'
        assert nasty in self.refused(connection, 1, 2, nasty)


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("update aiq.edges set weight = 0", "weight"),
        ("update aiq.edges set weight = 1.0000001", "weight"),
        ("update aiq.edges set weight = 'NaN'", "weight"),
        ("update aiq.edges set valid_from = now(), valid_to = now() - interval '1 day'", "start"),
        ("update aiq.nodes set visibility = 'private'", "owner"),
        ("update aiq.nodes set visibility = 'secret'", "visibility"),
        ("update aiq.nodes set entity_type = 'thing', claimed_kind = 'ship'", "typed_or_soft"),
        ("update aiq.node_keys set kind = 'nickname'", "kind"),
        ("update aiq.node_keys set key = ''", "key"),
        ("insert into aiq.entity_types values ('softer', 'Soft')", "handle_prefix"),
        ("insert into aiq.entity_types values ('dashed', 'A-B')", "handle_prefix"),
    ],
)
def test_the_tables_refuse_what_has_no_meaning(connection, statement, constraint):
    with pytest.raises(psycopg.errors.CheckViolation) as caught, connection.transaction():
        connection.execute(statement)
    assert constraint in caught.value.diag.constraint_name


def test_a_handle_prefix_is_taken_once_whatever_its_case(connection):
    with pytest.raises(psycopg.errors.UniqueViolation), connection.transaction():
        connection.execute("insert into aiq.entity_types values ('tug', 't')")


@pytest.mark.parametrize("role", ["authenticated", "aiq_worker", "web_anon"])
@pytest.mark.parametrize(
    "table", ["nodes", "node_keys", "edges", "entity_types", "relations", "link_verdicts", "meta"]
)
def test_callers_read_no_base_table(connection, role, table):
    connection.execute(f"set local role {role}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
        connection.execute(f"select * from aiq.{table}")


@pytest.mark.parametrize("role", ["authenticated", "aiq_worker"])
def test_callers_read_the_views_and_call_the_functions(connection, role):
    connection.execute(f"set local role {role}")
    for view in (
        "nodes_api", "node_keys_api", "edges_current", "edge_periods", "entity_types_api",
        "relations_api", "link_verdicts_api",
    ):  # fmt: skip
        connection.execute(f"select * from aiq.{view}")
    server = ServerFunctions(connection)
    assert [row.node_id for row in server.walk("T-1")] == [2, 3]
    assert server.lookup(["twos"], fuzzy=True)[0].node_id == 2
    assert server.iterated_join("ship/three", "goal")[0].node_id == 2


def test_candidate_functions_are_closed_to_callers(connection):
    connection.execute("set local role authenticated")
    with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
        connection.execute("select * from aiq.similar_name_candidates(array['x'], 0.3)")


def test_web_anon_may_not_even_look(connection):
    connection.execute("set local role web_anon")
    for statement in ("select * from aiq.nodes_api", "select * from aiq.walk('T-1')"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
            connection.execute(statement)


class TestOnUpdate:
    @pytest.mark.parametrize(
        "change",
        [
            "update aiq.edges set relation = 'owns' where id = 1",
            "update aiq.edges set src_id = 2, dst_id = 1 where id = 1",
            "update aiq.node_keys set node_id = 2 where node_id = 1",
        ],
    )
    def test_what_a_row_is_about_does_not_change(self, connection, change):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="do not change"):
            connection.execute(change)

    def test_the_rest_of_a_row_may_change(self, connection):
        connection.execute("update aiq.edges set weight = 0.5, relation = relation where id = 1")
        connection.execute("update aiq.node_keys set kind = 'short' where node_id = 1")
