"""Declaring the ontology: the diff, what is applied, and what is never dropped unsaid."""

from __future__ import annotations

import json

import psycopg
import pytest
from typer.testing import CliRunner

from graphalgo.cli.application import app
from graphalgo.engine.errors import InvalidValue, UnknownName
from graphalgo.ontology import EntityType, InUse, Ontology, Route, apply, current, from_document
from graphalgo.samples.investigation import investigation_json

FLEET = """
entity_types:
  - {name: ship, handle_prefix: SHP, description: a vessel}
  - {name: firm, handle_prefix: FRM, indexed: false}
routes:
  - {from: ship, to: firm, relation: run_by, inverse_label: runs}
  - {from: firm, to: [ship, firm]}
"""


@pytest.fixture
def run(monkeypatch):
    monkeypatch.delenv("GRAPHALGO_DSN", raising=False)
    return lambda *arguments: CliRunner().invoke(app, ["ontology", *map(str, arguments)])


@pytest.fixture
def empty(fresh_database):
    from graphalgo.install import install  # noqa: PLC0415

    made = fresh_database()
    install(made)
    return made


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    return path


def test_the_sample_declares_itself():
    sample = from_document(investigation_json())
    assert len(sample.entity_types) == 6
    assert ("memory", "references", "insight") in sample.routes
    assert len(sample.routes) == 8


def test_apply_shows_the_difference_and_makes_the_database_agree(run, empty, fleet, tmp_path):
    shown = run("diff", fleet, "--dsn", empty)
    assert shown.exit_code == 1
    assert shown.stdout.splitlines() == [
        "+ entity type firm (FRM)",
        "+ entity type ship (SHP)",
        "+ route firm -references-> firm",
        "+ route firm -references-> ship",
        "+ route ship -run_by-> firm",
    ]
    assert current(empty) == Ontology([])
    assert run("apply", fleet, "--dsn", empty).stdout == shown.stdout
    again = run("diff", fleet, "--dsn", empty)
    assert (again.exit_code, again.stdout) == (0, "The database agrees.\n")
    have = current(empty)
    assert have.entity_types["ship"] == EntityType("ship", "SHP", "a vessel", True)
    assert have.entity_types["firm"].indexed is False
    assert have.routes["ship", "run_by", "firm"].inverse_label == "runs"
    written = tmp_path / "shown.yaml"
    written.write_text(run("show", "--dsn", empty).stdout)
    assert run("diff", written, "--dsn", empty).exit_code == 0
    as_json = json.loads(run("show", "--json", "--dsn", empty).stdout)
    assert from_document(as_json) == have


def test_what_is_left_out_and_unused_is_dropped_and_shown(run, empty, fleet, tmp_path):
    run("apply", fleet, "--dsn", empty)
    path = tmp_path / "less.yaml"
    path.write_text("entity_types: [{name: ship, handle_prefix: SH, description: a boat}]")
    answer = run("apply", path, "--dsn", empty)
    assert answer.exit_code == 0
    assert answer.stdout.splitlines() == [
        "- entity type firm (FRM)",
        "~ entity type ship (SH): handle_prefix 'SHP' -> 'SH', description 'a vessel' -> 'a boat'",
        "- route firm -references-> firm",
        "- route firm -references-> ship",
        "- route ship -run_by-> firm",
    ]
    assert current(empty) == Ontology([EntityType("ship", "SH", "a boat")])


def with_edge(dsn):
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "insert into aiq.nodes (id, entity_type) overriding system value"
            " values (1, 'ship'), (2, 'firm')"
        )
        connection.execute(
            "insert into aiq.edges (src_id, dst_id, relation, weight) values (1, 2, 'run_by', 1)"
        )


def test_what_is_in_use_is_not_dropped_and_nothing_else_is_changed(run, empty, fleet, tmp_path):
    run("apply", fleet, "--dsn", empty)
    with_edge(empty)
    before = current(empty)
    path = tmp_path / "less.yaml"
    path.write_text("entity_types: [{name: ship, handle_prefix: NEW}]")
    answer = run("apply", path, "--dsn", empty)
    assert answer.exit_code == 2
    assert "entity type firm (FRM): in use by 1 entity" in answer.stderr
    assert "route ship -run_by-> firm: in use by 1 edge" in answer.stderr
    assert "SQLSTATE 2BP01" in answer.stderr
    assert "the handles of 1 entity change" in answer.stdout
    assert current(empty) == before
    kept = run("apply", path, "--keep-used", "--dsn", empty)
    assert kept.exit_code == 0
    assert "= entity type firm (FRM): kept: in use by 1 entity" in kept.stdout
    have = current(empty)
    assert set(have.entity_types) == {"ship", "firm"}
    assert set(have.routes) == {("ship", "run_by", "firm")}
    assert have.entity_types["ship"].handle_prefix == "NEW"
    with psycopg.connect(empty) as connection:
        assert connection.execute("select count(*) from aiq.edges").fetchone() == (1,)


def test_a_registered_table_without_rows_counts_as_use(empty):
    apply(empty, Ontology([EntityType("ship", "SHP")]))
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("create table public.ships (id int primary key, name text)")
        connection.execute("grant usage on schema public to aiq_engine")
        connection.execute("select aiq.register_entity_table('ship', 'public.ships', 'name')")
    with pytest.raises(InUse, match=r"registered tables public\.ships"):
        apply(empty, Ontology([]))


def test_types_may_trade_their_prefixes(empty):
    apply(empty, Ontology([EntityType("ship", "AAA"), EntityType("firm", "BBB")]))
    apply(empty, Ontology([EntityType("ship", "bbb"), EntityType("firm", "AAA")]))
    have = current(empty).entity_types
    assert (have["ship"].handle_prefix, have["firm"].handle_prefix) == ("bbb", "AAA")


def test_who_cannot_see_all_rows_may_not_apply(empty, server_role):
    apply(empty, Ontology([EntityType("ship", "SHP")]))
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(f"grant aiq_owner to {server_role} with inherit true".encode()
                           if connection.info.server_version >= 160000
                           else f"grant aiq_owner to {server_role}".encode())  # fmt: skip
        connection.execute(f"alter role {server_role} inherit".encode())
        try:
            with pytest.raises(psycopg.Error, match="row-level security"):
                apply(f"{empty} user={server_role}", Ontology([]))
        finally:
            connection.execute(f"alter role {server_role} noinherit".encode())
            connection.execute(f"revoke aiq_owner from {server_role}".encode())
    assert set(current(empty).entity_types) == {"ship"}


def test_declarations_in_python(run, empty, tmp_path, monkeypatch):
    path = tmp_path / "declared_here.py"
    path.write_text(
        "from graphalgo.ontology import EntityType, Ontology, Route\n"
        "ontology = Ontology([EntityType('ship', 'SHP')], [Route('ship', 'near', 'ship')])\n"
    )
    assert run("apply", path, "--dsn", empty).exit_code == 0
    monkeypatch.syspath_prepend(tmp_path)
    assert run("diff", "declared_here:ontology", "--dsn", empty).exit_code == 0
    assert run("diff", "declared_here:nothing", "--dsn", empty).exit_code == 2
    assert run("diff", "no_such_module:x", "--dsn", empty).exit_code == 2


@pytest.mark.parametrize(
    ("document", "error", "says"),
    [
        ("[]", InvalidValue, "declares no entity_types"),
        ("entity_types: {", InvalidValue, "is not YAML"),
        ("entity_types: [x]", InvalidValue, "entity_types 1 is no object"),
        ("entity_types: [{name: a}]", InvalidValue, "has no handle_prefix"),
        ("entity_types: [{name: a, handle_prefix: A, colour: 1}]", InvalidValue, 'has "colour"'),
        ("entity_types: [{name: a, handle_prefix: 7}]", InvalidValue, "handle_prefix is 7"),
        ("entity_types: [{name: a, handle_prefix: a-b}]", InvalidValue, "must be a letter"),
        ("entity_types: [{name: a, handle_prefix: Soft}]", InvalidValue, "prefix of soft nodes"),
        (
            "entity_types: [{name: a, handle_prefix: A}, {name: b, handle_prefix: a}]",
            InvalidValue, "prefix of a",
        ),
        (
            "entity_types: [{name: a, handle_prefix: A}, {name: a, handle_prefix: B}]",
            InvalidValue, "declared twice",
        ),
        (
            "{entity_types: [{name: a, handle_prefix: A}], routes: [{from: a, to: b}]}",
            UnknownName, 'names the entity type "b"',
        ),
        (
            "{entity_types: [{name: a, handle_prefix: A}], routes: [{from: a, to: [a, a]}]}",
            InvalidValue, "declared twice",
        ),
    ],
)  # fmt: skip
def test_declarations_that_do_not_fit_are_refused(tmp_path, document, error, says):
    from graphalgo.ontology import read  # noqa: PLC0415

    path = tmp_path / "declared.yaml"
    path.write_text(document)
    with pytest.raises(error, match=says.replace("[", r"\[")):
        read(str(path))


def test_a_route_has_a_name():
    with pytest.raises(InvalidValue, match="lacks an end"):
        Ontology([EntityType("a", "A")], [Route("a", "", "a")])
