"""Registered tables and their passages stay in step, whatever is done to the tables."""

from __future__ import annotations

import threading

import psycopg
import pytest

from graphalgo.install import check, install, uninstall
from tests.support.facts import ORG_A, ORG_B, USER_A, USER_B
from tests.support.passages import REGISTER, TABLE, empty_tables, held, speaking
from tests.support.registered import OTHER, OWNER, WRITER, acting_as, with_roles


@pytest.fixture(scope="module")
def installed(make_database):
    made = make_database()
    install(made)
    with with_roles(made):
        yield made


@pytest.fixture
def db(installed):
    with empty_tables(installed) as connection:
        yield connection


@pytest.fixture
def notes(db):
    db.execute(TABLE)
    return db


def refused(db, statement, sqlstate, *words):
    with pytest.raises(psycopg.Error) as caught:
        db.execute(statement)
    assert caught.value.sqlstate == sqlstate, caught.value
    for word in words:
        assert word in str(caught.value.diag.message_primary)
    return caught.value


def seen(db, sub, query="select id from aiq.passages order by number"):
    with speaking(db, sub) as store:
        return [row[0] for row in store.connection.execute(query)]


def triggers(db):
    """How many triggers there are on tables of others."""
    row = db.execute("select count(*) from pg_trigger where tgname ~ '^graphalgo_'").fetchone()
    return row[0]


# What a registration says


def test_rows_there_before_become_passages(notes):
    notes.execute(
        "insert into harbour.notes values (1, 'One', 'a boiler leaked'), (2, 'Two', null)"
    )
    assert notes.execute(REGISTER).fetchall() == [("notes", "harbour.notes", 1, 0, 0)]
    assert held(notes) == {"1": "a boiler leaked"}
    row = notes.execute("select row_number, title, words::text from aiq.text_chunks").fetchone()
    assert row == (1, "One", "'boiler':2 'leak':3")


def test_what_there_is_to_search_is_told(notes):
    notes.execute(
        "select aiq.register_text_source('logs', 'harbour.notes', 'id', 'content',"
        " p_configuration => 'simple', p_description => 'what was logged')"
    )
    with speaking(notes, None) as store:
        (source,) = store.text_sources()
        assert store.text_source("log") is None
    assert (source.name, source.configuration, source.description) == (
        "logs",
        "simple",
        "what was logged",
    )


@pytest.mark.parametrize(
    ("column", "values", "ids"),
    [
        ("smallint", "(3), (-2)", [("-2", -2), ("3", 3)]),
        ("bigint", "(9000000000)", [("9000000000", 9000000000)]),
        ("harbour.whole", "(7)", [("7", 7)]),
        ("text", "('10'), ('9')", [("10", None), ("9", None)]),
        ("uuid", "('" + ORG_A + "')", [(ORG_A, None)]),
        ("timestamptz", "('2024-01-01 00:00+01')", [("2023-12-31 23:00:00+00", None)]),
    ],
)
def test_ids_of_any_type_are_kept_as_text_and_whole_numbers_as_numbers(db, column, values, ids):
    db.execute("create domain harbour.whole as int")
    db.execute(f"create table harbour.notes (id {column} primary key, content text default 'x')")
    db.execute("set timezone = 'Asia/Tokyo'")
    db.execute("select aiq.register_text_source('notes', 'harbour.notes', 'id', 'content')")
    db.execute(f"insert into harbour.notes (id) values {values}")
    db.execute("set timezone = 'UTC'")
    rows = db.execute("select row_id, row_number from aiq.text_chunks order by 1").fetchall()
    assert rows == ids
    db.execute("delete from harbour.notes")
    assert held(db) == {}


def test_a_column_that_is_unique_beside_the_primary_key_serves(db):
    db.execute(
        'create table harbour.notes (id int primary key, "Slug ""x" text not null unique,'
        ' "Text" text)'
    )
    db.execute("select aiq.register_text_source('notes', 'harbour.notes', 'Slug \"x', 'Text')")
    db.execute("insert into harbour.notes values (1, 'b', 'one'), (2, 'a', 'two')")
    assert held(db) == {"a": "two", "b": "one"}
    db.execute('update harbour.notes set "Slug ""x" = \'c\' where id = 1')
    assert held(db) == {"a": "two", "c": "one"}
    assert [finding for finding in check(db.info.dsn) if not finding.ok and
            finding.name == "registrations"] == []  # fmt: skip


@pytest.mark.parametrize(
    "definition",
    [
        "id int, content text",
        "id int unique, content text",
        "id int not null, content text",
        "id int, other int, content text, primary key (id, other)",
        "id int not null, content text, unique (id) deferrable initially deferred",
    ],
)
def test_ids_that_may_repeat_or_be_missing_are_refused(db, definition):
    db.execute(f"create table harbour.notes ({definition})")
    error = refused(
        db,
        "select aiq.register_text_source('notes', 'harbour.notes', 'id', 'content')",
        "22023", 'p_id_column is "id"', "harbour.notes",
    )  # fmt: skip
    assert "unique" in error.diag.message_hint


def test_a_partial_unique_index_does_not_make_ids_unique(db):
    db.execute("create table harbour.notes (id int not null, content text)")
    db.execute("create unique index on harbour.notes (id) where id > 0")
    refused(
        db, "select aiq.register_text_source('notes', 'harbour.notes', 'id', 'content')", "22023"
    )


@pytest.mark.parametrize(
    ("arguments", "sqlstate", "words"),
    [
        ("'notes', 'harbour.notes', 'nr', 'content'", "22023", ("p_id_column", '"nr"')),
        ("'notes', 'harbour.notes', 'id', 'body'", "22023", ("p_content_column", '"body"')),
        ("'notes', 'harbour.notes', 'id', null", "22023", ("p_content_column", "null")),
        ("'notes', 'harbour.notes', 'id', 'content', 'head'", "22023", ("p_title_column",)),
        ("'', 'harbour.notes', 'id', 'content'", "22023", ("p_name",)),
        ("null, 'harbour.notes', 'id', 'content'", "22023", ("p_name",)),
        (
            "'notes', 'harbour.notes', 'id', 'content', p_configuration => null",
            "22023",
            ("p_configuration",),
        ),
        (
            "'notes', 'harbour.notes', 'id', 'content', p_org_expr => 'nothing'",
            "22023",
            ("p_org_expr", '"nothing"'),
        ),
        (
            "'notes', 'harbour.notes', 'id', 'content', p_include_where => 'org'",
            "22023",
            ("p_include_where",),
        ),
        ("'notes', 'aiq.meta', 'key', 'value'", "22023", ("aiq.meta",)),
        ("'notes', 99999999, 'id', 'content'", "42704", ("99999999",)),
    ],
)
def test_a_registration_that_cannot_be_is_refused(notes, arguments, sqlstate, words):
    notes.execute("insert into harbour.notes values (1, 'One', 'x')")
    refused(notes, f"select aiq.register_text_source({arguments})", sqlstate, *words)
    assert notes.execute("select count(*) from aiq.text_sources").fetchone() == (0,)
    assert triggers(notes) == 0


@pytest.mark.parametrize(
    ("expressions", "says"),
    [
        ("p_org_expr => 'title::uuid'", "invalid input syntax for type uuid"),
        ("p_visibility_expr => 'title'", 'visibility is "odd"'),
        ("p_visibility_expr => $$case id when 2 then 'private' end$$", "must have an owner"),
        ("p_include_where => '1 / (id - 2) is not null'", "division by zero"),
    ],
)
def test_rows_that_cannot_be_passages_are_named(notes, expressions, says):
    notes.execute(
        "insert into harbour.notes select i, case i when 2 then 'odd' end, 'x'"
        " from generate_series(1, 9) as i"
    )
    error = refused(
        notes,
        f"select aiq.register_text_source('notes', 'harbour.notes', 'id', 'content', "
        f"{expressions})",
        "22023", "the row 2 of harbour.notes", '"notes"', says,
    )  # fmt: skip
    assert "aiq.register_text_source('notes'" in error.diag.message_hint


def test_a_text_too_long_to_be_searched_is_refused_naming_the_row(notes):
    notes.execute(REGISTER)
    error = refused(
        notes,
        "insert into harbour.notes (id, content) values (1, 'short'), (2, (select"
        " string_agg(md5(i::text), ' ') from generate_series(1, 60000) as i))",
        "22023", "the row 2 of harbour.notes",
    )  # fmt: skip
    assert "tsvector" in error.diag.message_primary
    assert held(notes) == {}


# What happens to the table happens to the passages


def test_every_statement_on_the_table_is_followed(notes):
    notes.execute(REGISTER)
    notes.execute(
        "insert into harbour.notes (id, content) values (1, 'one'), (2, 'two'), (3, null)"
    )
    assert held(notes) == {"1": "one", "2": "two"}
    notes.execute("update harbour.notes set content = 'three' where id = 3")
    notes.execute("update harbour.notes set content = null where id = 1")
    assert held(notes) == {"2": "two", "3": "three"}
    notes.execute(
        "insert into harbour.notes (id, content) values (2, 'TWO'), (4, 'four')"
        " on conflict (id) do update set content = excluded.content"
    )
    assert held(notes) == {"2": "TWO", "3": "three", "4": "four"}
    notes.execute("update harbour.notes set id = id + 10")
    assert sorted(held(notes)) == ["12", "13", "14"]
    notes.execute(
        "with gone as (delete from harbour.notes where id = 12 returning *)"
        " insert into harbour.notes (id, content) select 1, content from gone"
    )
    assert sorted(held(notes)) == ["1", "13", "14"]
    with (
        notes.cursor() as cursor,
        cursor.copy("copy harbour.notes (id, content) from stdin") as copy,
    ):
        copy.write_row((20, "copied"))
    assert held(notes)["20"] == "copied"
    notes.execute("delete from harbour.notes where id = 20")
    assert "20" not in held(notes)
    notes.execute("truncate harbour.notes")
    assert held(notes) == {}


def test_rows_that_say_the_same_write_nothing(notes):
    notes.execute(REGISTER)
    notes.execute("insert into harbour.notes (id, title, content) values (1, 'a', 'one')")
    before = notes.execute("select xmin, ctid from aiq.text_chunks").fetchone()
    notes.execute("update harbour.notes set content = content, visibility = 'org'")
    assert notes.execute("select xmin, ctid from aiq.text_chunks").fetchone() == before
    notes.execute("update harbour.notes set title = 'b'")
    assert notes.execute("select title from aiq.text_chunks").fetchone() == ("b",)


def test_a_row_that_is_excluded_is_no_passage(notes):
    notes.execute(
        "select aiq.register_text_source('notes', 'harbour.notes', 'id', 'content',"
        " p_include_where => $$title <> 'draft'$$)"
    )
    notes.execute("insert into harbour.notes values (1, 'draft', 'one'), (2, 'done', 'two')")
    assert held(notes) == {"2": "two"}
    notes.execute(
        "update harbour.notes set title = case title when 'draft' then 'done' else 'draft' end"
    )
    assert held(notes) == {"1": "one"}


def test_partitions_are_followed_too(db):
    db.execute(
        "create table harbour.notes (id int primary key, content text) partition by range (id);"
        "create table harbour.low partition of harbour.notes for values from (0) to (100);"
        "create table harbour.high partition of harbour.notes for values from (100) to (200)"
    )
    db.execute("select aiq.register_text_source('notes', 'harbour.notes', 'id', 'content')")
    db.execute("insert into harbour.notes values (1, 'one'), (101, 'two')")
    db.execute("insert into harbour.high values (102, 'three')")
    db.execute("update harbour.notes set id = 103 where id = 1")
    assert held(db) == {"101": "two", "102": "three", "103": "one"}
    db.execute("truncate harbour.high")
    assert held(db) == {}
    db.execute("create table harbour.top partition of harbour.notes for values from (200) to (300)")
    (problem,) = db.execute("select problem, remedy from aiq.registration_problems()").fetchall()
    assert "harbour.top was attached later" in problem[0]
    db.execute(problem[1])
    db.execute("insert into harbour.top values (201, 'four')")
    assert held(db) == {"201": "four"}


def test_inheritance_children_are_followed_too(db):
    db.execute("create table harbour.notes (id int primary key, content text)")
    db.execute("create table harbour.logs (extra int) inherits (harbour.notes)")
    db.execute("select aiq.register_text_source('notes', 'harbour.notes', 'id', 'content')")
    db.execute("insert into harbour.logs values (1, 'one', 5)")
    db.execute("insert into harbour.notes values (2, 'two'), (1, 'one')")
    assert held(db) == {"1": "one", "2": "two"}
    db.execute("delete from only harbour.notes where id = 1")
    assert held(db) == {"1": "one", "2": "two"}
    db.execute("delete from harbour.logs")
    assert held(db) == {"2": "two"}


def test_a_table_is_nodes_and_passages_at_once(notes):
    notes.execute(
        "insert into aiq.entity_types (name, handle_prefix) values ('note', 'NOTE')"
        " on conflict do nothing"
    )
    notes.execute("select aiq.register_entity_table('note', 'harbour.notes', 'title')")
    notes.execute(REGISTER)
    notes.execute("insert into harbour.notes (id, title, content) values (1, 'Log', 'one')")
    assert held(notes) == {"1": "one"}
    assert notes.execute("select aiq.unregister_text_source('notes')").fetchone() == (1,)
    notes.execute("update harbour.notes set title = 'Book'")
    assert notes.execute("select key from aiq.nodes_api where entity_type = 'note'").fetchall() == [
        ("book",)
    ]
    notes.execute("select aiq.unregister_entity_table('note', 'harbour.notes')")
    assert triggers(notes) == 0


def test_two_sources_read_one_table(notes):
    for name, column in (("titles", "title"), ("notes", "content")):
        notes.execute(
            f"select aiq.register_text_source('{name}', 'harbour.notes', 'id', '{column}')"
        )
    notes.execute("insert into harbour.notes (id, title, content) values (1, 'Log', 'one')")
    assert (held(notes), held(notes, "titles")) == ({"1": "one"}, {"1": "Log"})
    notes.execute("select aiq.unregister_text_source('titles')")
    notes.execute("update harbour.notes set content = 'two'")
    assert held(notes) == {"1": "two"}


# Pauses and repairs


def test_a_load_can_be_paused(notes):
    notes.execute(REGISTER)
    notes.execute("insert into harbour.notes (id, content) values (1, 'one'), (2, 'two')")
    notes.execute("select aiq.bulk('harbour.notes', true)")
    notes.execute("insert into harbour.notes (id, content) values (3, 'three')")
    notes.execute("delete from harbour.notes where id = 1")
    assert held(notes) == {"1": "one", "2": "two"}
    (problem,) = notes.execute(
        "select registered_as, problem from aiq.registration_problems()"
    ).fetchall()
    assert problem[0] == 'passages "notes"' and "aiq.bulk was left on" in problem[1]
    notes.execute("select aiq.bulk('harbour.notes', false)")
    assert held(notes) == {"2": "two", "3": "three"}
    notes.execute("insert into harbour.notes (id, content) values (4, 'four')")
    assert "4" in held(notes)
    assert notes.execute("select * from aiq.registration_problems()").fetchall() == []


def test_a_rebuild_mends_what_went_unnoticed(notes):
    notes.execute(REGISTER)
    notes.execute("insert into harbour.notes (id, content) values (1, 'one'), (2, 'two')")
    notes.execute(
        "set session_replication_role = replica;"
        "insert into harbour.notes (id, content) values (3, 'three');"
        "delete from harbour.notes where id = 1;"
        "update harbour.notes set content = 'TWO' where id = 2;"
        "set session_replication_role = origin"
    )
    assert notes.execute("select * from aiq.rebuild_text('notes')").fetchall() == [
        ("notes", "harbour.notes", 1, 1, 1)
    ]
    assert held(notes) == {"2": "TWO", "3": "three"}
    assert notes.execute("select * from aiq.rebuild_text('notes')").fetchall() == [
        ("notes", "harbour.notes", 0, 0, 0)
    ]


def test_registering_again_replaces_everything(notes):
    notes.execute(REGISTER)
    notes.execute(
        "insert into harbour.notes (id, title, content, org) values (1, 'a', 'the ports', %s)",
        [ORG_A],
    )
    row = notes.execute(
        "select * from aiq.register_text_source('notes', 'harbour.notes', 'id', 'content',"
        " p_configuration => 'simple')"
    ).fetchone()
    assert row == ("notes", "harbour.notes", 0, 1, 0)
    assert notes.execute("select title, org_id, words::text from aiq.text_chunks").fetchone() == (
        None, None, "'ports':2 'the':1",
    )  # fmt: skip


def test_the_name_of_another_table_is_not_taken_over(notes):
    notes.execute(REGISTER)
    notes.execute("create table harbour.other (id int primary key, content text)")
    error = refused(
        notes, "select aiq.register_text_source('notes', 'harbour.other', 'id', 'content')",
        "22023", "harbour.notes already",
    )  # fmt: skip
    notes.execute(error.diag.message_hint.partition(": ")[2])
    notes.execute("select aiq.register_text_source('notes', 'harbour.other', 'id', 'content')")


def test_a_table_keeps_its_passages_when_it_is_renamed(notes):
    notes.execute(REGISTER)
    notes.execute("insert into harbour.notes (id, content) values (1, 'one')")
    notes.execute("alter table harbour.notes rename to logs")
    (problem,) = notes.execute("select problem, remedy from aiq.registration_problems()").fetchall()
    assert problem[0] == "the table is now called harbour.logs"
    notes.execute("update harbour.logs set content = 'two'")
    notes.execute(problem[1])
    assert held(notes) == {"1": "two"}
    assert notes.execute("select * from aiq.registration_problems()").fetchall() == []


def test_a_table_that_is_gone_is_reported_and_released(notes):
    notes.execute(REGISTER)
    notes.execute("insert into harbour.notes (id, content) values (1, 'one')")
    notes.execute("drop table harbour.notes")
    (problem,) = notes.execute("select problem, remedy from aiq.registration_problems()").fetchall()
    assert problem[0] == "the table is no longer there"
    notes.execute(problem[1])
    assert notes.execute("select count(*) from aiq.text_chunks").fetchone() == (0,)
    refused(notes, "select aiq.rebuild_text('notes')", "42704", '"notes"')


def test_ids_that_are_unique_no_longer_are_reported(db):
    db.execute("create table harbour.notes (id int not null unique, content text)")
    db.execute("select aiq.register_text_source('notes', 'harbour.notes', 'id', 'content')")
    db.execute("alter table harbour.notes drop constraint notes_id_key")
    (problem,) = db.execute("select problem, remedy from aiq.registration_problems()").fetchall()
    assert problem[0] == "its column id may now be null or repeat"
    db.execute(problem[1])
    assert db.execute("select * from aiq.registration_problems()").fetchall() == []


@pytest.mark.parametrize("column", ["id", "content", "title"])
def test_a_column_that_is_gone_is_reported_and_refused(notes, column):
    notes.execute(REGISTER)
    notes.execute("insert into harbour.notes (id, content) values (1, 'one')")
    notes.execute(f"alter table harbour.notes rename {column} to other")
    (problem,) = notes.execute("select problem, remedy from aiq.registration_problems()").fetchall()
    assert problem[0] == f"its column {column} is gone"
    refused(
        notes, "update harbour.notes set visibility = 'public'", "55000", '"notes"',
        f"no column {column} ",
    )  # fmt: skip
    notes.execute(problem[1])
    notes.execute("update harbour.notes set visibility = 'public'")


def test_an_unknown_source_is_named_with_the_likeliest(notes):
    notes.execute(REGISTER)
    for call in ("aiq.rebuild_text('note')", "aiq.unregister_text_source('note')"):
        error = refused(notes, f"select {call}", "42704", '"note"')
        assert "notes" in error.diag.message_hint


# Who may


def test_the_owner_registers_and_nobody_else(notes):
    notes.execute(f"alter table harbour.notes owner to {OWNER}")
    with acting_as(notes, OTHER):
        refused(notes, REGISTER, "42501", "is not the owner of harbour.notes")
    with acting_as(notes, WRITER):
        refused(notes, REGISTER, "42501")
    with acting_as(notes, OWNER):
        notes.execute(REGISTER)
        notes.execute("insert into harbour.notes (id, content) values (1, 'one')")
    for call in ("aiq.rebuild_text('notes')", "aiq.unregister_text_source('notes')"):
        with acting_as(notes, OTHER):
            refused(notes, f"select {call}", "42501", "is not the owner of harbour.notes")
    with acting_as(notes, OWNER):
        notes.execute("select aiq.rebuild_text('notes')")
        assert notes.execute("select aiq.unregister_text_source('notes')").fetchone() == (1,)
    assert notes.execute(
        "select has_table_privilege('aiq_engine', 'harbour.notes', 'select')"
    ).fetchone() == (False,)


def test_whoever_may_write_the_table_writes_passages(notes):
    notes.execute(REGISTER)
    notes.execute(f"grant select, insert, update, delete on harbour.notes to {WRITER}")
    with acting_as(notes, WRITER):
        notes.execute("insert into harbour.notes (id, content) values (1, 'one')")
        notes.execute("update harbour.notes set content = 'two'")
    assert held(notes) == {"1": "two"}


def test_row_security_on_the_table_must_let_the_engine_read(notes):
    notes.execute("alter table harbour.notes enable row level security")
    error = refused(notes, REGISTER, "55000", "row security hides rows of harbour.notes")
    notes.execute(error.diag.message_hint)
    notes.execute(REGISTER)


# Who sees


def test_a_passage_is_seen_by_those_of_its_scope(notes):
    notes.execute(REGISTER)
    notes.execute(
        "insert into harbour.notes (id, content, org, visibility, owner) values"
        " (1, 'x', null, null, null), (2, 'x', %(a)s, null, null), (3, 'x', %(b)s, 'org', null),"
        " (4, 'x', %(a)s, 'public', null), (5, 'x', null, 'private', %(ua)s),"
        " (6, 'x', %(a)s, 'private', %(ub)s)",
        {"a": ORG_A, "b": ORG_B, "ua": USER_A, "ub": USER_B},
    )
    assert seen(notes, None) == ["1", "4"]
    assert seen(notes, USER_A) == ["1", "2", "4", "5"]
    assert seen(notes, USER_B) == ["1", "3", "4", "6"]
    notes.execute("update harbour.notes set org = %s, visibility = null where id > 1", [ORG_B])
    assert seen(notes, USER_A) == ["1"]
    assert seen(notes, USER_B) == ["1", "2", "3", "4", "5", "6"]


def test_a_condition_of_the_caller_is_not_asked_about_what_is_hidden(notes):
    notes.execute(REGISTER)
    notes.execute(
        "insert into harbour.notes (id, content, org) values (1, 'open', null), (2, 'hidden', %s)",
        [ORG_B],
    )
    query = (
        "select id from aiq.passages where 1 / (case content when 'hidden' then 0 else 1 end) = 1"
    )
    assert seen(notes, USER_A, query) == ["1"]


# Coming and going


def test_uninstalling_takes_the_triggers_away(make_database):
    dsn = make_database()
    install(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create schema harbour; grant usage on schema harbour to public")
        connection.execute(TABLE)
        connection.execute(REGISTER)
        assert connection.execute(
            "select count(*) from aiq.installed_objects where kind = 'trigger'"
            " and name ~ 'harbour.notes'"
        ).fetchone() == (4,)
    install(dsn)
    uninstall(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("insert into harbour.notes (id, content) values (1, 'one')")
        assert connection.execute(
            "select count(*) from pg_trigger where tgrelid = 'harbour.notes'::regclass"
        ).fetchone() == (0,)


def test_installing_again_keeps_passages_and_goes_on(notes):
    notes.execute(REGISTER)
    notes.execute("insert into harbour.notes (id, content) values (1, 'one')")
    install(notes.info.dsn)
    notes.execute("insert into harbour.notes (id, content) values (2, 'two')")
    assert held(notes) == {"1": "one", "2": "two"}


def test_ten_thousand_rows_cost_one_statement(notes):
    notes.execute(REGISTER)
    notes.execute("create table harbour.count (statements int)")
    notes.execute(
        "create function harbour.counted() returns trigger language plpgsql as $$ begin"
        " insert into harbour.count values (1); return null; end $$;"
        "grant insert on harbour.count to public;"
        "create trigger counted after insert on aiq.text_chunks for each statement"
        " execute function harbour.counted()"
    )
    try:
        notes.execute(
            "insert into harbour.notes (id, content) select i, 'note ' || i"
            " from generate_series(1, 10000) as i"
        )
        assert notes.execute("select count(*) from harbour.count").fetchone() == (1,)
        assert len(held(notes)) == 10_000
    finally:
        notes.execute("drop trigger counted on aiq.text_chunks")


def test_writers_at_the_same_time_leave_what_the_table_says(notes):
    notes.execute(REGISTER)
    notes.execute(
        "insert into harbour.notes (id, content) select i, '' from generate_series(1, 20) as i"
    )

    def write(number):
        with psycopg.connect(notes.info.dsn, autocommit=True) as connection:
            for turn in range(15):
                one = (number * 7 + turn * 3) % 20 + 1
                connection.execute("delete from harbour.notes where id = %s", [one])
                connection.execute(
                    "insert into harbour.notes (id, content) values (%s, %s) on conflict (id)"
                    " do update set content = excluded.content",
                    [one, f"{number}-{turn}"],
                )

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = notes.execute("select id::text, content from harbour.notes").fetchall()
    assert dict(rows) == held(notes)
