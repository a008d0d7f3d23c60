"""A product's own policy decides who opens an entity, and nobody can tell what it denies."""

from __future__ import annotations

import statistics
import time

import psycopg
import pytest

from graphalgo.install import install
from tests.support import maps
from tests.support.maps import NOBODY, A, B, ask, cite, found, near, put, refusal
from tests.support.timing import soon

CALLERS = [A, B, NOBODY, None]


@pytest.fixture(scope="module")
def map_dsn(make_database):
    made = make_database()
    install(made)
    return made


@pytest.fixture
def desk(map_dsn):
    """Shared notes that a policy decides about, note 1 among them the best match and strongest."""
    with maps.mapping(map_dsn) as connection:
        connection.execute(maps.POLICY)
        maps.register(connection, p_policy="desk.may_open")
        put(
            connection,
            {"id": 1, "title": "Storm storm", "body": "storm"},
            {"id": 2, "title": "Log", "body": "a storm"},
            {"id": 3, "title": "Other", "body": "a storm at sea"},
            {"id": 4, "title": "Centre", "body": "x"},
        )
        cite(connection, (4, 1, 1.0), (4, 2, 0.5), (3, 4, 0.4))
        yield connection


def close(connection, *numbers):
    with connection.cursor() as cursor:
        cursor.executemany("insert into desk.closed values (%s)", [(number,) for number in numbers])


@pytest.mark.parametrize("claims", CALLERS)
def test_a_denied_entity_is_as_if_it_were_not_there(desk, claims):
    """Everything that the map tells is what it tells once the row is deleted."""
    calls = [
        ("search_entities", ("storm",), {"p_limit": 2}),
        ("search_entities", ("storm",), {"p_limit": 1}),
        ("neighbors", ("NT-4",), {"p_limit": 2}),
        ("neighbors", ("NT-4",), {"p_limit": 1}),
        ("neighbors", ("NT-4",), {"p_relations": ["cites"], "p_direction": "out"}),
        ("ontology", (), {}),
    ]
    close(desk, 1)

    def told():
        answers = [ask(desk, name, *args, claims=claims, **named) for name, args, named in calls]
        return [*answers, refusal(desk, "entity", "NT-1", claims=claims),
                refusal(desk, "neighbors", "NT-1", claims=claims)]  # fmt: skip

    denied = told()
    assert denied[0]["total"] == 2
    assert denied[0]["truncated"] is False
    assert denied[2]["truncated"] is False
    assert maps.handles(denied[2]) == ["NT-2", "NT-3"]
    desk.execute("delete from desk.notes where id = 1")
    missing = told()
    for one in (denied, missing):
        for answer in one[:6]:
            answer.pop("cursor", None)
    assert denied == missing


def test_a_page_is_filled_with_what_lies_behind_the_denied(desk):
    put(desk, *({"id": number, "title": f"Gale {number}"} for number in range(1000, 3500)))
    cite(desk, *((4, number, 0.9) for number in range(1000, 3500)))
    close(desk, 1, *range(1000, 3490))
    answer = ask(desk, "neighbors", "NT-4", p_limit=11)
    assert maps.handles(answer)[:10] == [f"NT-{number}" for number in range(3490, 3500)]
    assert answer["truncated"] is True
    rest = ask(desk, "neighbors", "NT-4", p_cursor=answer["cursor"])
    assert maps.handles(rest) == ["NT-3"]
    assert rest["truncated"] is False
    answer = ask(desk, "search_entities", "gale", p_limit=10)
    assert set(maps.handles(answer)) == {f"NT-{number}" for number in range(3490, 3500)}
    assert (answer["total"], answer["truncated"]) == (10, False)


def test_vectors_do_not_find_what_is_denied(desk):
    desk.execute("select aiq.register_embedding_model('m', 2, 'cosine', true)")
    desk.execute("select aiq.put_entity_embeddings('m', '{NT-1,NT-2}', '{{1,0},{0.6,0.8}}')")
    assert found(desk, "zzz", p_embedding="[1,0]") == ["NT-1", "NT-2"]
    close(desk, 1)
    answer = ask(desk, "search_entities", "zzz", p_embedding="[1,0]")
    assert (maps.handles(answer), answer["total"]) == (["NT-2"], 1)


def test_titles_and_bodies_are_read_by_no_other_way(desk):
    close(desk, 1)
    with desk.transaction(force_rollback=True):
        maps.claim(desk, A)
        rows = desk.execute(
            "select handle, title, body from aiq.entities_api order by 1"
        ).fetchall()
        assert [row[0] for row in rows] == ["NT-2", "NT-3", "NT-4"]
        # A caller's own condition is not asked about rows that are left out.
        desk.execute(
            "create function pg_temp.look(text) returns boolean language plpgsql cost 0.0001"
            " as $$ begin raise notice '%', $1; return true; end $$"
        )
        notices: list[str] = []
        desk.add_notice_handler(lambda diag: notices.append(diag.message_primary or ""))
        desk.execute("select handle from aiq.entities_api where pg_temp.look(title)").fetchall()
        assert len(notices) == 3
        assert "Storm storm" not in notices


def test_it_is_asked_as_the_caller(desk):
    """The product's row security decides by who asks, not by who owns our functions."""
    desk.execute(
        """
        create table desk.grants (node text, who text);
        alter table desk.grants enable row level security;
        create policy own on desk.grants
            using (who = current_setting('request.jwt.claims', true)::jsonb ->> 'sub');
        grant select on desk.grants to authenticated;
        create table desk.asked (who text);
        grant insert on desk.asked to public;
        create or replace function desk.may_open(p_nodes bigint[]) returns setof bigint
        language plpgsql volatile as $$
        begin
            insert into desk.asked values (current_user);
            return query
            select n.id from aiq.nodes_api as n join desk.grants as g on g.node = n.source_pk
            where n.id = any (p_nodes);
        end $$;
        """
    )
    desk.execute("insert into desk.grants values ('1', %s), ('2', %s)", [A["sub"], B["sub"]])
    assert found(desk, "storm", A) == ["NT-1"]
    assert found(desk, "storm", B) == ["NT-2"]
    assert ask(desk, "entity", "NT-1", claims=A)["handle"] == "NT-1"
    assert refusal(desk, "entity", "NT-1", claims=B)[0] == "P0002"
    assert desk.execute("select distinct who from desk.asked").fetchall() == [("authenticated",)]


@pytest.mark.parametrize("role", ["aiq_owner", "aiq_engine"])
def test_our_roles_lend_it_no_rights(desk, role):
    with pytest.raises(psycopg.Error) as caught, desk.transaction():
        desk.execute(f"set local role {role}")
        desk.execute("select * from aiq.ask_policy('desk.may_open', '{1}')")
    assert caught.value.sqlstate == "42501"


def test_what_it_adds_of_its_own_is_left_out(desk):
    desk.execute(
        "create or replace function desk.may_open(p_nodes bigint[]) returns setof bigint"
        " language sql as 'select id from aiq.nodes_api union all select id from aiq.nodes_api"
        " union all select null'"
    )
    put(desk, {"id": 9, "title": "Hidden", "body": "storm", "visibility": "private",
               "owner": B["sub"]})  # fmt: skip
    assert "NT-9" not in found(desk, "storm", A)
    assert len(near(desk, "NT-4")) == 3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("drop function desk.may_open(bigint[])", "does not exist"),
        ("revoke execute on function desk.may_open(bigint[]) from authenticated, public",
         "may not be executed"),
        ("revoke usage on schema desk from authenticated", "may not be executed"),
        ("drop function desk.may_open(bigint[]); create function desk.may_open(bigint[])"
         " returns boolean language sql as 'select true'", "does not return setof bigint"),
    ],
)  # fmt: skip
def test_one_that_cannot_be_asked_opens_nothing(desk, change, says):
    desk.execute(change)
    for call in (("search_entities", "storm"), ("neighbors", "NT-4"), ("entity", "NT-1"),
                 ("entity", "NT-99")):  # fmt: skip
        said = refusal(desk, *call)
        assert said[0] == "42883"
        assert "desk.may_open" in said[1]
        assert says in said[1]
        assert said[2]


def test_the_check_tells_of_one_that_cannot_be_asked(desk):
    problems = "select problem, remedy from aiq.registration_problems()"
    assert desk.execute(problems).fetchall() == []
    desk.execute("revoke execute on function desk.may_open(bigint[]) from authenticated, public")
    ((problem, remedy),) = desk.execute(problems).fetchall()
    assert "desk.may_open" in problem
    with pytest.raises(psycopg.Error, match="may not be executed"):
        desk.execute(remedy.encode())
    desk.execute("grant execute on function desk.may_open(bigint[]) to authenticated")
    desk.execute(remedy.encode())
    assert desk.execute(problems).fetchall() == []


@pytest.mark.parametrize(
    "name", ["desk.nothing", "may_open", "desk.may_open(bigint[])", "", "desk.one", "desk.flag",
             "pg_temp.mine", "a.b.c"],
)  # fmt: skip
def test_registering_one_that_cannot_be_asked_is_refused(desk, name):
    desk.execute(
        "create function desk.one(bigint) returns setof bigint language sql as 'select $1';"
        "create function desk.flag(bigint[]) returns bigint language sql as 'select $1[1]';"
        "create function pg_temp.mine(bigint[]) returns setof bigint language sql"
        " as 'select unnest($1)'"
    )
    with pytest.raises(psycopg.Error) as caught:
        maps.register(desk, p_policy=name)
    assert caught.value.sqlstate == "42883"
    assert caught.value.diag.message_hint
    registered = desk.execute("select policy from aiq.entity_tables where policy is not null")
    assert registered.fetchall() == [("desk.may_open",)]


def test_registering_again_without_it_opens_all(desk):
    close(desk, 1)
    maps.register(desk)
    assert "NT-1" in found(desk, "storm")


def test_a_denied_handle_takes_no_longer_than_a_missing_one(desk):
    close(desk, 1)

    def seconds(handle):
        begun = time.perf_counter()
        refusal(desk, "entity", handle, claims=B)
        return time.perf_counter() - begun

    def ratio():
        # By turns, since what else the machine does comes and goes.
        taken = [(seconds("NT-1"), seconds("NT-99")) for _ in range(200)][20:]
        denied, missing = (statistics.median(column) for column in zip(*taken, strict=True))
        return denied / missing

    soon(ratio, lambda found: 0.75 < found < 1.33)
