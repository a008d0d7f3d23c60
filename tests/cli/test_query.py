"""`query` and `repl` answer alike from a server, a connection and a file."""

from __future__ import annotations

import json

import psycopg
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from typer.testing import CliRunner

from graphalgo.cli import repl as repl_module
from graphalgo.cli.application import app
from graphalgo.cli.repl import Session, completions
from graphalgo.cli.sources import EngineSource, ServerSource
from graphalgo.samples import harbour_json
from graphalgo.stores.client import ClientStore
from graphalgo.stores.memory import MemoryStore
from tests.support import harbour

QUERIES = [
    'LOOKUP "meridian", "nobody"',
    'GRAPH "bulk harmony" DEPTH 2',
    'GRAPH "9331802"',
    'SEMANTIC "x" FROM notes LIMIT 2',
    "SCHEMA graph",
    "select 1",
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "harbour.json"
    path.write_text(json.dumps(harbour_json()), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def vector(tmp_path_factory):
    path = tmp_path_factory.mktemp("vector") / "machinery.json"
    path.write_text("[0.1, 0, 0.7, 0.7]\n")
    return str(path)


@pytest.fixture
def run(monkeypatch):
    monkeypatch.delenv("GRAPHALGO_DSN", raising=False)

    def invoke(*arguments, **options):
        return CliRunner().invoke(app, list(arguments), **options)

    return invoke


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["table", "json"])
def test_the_answer_is_the_same_wherever_it_is_found(run, dsn, graph, vector, text, form):
    answers = [
        run("query", text, "--embedding", vector, *form, *place)
        for place in (["--dsn", dsn], ["--dsn", dsn, "--where", "client"], ["--graph", graph])
    ]
    assert [answer.exit_code for answer in answers] == [0, 0, 0]
    assert answers[0].stdout == answers[1].stdout == answers[2].stdout != ""


def test_tables_and_what_stands_below_them(run, graph):
    answer = run("query", 'LOOKUP "meri", "nobody"', "--graph", graph)
    assert "Meridian Line" in answer.stdout
    assert "Nothing found by: nobody" in answer.stdout
    answer = run("query", 'GRAPH "9331802"', "--graph", graph)
    assert answer.stdout == '"9331802" names 2 nodes: VSL-1, REG-1\nIt may be: VSL-1, REG-1\n'
    answer = run("query", 'GRAPH "meridan dawn"', "--graph", graph)
    assert "Did you mean: meridian dawn, vessel/meridien dawn" in answer.stdout
    answer = run("query", 'TEXT "boiler" FROM notes', "--graph", graph)
    assert "«boiler»" in answer.stdout
    answer = run("query", 'TEXT "pelican" FROM notes', "--graph", graph)
    assert answer.stdout == "Nothing is found.\n"
    answer = run("query", "select 1", "--graph", graph)
    assert "aiq.sql_passthrough" in answer.stdout


def test_a_graph_file_has_no_relations_of_sql(run, graph):
    for text in ('SCHEMA "sql" FROM edges_current', "SCHEMA FROM aiq.nodes_api"):
        answer = run("query", text, "--graph", graph)
        assert answer.exit_code == 2
        assert "a graph file has no relations" in answer.stderr
        assert "SQLSTATE 42704" in answer.stderr


@pytest.mark.parametrize("tenant", ["meridian", "kestrel"])
def test_a_graph_file_ranks_for_a_tenant_as_the_database_does(
    run, graph, vector, tenants_dsn, tenant
):
    options = ["--embedding", vector, "--json", "--as", harbour.claims_of(tenant)["sub"]]
    ranks = []
    for place in (["--dsn", tenants_dsn], ["--graph", graph]):
        answer = run("query", 'SEARCH "psc-441" FROM notes', *options, *place)
        assert answer.exit_code == 0
        ranks.append(
            [(row["id"], row["lex"], row["sem"]) for row in json.loads(answer.stdout)["rows"]]
        )
    assert ranks[0] == ranks[1]
    assert ranks[0][0] == {"meridian": (3, 2, 1), "kestrel": (1, 1, 2)}[tenant]


def test_an_embedding_comes_from_standard_input_too(run, graph):
    answer = run(
        "query", 'SEARCH "psc-441" FROM notes', "--graph", graph, "--embedding", "-",
        input="{0.1,0,0.7,0.7}\n",
    )  # fmt: skip
    assert answer.exit_code == 0
    assert "Meridian exposure" in answer.stdout


@pytest.mark.parametrize("place", ["server", "client", "file"])
@pytest.mark.parametrize(
    ("text", "sqlstate", "says"),
    [
        ('TEXT "x" DEPTH 2', "42601", "DEPTH belongs to GRAPH"),
        ('GRAPH "x" DEPTH 7', "22023", "DEPTH is 7, but must be from 1 to 5 at character 17"),
        ('TEXT "x" FROM nots', "42704", '"nots" is not a registered text source'),
        ('SEMANTIC "x" FROM notes', "22023", "p_embedding is missing"),
    ],
)
def test_refusals(run, dsn, graph, place, text, sqlstate, says):
    where = ["--graph", graph] if place == "file" else ["--dsn", dsn, "--where", place]
    answer = run("query", text, *where)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert says in answer.stderr
    assert "hint: " in answer.stderr
    assert f"SQLSTATE {sqlstate}" in answer.stderr


def test_an_embedding_file_that_cannot_be_read(run, graph, tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name in ("missing", "bytes", "."):
        answer = run("query", "SCHEMA", "--graph", graph, "--embedding", str(tmp_path / name))
        assert answer.exit_code == 2
        assert "cannot be read" in answer.stderr


def test_two_tenants_see_their_own(run, tenants_dsn):
    for tenant, unresolved in (("meridian", []), ("kestrel", ["Meridian Dawn"])):
        sub = harbour.claims_of(tenant)["sub"]
        answer = run(
            "query", 'LOOKUP "Meridian Dawn"', "--dsn", tenants_dsn, "--as-sub", sub, "--json"
        )
        assert json.loads(answer.stdout)["unresolved"] == unresolved


class TestRepl:
    def test_lines_of_a_pipe_are_answered_one_by_one(self, run, graph, vector):
        answer = run(
            "repl", "--graph", graph,
            input=f'LOOKUP "meri"\n\n\\json\n\\embedding {vector}\n'
            'SEMANTIC "x" FROM notes LIMIT 1\n\\quit\nLOOKUP "nobody"\n',
        )  # fmt: skip
        assert answer.exit_code == 0
        assert "Meridian Line" in answer.stdout
        assert '"distance"' in answer.stdout
        assert "nobody" not in answer.stdout

    def test_a_refusal_does_not_end_it(self, run, graph, dsn):
        for place in (["--graph", graph], ["--dsn", dsn]):
            answer = run("repl", *place, input='LOKUP "x"\n\\nonsense\nLOOKUP "meri"\n')
            assert answer.exit_code == 2
            assert "did you mean LOOKUP?" in answer.stderr
            assert "is no command" in answer.stderr
            assert "Meridian Line" in answer.stdout

    @pytest.mark.parametrize("command", ["\\quit", "\\q"])
    def test_two_commands_quit(self, run, graph, command):
        answer = run("repl", "--graph", graph, input=f'{command}\nLOOKUP "nobody"\n')
        assert (answer.exit_code, answer.stdout, answer.stderr) == (0, "", "")

    def test_help(self, run, graph):
        answer = run("repl", "--graph", graph, input="\\help\n")
        assert "\\embedding FILE" in answer.stderr

    def test_what_is_typed_is_remembered(self, tmp_path, monkeypatch):
        path = tmp_path / "state" / "history"
        source = EngineSource(MemoryStore.from_dict(harbour_json()))
        with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
            typed.send_text('LOOKUP "meri"\r\x04')
            assert list(repl_module._typed(source, path)) == ['LOOKUP "meri"']
        assert '+LOOKUP "meri"' in path.read_text()
        assert path.stat().st_mode & 0o077 == 0
        monkeypatch.setenv("GRAPHALGO_HISTORY", str(path))
        assert repl_module.history_file() == path

    def test_the_tab_key_completes(self, tmp_path):
        source = EngineSource(MemoryStore.from_dict(harbour_json()))
        with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
            typed.send_text('GRAPH "bulk h\t\rTEXT "x" fr\t notes\rLOOKUP "meri\td\x01\x0b\x04')
            # Enter that follows at once runs what is completed.
            assert list(repl_module._typed(source, tmp_path / "history")) == [
                'GRAPH "bulk harmony"',
                'TEXT "x" FROM notes',
            ]

    def test_what_several_words_begin_with_stays_and_they_are_shown(self, tmp_path):
        source = EngineSource(MemoryStore.from_dict(harbour_json()))
        with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
            typed.send_text("SE\t\rSEM\t\r\x04")
            assert list(repl_module._typed(source, tmp_path / "history")) == ["SE", "SEMANTIC"]

    def test_a_lost_connection_ends_it(self, dsn):
        with psycopg.connect(dsn, autocommit=True) as connection:
            session = Session(ServerSource(connection))
            assert session.answer('LOOKUP "meri"')
            with psycopg.connect(dsn, autocommit=True) as other:
                other.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])
            with pytest.raises(psycopg.Error):
                session.answer('LOOKUP "meri"')


COMPLETIONS = [
    ("", ["LOOKUP", "GRAPH", "TEXT"], 0),
    ("se", ["SEMANTIC", "SEARCH", "SELECT"], -2),
    ("LOOKUP ", [], 0),
    ('LOOKUP "meridian d', ['"meridian dawn"'], -11),
    ("GRAPH 'Rott", ["'rotterdam'"], -5),
    ('LOOKUP "meri", "kes', ['"kest"'], -4),
    ('GRAPH "meri" ', ["DEPTH", "TYPE", "LIMIT"], 0),
    ('GRAPH "meri" DEPTH 2 ', ["TYPE", "LIMIT"], 0),
    ('GRAPH "meri" TYPE op', ["operated_by"], -2),
    ('TEXT "boiler" fr', ["FROM"], -2),
    ('TEXT "boiler" FROM ', ["notes"], 0),
    ('SEMANTIC "x" FROM notes USING "ha', ['"hand-4d"'], -3),
    ('TEXT "boi', [], -4),
    ("SCHEMA ", ["p8ql", "graph", "sql", "FROM"], 0),
    ("SCHEMA sql ", ["FROM"], 0),
    ("fuzzy lo", ["LOOKUP"], -2),
    ('FUZZY LOOKUP "bul', ['"bulk harmony"'], -4),
    ("select ", [], 0),
    ("\\e", ["\\embedding"], -2),
]


@pytest.mark.parametrize("place", ["memory", "server"])
@pytest.mark.parametrize(("text", "words", "start"), COMPLETIONS)
def test_completions(dsn, place, text, words, start):
    if place == "memory":
        found = completions(MemoryStore.from_dict(harbour_json()), text)
    else:
        with psycopg.connect(dsn, autocommit=True) as connection:
            found = completions(ClientStore(connection), text)
    if not text:
        found = found[0], found[1][:3]
    assert found == (start, words)


def test_the_relations_of_a_server_complete(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        _, words = completions(ClientStore(connection), "SCHEMA sql FROM aiq.nodes_")
    assert words == ["aiq.nodes_api", "aiq.nodes_ever"]
