"""Asking as somebody: what is shown is theirs or shared, whoever holds the connection."""

from __future__ import annotations

import json

import psycopg
import pytest
from typer.testing import CliRunner

from graphalgo.cli.application import app
from graphalgo.samples import harbour_json
from tests.support import harbour

MERIDIAN, KESTREL = (harbour.claims_of(tenant)["sub"] for tenant in ("meridian", "kestrel"))
KESTREL_ORG = harbour_json()["orgs"][1]["id"]
QUESTION = ["join", "SE-0117", "operator"]


@pytest.fixture
def run(monkeypatch, tenants_dsn):
    monkeypatch.setenv("GRAPHALGO_DSN", tenants_dsn)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("where", ["server", "client"])
def test_the_same_join_under_two_tenants(run, where):
    theirs = run(*QUESTION, "--where", where, "--as-sub", KESTREL)
    others = run(*QUESTION, "--where", where, "--as-sub", MERIDIAN)
    assert (theirs.exit_code, others.exit_code) == (0, 0)
    assert "Kestrel Shipping" in theirs.stdout
    assert others.stdout.startswith("Not resolved in 1 round: exhausted")
    assert "(examined 0, deferred 0)" in others.stdout


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["walk", "Aurora Kestrel"], "Gothenburg"),
        (["lookup", "Aurora Kestrel"], "VSL-4"),
        (["history", "Aurora Kestrel"], "Gothenburg"),
    ],
)
def test_what_is_anothers_is_not_there(run, command, says):
    assert says in run(*command, "--as-sub", KESTREL).stdout
    assert says in run(*command, "--as-sub", KESTREL, "--as-org", KESTREL_ORG).stdout
    for options in (
        ["--as-sub", MERIDIAN],
        ["--as-sub", MERIDIAN, "--as-org", KESTREL_ORG],
        ["--as-sub", KESTREL, "--as-org", MERIDIAN],
    ):
        answer = run(*command, *options)
        assert says not in answer.stdout + answer.stderr
        assert "Nothing found by" in answer.stdout or "no node is found by" in answer.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--as-sub", "kestrel"], '--as-sub is "kestrel", but must be a uuid'),
        (["--as-sub", KESTREL, "--as-org", "x"], '--as-org is "x", but must be a uuid'),
        (["--as-org", KESTREL_ORG], "--as-org is given without --as-sub"),
    ],
)
@pytest.mark.parametrize("command", [QUESTION, ["walk", "MERI"], ["lookup", "x"], ["history", "x"]])
def test_a_caller_that_is_none_is_refused(run, command, options, says):
    answer = run(*command, *options)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert says in answer.stderr
    assert "SQLSTATE 22023" in answer.stderr


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "harbour.json"
    path.write_text(json.dumps(harbour_json()), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("option", ["--as", "--as-sub"])
@pytest.mark.parametrize("user", [MERIDIAN, KESTREL])
@pytest.mark.parametrize(
    "command",
    [
        QUESTION,
        ["walk", "Aurora Kestrel"],
        ["lookup", "Aurora Kestrel", "Meridian Dawn"],
        ["query", 'GRAPH "rotterdam" DEPTH 2'],
        ["query", 'LOOKUP "Aurora Kestrel", "Meridian Dawn"'],
        ["query", "SCHEMA graph"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_graph_file_answers_a_caller_as_the_database_does(run, graph, command, user, option):
    there = run(*command, option, user)
    here = CliRunner(env={"GRAPHALGO_DSN": ""}).invoke(
        app, [*command, "--graph", graph, option, user]
    )
    assert here.exit_code == there.exit_code
    assert here.stderr == there.stderr
    assert here.stdout == there.stdout
    assert here.stdout + here.stderr


def test_a_caller_of_a_graph_file_may_narrow_to_no_organisation_but_theirs(monkeypatch, graph):
    monkeypatch.delenv("GRAPHALGO_DSN", raising=False)
    question = ["lookup", "Aurora Kestrel", "--graph", graph, "--as", KESTREL]
    for options, found in (
        ([], True),
        (["--as-org", KESTREL_ORG], True),
        (["--as-org", MERIDIAN], False),
    ):
        answer = CliRunner().invoke(app, [*question, *options])
        assert ("VSL-4" in answer.stdout) is found
    answer = CliRunner().invoke(app, [*question[:-1], "kestrel"])
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert '--as-sub is "kestrel", but must be a uuid' in answer.stderr


def test_a_user_who_may_not_ask_as_others_is_told_so(run, tenants_dsn):
    with psycopg.connect(tenants_dsn, autocommit=True) as connection:
        connection.execute("create role graphalgo_test_stranger login")
        try:
            dsn = psycopg.conninfo.make_conninfo(tenants_dsn, user="graphalgo_test_stranger")
            answer = run(*QUESTION, "--dsn", dsn, "--as-sub", KESTREL)
        finally:
            connection.execute("drop role graphalgo_test_stranger")
    assert answer.exit_code == 2
    assert "SQLSTATE 42501" in answer.stderr
