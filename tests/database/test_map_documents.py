"""What is searched of an entity follows its row."""

from __future__ import annotations

import psycopg
import pytest

from graphalgo.install import install
from tests.support import maps
from tests.support.facts import ORG_A
from tests.support.maps import NOBODY, A, ask, found, put


@pytest.fixture(scope="module")
def map_dsn(make_database):
    made = make_database()
    install(made)
    return made


@pytest.fixture
def empty(map_dsn):
    with maps.mapping(map_dsn) as connection:
        yield connection


@pytest.fixture
def desk(empty):
    maps.register(empty)
    put(
        empty,
        {"id": 1, "title": "Storm", "body": "wind"},
        {"id": 2, "title": "Calm", "body": "sun"},
    )
    return empty


def documents(connection):
    return connection.execute(
        "select n.source_pk, d.title, d.body from aiq.entity_documents as d"
        " join aiq.nodes as n on n.id = d.node_id order by 1"
    ).fetchall()


def test_an_insert_an_update_and_a_delete_are_followed(desk):
    assert found(desk, "storm") == ["NT-1"]
    desk.execute("update desk.notes set title = 'Gale' where id = 1")
    assert (found(desk, "storm"), found(desk, "gale")) == ([], ["NT-1"])
    desk.execute("update desk.notes set body = 'rain' where id = 1")
    assert (found(desk, "wind"), found(desk, "rain")) == ([], ["NT-1"])
    desk.execute("delete from desk.notes where id = 1")
    assert found(desk, "gale") == []
    assert documents(desk) == [("2", "Calm", "sun")]


def test_a_truncate_leaves_no_text(desk):
    desk.execute("truncate desk.notes")
    assert documents(desk) == []
    assert found(desk, "storm") == []


def test_a_row_that_is_left_out_loses_its_text_and_gets_it_back(desk):
    desk.execute("update desk.notes set draft = true where id = 1")
    assert documents(desk) == [("2", "Calm", "sun")]
    assert maps.refusal(desk, "entity", "NT-1")[0] == "P0002"
    desk.execute("update desk.notes set draft = false where id = 1")
    assert found(desk, "storm") == ["NT-1"]
    assert ask(desk, "entity", "NT-1")["body"] == "wind"


def test_a_change_of_scope_is_followed(desk):
    desk.execute("update desk.notes set org = %s where id = 1", [ORG_A])
    assert (found(desk, "storm", A), found(desk, "storm", NOBODY)) == (["NT-1"], [])
    desk.execute("update desk.notes set org = null where id = 1")
    assert found(desk, "storm", NOBODY) == ["NT-1"]


def test_a_load_that_is_paused_is_caught_up_with(desk):
    desk.execute("select aiq.bulk('desk.notes', true)")
    desk.execute("update desk.notes set title = 'Gale' where id = 1")
    desk.execute("delete from desk.notes where id = 2")
    put(desk, {"id": 3, "title": "Fog"})
    assert found(desk, "gale") == []
    desk.execute("select aiq.bulk('desk.notes', false)")
    assert documents(desk) == [("1", "Gale", "wind"), ("3", "Fog", None)]
    desk.execute("delete from aiq.entity_documents")
    desk.execute("select aiq.rebuild('note')")
    assert documents(desk) == [("1", "Gale", "wind"), ("3", "Fog", None)]


def test_registering_again_replaces_what_is_searched(desk):
    maps.register(desk, p_title_expr="upper(title)", p_body_expr=None)
    assert documents(desk) == [("1", "STORM", None), ("2", "CALM", None)]
    maps.register(desk, p_title_expr=None, p_body_expr=None)
    assert documents(desk) == []
    assert found(desk, "storm") == []
    assert ask(desk, "entity", "NT-1")["title"] == "storm"


def test_without_a_title_the_summary_is_it_and_else_a_key(empty):
    maps.register(empty, p_title_expr=None, p_summary_expr="'About ' || title")
    put(empty, {"id": 1, "title": "Storm", "body": "wind"})
    assert documents(empty) == [("1", "About Storm", "wind")]
    empty.execute("update desk.notes set title = 'Gale' where id = 1")
    assert documents(empty) == [("1", "About Gale", "wind")]
    maps.register(empty, p_title_expr=None)
    assert ask(empty, "search_entities", "wind")["rows"][0]["title"] == "gale"


def test_words_are_read_in_the_language_of_the_registration(empty):
    maps.register(empty, p_configuration="german")
    put(empty, {"id": 1, "title": "Häuser"})
    assert found(empty, "Haus") == ["NT-1"]
    maps.register(empty, p_configuration="simple")
    assert found(empty, "Haus") == []
    with pytest.raises(psycopg.Error, match="p_configuration is null"):
        maps.register(empty, p_configuration=None)


def test_rows_that_say_what_they_said_write_nothing(desk):
    before = desk.execute("select xmin, ctid from aiq.entity_documents order by 2").fetchall()
    desk.execute("update desk.notes set title = title")
    desk.execute("select aiq.rebuild('note')")
    assert (
        desk.execute("select xmin, ctid from aiq.entity_documents order by 2").fetchall() == before
    )


def test_a_registration_without_text_writes_no_document(empty):
    maps.register(empty, p_title_expr=None, p_body_expr=None)
    put(empty, {"id": 1, "title": "Storm"})
    assert documents(empty) == []


def test_a_body_that_cannot_be_computed_is_told_with_its_row(empty):
    maps.register(empty, p_body_expr="(1 / (id - 7))::text")
    with pytest.raises(psycopg.Error) as caught:
        put(empty, {"id": 6, "title": "Six"}, {"id": 7, "title": "Seven"})
    assert caught.value.sqlstate == "22023"
    assert "the row 7 of desk.notes" in str(caught.value)
    assert "division by zero" in str(caught.value)


@pytest.mark.parametrize("argument", ["p_title_expr", "p_body_expr"])
def test_an_expression_that_is_none_is_refused(empty, argument):
    with pytest.raises(psycopg.Error, match=argument) as caught:
        maps.register(empty, **{argument: "nothing"})
    assert caught.value.sqlstate == "22023"


def test_a_text_of_megabytes_is_taken(desk):
    put(desk, {"id": 3, "title": "Long", "body": " ".join(f"w{n}é" for n in range(300_000))})
    assert found(desk, "w17é") == ["NT-3"]
    assert len(ask(desk, "entity", "NT-3")["body"]) > 2_000_000


def test_a_row_that_takes_over_a_number_takes_over_the_document(desk):
    desk.execute("delete from desk.notes where id = 1")
    put(desk, {"id": 1, "title": "Thunder", "body": "again"})
    assert found(desk, "thunder") == ["NT-1"]


def test_unregistering_leaves_no_text(desk):
    desk.execute("select aiq.unregister_entity_table('note', 'desk.notes')")
    assert documents(desk) == []


def test_ten_thousand_rows_are_one_statement(desk):
    desk.execute("delete from desk.notes")
    desk.execute(
        "insert into desk.notes (id, title, body)"
        " select g, 'Note ' || g, 'Body ' || g from generate_series(1, 10000) as g"
    )
    assert desk.execute("select count(*) from aiq.entity_documents").fetchone() == (10000,)
    assert found(desk, "9731") == ["NT-9731"]
