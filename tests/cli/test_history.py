"""`history` shows every period of a node's edges, as a table, a document and a picture."""

from __future__ import annotations

import json
import re
from datetime import datetime
from xml.etree import ElementTree

import psycopg
import pytest
from typer.testing import CliRunner

from graphalgo.cli.application import app
from graphalgo.install import install
from graphalgo.loading import load_harbour
from graphalgo.rendering.timeline import timeline

SVG = "{http://www.w3.org/2000/svg}"
NOW = datetime(2024, 6, 1)


@pytest.fixture(scope="module")
def history_dsn(make_database):
    """Meridian Dawn has called at Felixstowe twice; the first call has ended."""
    made = make_database()
    install(made)
    load_harbour(made)
    with psycopg.connect(made, autocommit=True) as connection:
        for memory, start in (("log 1", "2024-02-01"), ("log 2", "2025-06-01T08:30Z")):
            graph = {
                "nodes": [{"k": "vessel", "n": "Meridian Dawn"}, {"k": "port", "n": "Felixstowe"}],
                "edges": [{"s": 0, "t": 1, "r": "last_called", "w": 0.5}],
            }
            connection.execute(
                "select aiq.upsert_graph(%s, %s)",
                [json.dumps(graph), json.dumps({"memory": memory, "valid_from": start})],
            )
            if memory == "log 1":
                connection.execute(
                    "select aiq.close_edge('2025-03-01', 'harbour master',"
                    " p_memory => 'log 1', p_relation => 'last_called')"
                )
    return made


@pytest.fixture
def run(monkeypatch, history_dsn):
    monkeypatch.setenv("GRAPHALGO_DSN", history_dsn)
    return lambda *arguments: CliRunner().invoke(app, ["history", *arguments])


def cells(answer):
    lines = [line.split("│")[1:-1] for line in answer.stdout.splitlines() if "│" in line]
    return [[cell.strip() for cell in line] for line in lines]


def test_each_period_has_its_line_with_who_began_and_who_ended_it(run):
    answer = run("Meridian Dawn", "--relation", "last_called")
    assert answer.exit_code == 0
    assert answer.stdout.startswith("VSL-1 Meridian Dawn (IMO 9331802)\n")
    first, second = [row for row in cells(answer) if row[2] == "PRT-2"]
    assert first == [
        "last_called", "→", "PRT-2", "Felixstowe, United Kingdom", "2024-02-01", "2025-03-01",
        "0.5", "log 1", "harbour master",
    ]  # fmt: skip
    assert second[4:] == ["2025-06-01 08:30", "", "0.5", "log 2", ""]


def test_edges_that_come_in_point_the_other_way(run):
    rows = cells(run("Felixstowe"))
    assert {(row[1], row[2]) for row in rows} == {("←", "VSL-1")}


def test_a_document_has_it_all(run):
    document = json.loads(run("VSL-1", "--json").stdout)
    assert document["node"]["handle"] == "VSL-1"
    assert document["cut"] is False
    periods = [one for one in document["periods"] if one["other_handle"] == "PRT-2"]
    assert [one["holds_now"] for one in periods] == [False, True]
    assert [one["valid_to"] for one in periods] == ["2025-03-01T00:00:00", None]
    assert periods[0]["provenance"]["memory"] == "log 1"
    assert periods[0]["closed_by"] == "harbour master"


def test_more_periods_than_asked_for_are_said_to_be_there(run):
    answer = run("VSL-1", "--limit", "1")
    assert len(cells(answer)) == 1
    assert answer.stdout.endswith("There are more than 1 periods; see --limit and --relation.\n")
    assert json.loads(run("VSL-1", "--limit", "1", "--json").stdout)["cut"] is True


def test_a_node_that_is_retired_keeps_its_history(run, history_dsn):
    with psycopg.connect(history_dsn, autocommit=True) as connection:
        connection.execute("delete from harbour.ports where name = 'Rotterdam'")
        try:
            answer = run("PRT-1")
            missing = run("Rotterdam")
        finally:
            connection.execute("insert into harbour.ports values (1, 'Rotterdam', 'Netherlands')")
    assert {row[2] for row in cells(answer)} == {"VSL-1", "VSL-3"}
    assert {row[8] for row in cells(answer)} == {"retirement"}
    assert "no node is found" in missing.stderr


def test_a_node_without_edges_says_so(run):
    answer = run("NL-2231")
    assert "No edge of it is known, past or present." in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "sqlstate", "says"),
    [
        (["nobody"], "P0002", 'no node is found by "nobody"'),
        (["9331802"], "21000", "names 2 nodes"),
        (["VSL-1", "--relation", "last_calld"], "42704", '--relation is "last_calld"'),
        (["VSL-1", "--limit", "0"], "22023", "--limit is 0"),
    ],
)
def test_what_has_no_history_is_refused(run, arguments, sqlstate, says):
    answer = run(*arguments)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert says in answer.stderr
    assert f"SQLSTATE {sqlstate}" in answer.stderr


def test_the_picture_has_a_bar_for_each_period(run, tmp_path):
    path = tmp_path / "history.svg"
    answer = run("Meridian Dawn", "--svg", str(path))
    assert answer.exit_code == 0 and f"The picture is in {path}" in answer.stderr
    document = ElementTree.parse(path).getroot()
    titles = ["".join(title.itertext()) for title in document.iter(f"{SVG}title")]
    told = [title for title in titles if "\nweight " in title]
    assert len(told) == len(json.loads(run("Meridian Dawn", "--json").stdout)["periods"])
    assert any(
        "2024-02-01 to 2025-03-01" in title and "ended by harbour master" in title for title in told
    )


def period(start, end, **more):
    return {
        "relation": "knows", "direction": "out", "other_id": 2, "other_handle": "T-2",
        "other_key": "two", "other_summary": None, "weight": 0.5, "valid_from": start,
        "ends_at": end, "memory": None, "closed_by": None, **more,
    }  # fmt: skip


NODE = {"handle": "T-1", "key": "one", "summary": None}


def bars(drawn):
    """Left and right of each bar, in the order of the periods."""
    found = []
    for group in ElementTree.fromstring(drawn).iter(f"{SVG}g"):
        shape = next(iter(group), None)
        if shape is None or shape.find(f"{SVG}title") is None:
            continue
        if shape.tag == f"{SVG}rect":
            left = float(shape.get("x"))
            found.append((left, left + float(shape.get("width")), shape.get("fill")))
        elif shape.get("fill") != "none":
            across = [float(x) for x in re.findall(r"[MHL]([\d.]+)", shape.get("d"))]
            found.append((min(across), max(across), shape.get("fill")))
    return found


def test_bars_stand_in_the_order_of_time_and_do_not_overlap():
    drawn = timeline(
        NODE,
        [
            period("2020-01-01T00:00:00", "2021-01-01T00:00:00"),
            period("2021-01-01T00:00:00", "2023-01-01T00:00:00"),
            period("2024-01-01T00:00:00", None),
            period("2025-01-01T00:00:00", None, other_id=3),
        ],
        NOW,
    )
    first, second, third, ahead = bars(drawn)
    assert first[1] == pytest.approx(second[0], abs=0.2)
    assert second[1] - second[0] == pytest.approx(2 * (first[1] - first[0]), rel=0.02)
    assert third[0] > second[1]
    # What holds on goes to the edge; what is over, holds and lies ahead differ.
    assert third[1] == ahead[1] > ahead[0] > third[0]
    assert first[2] == second[2]
    assert len({first[2], third[2], ahead[2]}) == 3


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("-infinity", None),
        ("-infinity", "infinity"),
        ("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"),
        ("2024-06-01T00:00:00", "2024-06-01T00:00:00"),
        ("2024-06-01T00:00:00", "2024-06-01T00:00:00.000001"),
        ("2024-05-31T18:00:00", "2024-06-01T03:00:00"),
        ("2024-05-20T00:00:00", None),
        ("2023-01-01T00:00:00", None),
        ("1700-01-01T00:00:00", None),
        ("44000-01-01T00:00:00", None),
        ("0044-03-15T00:00:00 BC", "2020-01-01T00:00:00"),
    ],
)
def test_any_moments_can_be_drawn(start, end):
    drawn = timeline(NODE, [period(start, end)], NOW)
    document = ElementTree.fromstring(drawn)
    (bar,) = bars(drawn)
    assert 0 <= bar[0] < bar[1] <= float(document.get("width"))
    marks = [text for text in document.iter(f"{SVG}text") if text.get("text-anchor") == "middle"]
    assert len(marks) <= 12


def test_no_period_and_hostile_texts_can_be_drawn():
    assert "No edge of it is known" in timeline(NODE, [], NOW)
    hostile = '<script>alert("1")</script>\x1b[2J'
    drawn = timeline(
        {**NODE, "summary": hostile}, [period("2020-01-01T00:00:00", None, memory=hostile)], NOW
    )
    document = ElementTree.fromstring(drawn)
    assert not list(document.iter(f"{SVG}script"))
    assert "\x1b" not in drawn
