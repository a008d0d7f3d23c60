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


def test_a_graph_file_has_no_callers(monkeypatch, tmp_path):
    monkeypatch.delenv("GRAPHALGO_DSN", raising=False)
    path = tmp_path / "harbour.json"
    path.write_text(json.dumps(harbour_json()))
    answer = CliRunner().invoke(app, [*QUESTION, "--graph", str(path), "--as-sub", KESTREL])
    assert answer.exit_code == 2
    assert "--as-sub and --as-org are for a database" in answer.stderr


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
