"""`register` reads a table as nodes, and `check` tells when the two come apart."""

from __future__ import annotations

import json

import psycopg
import pytest
from typer.testing import CliRunner

from graphalgo.cli.application import app
from graphalgo.install import install

ORG = "d0000000-0000-0000-0000-00000000000a"
OPTIONS = [
    "--key", "name", "--summary", "name || ' of ' || yard", "--org", "org", "--where", "afloat",
    "--canonical", "yard || ' ' || hull", "--short", "left(name, 3)", "--alias", "hull",
    "--alias", "imo", "--code", "imo", "--code", "hull", "--visibility", "seen", "--owner", "owner",
    "--number", "100 + id",
]  # fmt: skip


@pytest.fixture
def dsn(fresh_database, monkeypatch):
    made = fresh_database()
    install(made)
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute(
            f"""
            insert into aiq.entity_types (name, handle_prefix) values ('ship', 'SHP');
            create schema yards;
            grant usage on schema yards to aiq_engine;
            create table yards.ships (
                id int primary key, name text, yard text, hull text, imo text, org uuid,
                afloat boolean, seen text, owner uuid
            );
            insert into yards.ships values
                (1, 'Dawn', 'Aker', 'H1', '9331802', '{ORG}', true, 'org', null),
                (2, 'Star', 'Aker', 'H2', '9331803', null, true, 'private', '{ORG}'),
                (3, 'Wreck', 'Aker', 'H3', '9331804', null, false, 'org', null);
            """
        )
    monkeypatch.setenv("GRAPHALGO_DSN", made)
    return made


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_every_option_reaches_the_registration(dsn):
    answer = run("register", "ship", "yards.ships", *OPTIONS)
    assert answer.exit_code == 0, answer.stderr
    line = next(line for line in answer.stdout.splitlines() if "yards.ships" in line)
    assert [cell.strip() for cell in line.split("│")[1:-1]] == [
        "yards.ships", "2", "0", "0", "10", "0"
    ]  # fmt: skip
    with psycopg.connect(dsn) as connection:
        nodes = connection.execute(
            "select coalesce(handle_number, id), summary, org_id::text, visibility, owner_id::text"
            " from aiq.nodes order by 1"
        ).fetchall()
        keys = connection.execute(
            "select k.key, k.kind, k.is_name from aiq.node_keys as k"
            " join aiq.nodes as n on n.id = k.node_id where n.handle_number = 101 order by 1"
        ).fetchall()
    assert nodes == [
        (101, "Dawn of Aker", ORG, "org", None),
        (102, "Star of Aker", None, "private", ORG),
    ]
    assert keys == [
        ("9331802", "alias", False), ("aker h1", "canonical", True), ("daw", "short", True),
        ("dawn", "canonical", True), ("h1", "alias", False),
    ]  # fmt: skip


def test_registering_again_leaves_out_what_is_left_out(dsn):
    run("register", "ship", "yards.ships", *OPTIONS)
    answer = run("register", "ship", "yards.ships", "--key", "name", "--json")
    (row,) = json.loads(answer.stdout)["rows"]
    assert (row["nodes_inserted"], row["keys_removed"]) == (1, 8)
    assert json.loads(run("lookup", "wreck", "h1", "--json").stdout)["unresolved"] == ["h1"]


@pytest.mark.parametrize(
    ("arguments", "sqlstate", "says"),
    [
        (["shp", "yards.ships", "--key", "name"], "42704", '"shp"'),
        (["ship", "yards.shps", "--key", "name"], "42P01", "yards.shps"),
        (["ship", "yards.ships", "--key", "nme"], "22023", '"nme"'),
    ],
)
def test_what_cannot_be_registered_is_refused(dsn, arguments, sqlstate, says):
    answer = run("register", *arguments)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert says in answer.stderr
    assert f"SQLSTATE {sqlstate}" in answer.stderr


def test_a_database_without_the_schema_is_refused(fresh_database):
    answer = run("register", "ship", "ships", "--key", "name", "--dsn", fresh_database())
    assert answer.exit_code == 2
    assert "graphalgo is not installed in the database" in answer.stderr


def findings():
    answer = run("check", "--json")
    return answer.exit_code, [
        one for one in json.loads(answer.stdout)["findings"] if one["name"] == "registrations"
    ]


def test_check_tells_that_registrations_are_in_step(dsn):
    assert findings()[1][0]["message"] == "no table is registered"
    run("register", "ship", "yards.ships", "--key", "name")
    code, (finding,) = findings()
    assert (code, finding["ok"]) == (0, True)
    assert finding["message"] == "all 1 registrations are in step with their tables"


def test_check_tells_what_has_come_apart_and_what_mends_it(dsn):
    run("register", "ship", "yards.ships", "--key", "name")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select aiq.bulk('yards.ships', true)")
        code, (finding,) = findings()
        assert (code, finding["ok"]) == (1, False)
        assert finding["message"].startswith("yards.ships, registered as")
        assert "bulk" in finding["message"]
        assert "aiq.bulk" in finding["remedy"] and finding["remedy"].startswith("psql ")
        connection.execute("select aiq.bulk('yards.ships', false)")
    assert findings()[0] == 0
