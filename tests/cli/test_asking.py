"""`join`, `walk` and `lookup` answer alike from a server, a connection and a file."""

from __future__ import annotations

import json
import socket

import psycopg
import pytest
from typer.testing import CliRunner

from graphalgo.cli.application import app
from graphalgo.install import install
from graphalgo.loading import load_harbour
from graphalgo.samples import harbour_json

QUESTIONS = {
    "join": ["join", "NL-2231", "operator"],
    "join of two paths": ["join", "Rotterdam", "operator", "--link", "edge"],
    "similar join": ["join", "vessel/meridien dawn", "vessel", "--link", "similar"],
    "unresolved join": ["join", "NL-2231", "operator", "--link", "edge"],
    "join with every option": [
        "join", "Bulk Harmony", "operator", "--max-rounds", "2", "--link", "edge",
        "--link", "shared_key", "--similarity", "0.5", "--budget", "10", "--degree-cap", "7",
        "--relation", "operated_by", "--relation", "subsidiary_of", "--limit", "1",
    ],
    "walk": ["walk", "Bulk Harmony", "--depth", "3"],
    "capped walk": ["walk", "MERI", "--degree-cap", "1", "--limit", "2"],
    "walk of one relation": ["walk", "MERB", "--depth", "2", "--relation", "subsidiary_of"],
    "lookup": ["lookup", "meridien", "NL-2231", "Harbour Rewrite", "nobody", "--fuzzy"],
}  # fmt: skip

REFUSALS = {
    "several nodes": (["join", "9331802", "operator"], "21000", "names 2 nodes: VSL-1, REG-1"),
    "no node": (["walk", "Meridian Down"], "P0002", 'no node is found by "Meridian Down"'),
    "unknown type": (["join", "NL-2231", "operatr"], "42704", '"operatr"'),
    "unknown relation": (["walk", "MERI", "--relation", "owns"], "42704", '"owns"'),
    "rounds": (["join", "MERI", "port", "--max-rounds", "6"], "22023", "p_max_rounds is 6"),
    "similarity": (["join", "MERI", "port", "--similarity", "nan"], "22023", "NaN"),
    "link kind": (["join", "MERI", "port", "--link", "guess"], "22023", '"guess"'),
    "depth": (["walk", "MERI", "--depth", "0"], "22023", "p_depth is 0"),
    "limit": (["lookup", "MERI", "--limit", "0"], "22023", "p_limit is 0"),
    "judge": (["join", "MERI", "port", "--link", "judged"], "55000", "percolate.link_judge"),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "harbour.json"
    path.write_text(json.dumps(harbour_json()), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def without_functions(make_database):
    made = make_database()
    install(made, plpython=False)
    load_harbour(made)
    return made


@pytest.fixture
def run(monkeypatch):
    monkeypatch.delenv("GRAPHALGO_DSN", raising=False)

    def invoke(*arguments, **environment):
        return CliRunner().invoke(app, list(arguments), env=environment)

    return invoke


@pytest.fixture(params=["server", "client", "file"])
def asked(request, run, dsn, graph):
    """Run a question against each of the three."""
    if request.param == "file":
        options = ["--graph", graph]
    else:
        options = ["--dsn", dsn, "--where", request.param]
    return lambda arguments: run(*arguments, *options)


@pytest.mark.parametrize("question", QUESTIONS)
def test_server_connection_and_file_give_one_json_document(run, dsn, graph, question):
    arguments = [*QUESTIONS[question], "--json"]
    answers = [
        run(*arguments, "--dsn", dsn, "--where", "server"),
        run(*arguments, "--dsn", dsn, "--where", "client"),
        run(*arguments, "--graph", graph),
    ]
    assert [answer.exit_code for answer in answers] == [0, 0, 0]
    assert json.loads(answers[0].stdout)["rows"]
    assert answers[0].stdout == answers[1].stdout == answers[2].stdout


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_is_told_alike_with_its_sqlstate(run, dsn, graph, refusal):
    arguments, sqlstate, says = REFUSALS[refusal]
    answers = [
        run(*arguments, "--dsn", dsn, "--where", "server"),
        run(*arguments, "--dsn", dsn, "--where", "client"),
        run(*arguments, "--graph", graph),
    ]
    for answer in answers:
        assert (answer.exit_code, answer.stdout) == (2, "")
        assert answer.stderr.startswith("error: ")
        assert says in answer.stderr
        assert answer.stderr.endswith(f"SQLSTATE {sqlstate}\n")
    assert answers[0].stderr == answers[1].stderr == answers[2].stderr


def test_a_join_shows_its_path(asked):
    answer = asked(["join", "NL-2231", "operator"])
    assert answer.exit_code == 0
    assert "REG-1 =[key 9331802 1]= VSL-1 -[operated_by 1]-> OPR-1" in answer.stdout
    assert "Meridian Line" in answer.stdout


def test_a_path_over_edges_the_other_way_and_similar_names(asked):
    answer = asked(["join", "vessel/meridien dawn", "port"])
    assert "~[meridien dawn ~ meridian dawn 0.647]~ VSL-1 -[last_called 1]-> PRT-1" in answer.stdout
    answer = asked(["join", "PRT-3", "vessel"])
    assert "PRT-3 <-[last_called 1]- VSL-4" in answer.stdout


def test_a_join_that_does_not_resolve_says_why_and_is_no_error(asked):
    answer = asked(["join", "NL-2231", "operator", "--link", "edge"])
    assert answer.exit_code == 0
    assert answer.stdout.startswith("Not resolved in 1 round: exhausted")


def test_explain_shows_a_line_for_each_round(asked):
    answer = asked(["join", "NL-2231", "operator", "--explain"])
    assert "milliseconds" in answer.stdout
    assert "shared_key" in answer.stdout
    document = json.loads(asked(["join", "NL-2231", "operator", "--explain", "--json"]).stdout)
    assert [round_["examined"] for round_ in document["trace"]["rounds"]] == [1, 3]
    assert document["trace"]["seed"]["handle"] == "REG-1"


def test_a_walk_shows_depths_and_relations(asked):
    answer = asked(["walk", "Bulk Harmony", "--depth", "2"])
    assert "operated_by / subsidiary_of" in answer.stdout
    assert "Meridian Dawn (IMO 9331802)" in answer.stdout


def test_a_walk_that_reaches_nothing_says_so(asked):
    answer = asked(["walk", "NL-2231"])
    assert (answer.exit_code, answer.stdout) == (0, "Nothing is within 1 hop.\n")


def test_keys_that_find_nothing_are_named(asked):
    answer = asked(["lookup", "meridian", "nobody", "none"])
    assert "short" in answer.stdout
    assert answer.stdout.endswith("Nothing found by: nobody, none\n")
    document = json.loads(asked(["lookup", "meridian", "nobody", "--json"]).stdout)
    assert document["unresolved"] == ["nobody"]


def test_as_of_reaches_the_algorithm(asked):
    answer = asked(["walk", "Bulk Harmony", "--as-of", "9999-01-31T12:00+01:00", "--json"])
    assert len(json.loads(answer.stdout)["rows"]) == 2


def test_before_the_sample_was_loaded_no_edge_held(run, dsn):
    answer = run("walk", "Bulk Harmony", "--as-of", "2001-01-31", "--json", "--dsn", dsn)
    assert json.loads(answer.stdout)["rows"] == []


@pytest.mark.parametrize("written", ["yesterday", "2024-02-30", "2024"])
def test_a_time_that_is_none_is_refused(asked, written):
    answer = asked(["walk", "Bulk Harmony", "--as-of", written])
    assert answer.exit_code == 2
    assert f'--as-of is "{written}", but must be a date' in answer.stderr


def test_the_environment_names_the_database(run, dsn):
    answer = run("lookup", "meridian", "--json", GRAPHALGO_DSN=dsn)
    assert json.loads(answer.stdout)["rows"][0]["handle"] == "OPR-1"


def test_a_file_goes_before_the_environment(run, graph):
    answer = run("lookup", "meridian", "--graph", graph, GRAPHALGO_DSN="host=/nowhere")
    assert answer.exit_code == 0


def test_without_a_graph_the_ways_to_name_one_are_told(run):
    answer = run("lookup", "meridian")
    assert answer.exit_code == 2
    assert "Give --dsn DSN or --graph FILE, or set GRAPHALGO_DSN" in answer.stderr


def test_two_graphs_are_refused(run, dsn, graph):
    answer = run("lookup", "meridian", "--dsn", dsn, "--graph", graph)
    assert answer.exit_code == 2
    assert "only one graph can be asked" in answer.stderr


def test_an_unknown_place_is_refused(run, dsn):
    answer = run("lookup", "meridian", "--dsn", dsn, "--where", "moon")
    assert answer.exit_code == 2
    assert '--where is "moon", but must be auto, server or client' in answer.stderr


def test_a_server_without_plpython_is_asked_from_here(run, without_functions):
    question = ["join", "NL-2231", "operator", "--dsn", without_functions]
    assert "OPR-1" in run(*question).stdout
    answer = run(*question, "--where", "server")
    assert answer.exit_code == 2
    assert "has no PL/Python functions" in answer.stderr
    assert "SQLSTATE 55000" in answer.stderr


def test_a_database_without_the_schema_is_refused(run, fresh_database):
    answer = run("lookup", "meridian", "--dsn", fresh_database())
    assert answer.exit_code == 2
    assert "graphalgo is not installed in the database" in answer.stderr


def test_a_dsn_that_does_not_answer_is_told_without_its_password(run):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answer = run("walk", "x", "--dsn", f"postgresql://me:hunter2@127.0.0.1:{port}/mine")
    assert answer.exit_code == 2
    assert answer.stderr.startswith(f"error: no connection to host 127.0.0.1, port {port}")
    assert "hunter2" not in answer.stderr
    assert "SQLSTATE 08001" in answer.stderr


def test_a_dsn_that_cannot_be_read_is_not_repeated(run):
    answer = run("walk", "x", "--dsn", "postgresql://me:hunter2@[mine")
    assert answer.exit_code == 2
    assert "hunter2" not in answer.stderr
    assert "neither a connection string nor a URL" in answer.stderr


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not JSON"),
        ("[]", "must hold a JSON object"),
        ('{"nodes": [{}]}', "nodes, entry 1 has no id"),
        ('{"nodes": 3}', '"nodes" holds a int, but must hold a list'),
        ('{"tables": {}}', "is not in the harbour sample's form"),
    ],
)
def test_a_graph_file_that_is_none_is_refused(run, tmp_path, content, says):
    path = tmp_path / "graph.json"
    if content is not None:
        path.write_text(content)
    answer = run("walk", "x", "--graph", str(path))
    assert answer.exit_code == 2
    assert says in answer.stderr


def test_an_interrupted_statement_is_told_in_the_servers_words(run, dsn):
    limited = psycopg.conninfo.make_conninfo(dsn, options="-c statement_timeout=1")
    answer = run("walk", "MERI", "--depth", "5", "--dsn", limited)
    assert answer.exit_code == 2
    assert "error: canceling statement due to statement timeout" in answer.stderr
    assert "SQLSTATE 57014" in answer.stderr


def test_what_a_terminal_would_obey_is_shown_and_not_obeyed(run, tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(
        json.dumps(
            {
                "entity_types": [{"name": "thing", "handle_prefix": "T"}],
                "relations": [],
                "nodes": [{"id": 1, "entity_type": "thing", "summary": "\x1b[2J[bold]two\nlines"}],
                "keys": [{"node_id": 1, "key": "a", "kind": "canonical", "is_name": True}],
                "edges": [],
            }
        )
    )
    answer = run("lookup", "a", "--graph", str(path))
    assert "\\x1b[2J[bold]two\\nlines" in answer.stdout
    assert "\x1b" not in answer.stdout
