"""The map: search, one hop and read, and who sees what of it."""

from __future__ import annotations

import base64
import json
import statistics
import time

import psycopg
import pytest

from graphalgo.install import install
from graphalgo.loading import load_investigation
from graphalgo.samples.investigation import investigation_json
from tests.support import maps
from tests.support.facts import ORG_A, ORG_B, USER_A
from tests.support.maps import NOBODY, A, B, ask, cite, found, handles, near, put, refusal
from tests.support.timing import soon


@pytest.fixture(scope="module")
def map_dsn(make_database):
    made = make_database()
    install(made)
    return made


@pytest.fixture
def desk(map_dsn):
    """Notes on storms and tides, one of each organisation, one private, one shared by all."""
    with maps.mapping(map_dsn) as connection:
        maps.register(connection)
        put(
            connection,
            {"id": 1, "title": "Storm surge tables", "body": "Heights of the surge.", "org": ORG_A},
            {"id": 2, "title": "Storm log", "body": "What the storm broke.", "org": ORG_B},
            {"id": 3, "title": "Tide and storm", "body": "Shared by all."},
            {"id": 4, "title": "My storm", "body": "Private.", "visibility": "private",
             "owner": USER_A},
        )  # fmt: skip
        cite(connection, (3, 1), (3, 2), (4, 3))
        yield connection


@pytest.fixture(scope="module")
def investigation(make_database):
    dsn = make_database()
    install(dsn)
    load_investigation(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


class TestHandOff:
    def test_the_question_the_hop_and_the_reads(self, investigation):
        sample = investigation_json()
        expected = sample["expected"]
        answer = ask(investigation, "search_entities", sample["question"])
        assert handles(answer)[0] == expected["search_first"]
        assert "words alone" in answer["note"]
        hop = ask(investigation, "neighbors", "DSC-104")
        for direction in ("out", "in"):
            reached = [row["handle"] for row in hop["rows"] if row["direction"] == direction]
            assert reached == expected["neighbors_of_DSC-104"][direction]
        assert (hop["truncated"], hop["cursor"]) == (False, None)
        titles = {each["handle"]: each for each in sample["entities"]}
        for handle in expected["neighbors_of_DSC-104"]["out"]:
            read = ask(investigation, "entity", handle)
            assert (read["title"], read["body"]) == (
                titles[handle]["title"], titles[handle]["body"],
            )  # fmt: skip

    def test_the_ontology_is_one_for_all_and_names_no_entity(self, investigation):
        sample = investigation_json()
        told = [ask(investigation, "ontology", claims=claims) for claims in (None, A, B)]
        assert told[0] == told[1] == told[2]
        assert {each["name"] for each in told[0]["entity_types"]} == {
            each["name"] for each in sample["entity_types"]
        }
        assert len(told[0]["routes"]) == sum(len(route["to"]) for route in sample["routes"])
        assert "DSC-104" not in json.dumps(told[0])
        investigation.execute(
            "insert into aiq.relations (src_type, relation, dst_type)"
            " values ('insight', 'explains', 'memory')"
        )
        routes = ask(investigation, "ontology")["routes"]
        assert ("insight", "explains", "memory") in {
            (route["src_type"], route["relation"], route["dst_type"]) for route in routes
        }


class TestCallers:
    CASES = ((A, {1, 3, 4}), (B, {2, 3}), (NOBODY, {3}), (None, {3}))

    @pytest.mark.parametrize(("claims", "seen"), CASES)
    def test_a_search_ranks_and_counts_what_they_see(self, desk, claims, seen):
        answer = ask(desk, "search_entities", "storm", claims=claims)
        assert set(handles(answer)) == {f"NT-{number}" for number in seen}
        assert [row["rank"] for row in answer["rows"]] == list(range(1, len(seen) + 1))
        assert (answer["total"], answer["truncated"]) == (len(seen), False)

    @pytest.mark.parametrize(("claims", "seen"), CASES)
    def test_a_hop_goes_where_they_see(self, desk, claims, seen):
        expected = {f"NT-{number}" for number in seen - {3}}
        answer = ask(desk, "neighbors", "NT-3", claims=claims, p_limit=2)
        assert set(handles(answer)) == expected
        assert answer["truncated"] is False

    @pytest.mark.parametrize(("claims", "seen"), CASES)
    def test_they_read_what_they_see_and_are_told_one_thing_of_the_rest(self, desk, claims, seen):
        for number in (1, 2, 3, 4):
            if number in seen:
                assert ask(desk, "entity", f"NT-{number}", claims=claims)["handle"]
                continue
            for function in ("entity", "neighbors"):
                said = refusal(desk, function, f"NT-{number}", claims=claims)
                missing = refusal(desk, function, "NT-99", claims=claims)
                assert said[0] == "P0002"
                assert [s.replace(f"NT-{number}", "?") for s in said] == [
                    s.replace("NT-99", "?") for s in missing
                ]

    def test_a_claim_of_organisations_narrows(self, desk):
        assert found(desk, "storm", A | {"orgs": []}) == found(desk, "storm", A | {"orgs": [ORG_B]})
        assert "NT-1" not in found(desk, "storm", A | {"orgs": []})

    @pytest.mark.parametrize(
        "handle", ["NT-01", "NT-", "NT", "-1", "NT--1", "", "XX-1", "soft-1", "é" * 3000,
                   "NT-99999999999999999999", "NT-1-1", "NT-1'"],
    )  # fmt: skip
    def test_what_is_no_handle_is_as_what_is_missing(self, desk, handle):
        said = refusal(desk, "entity", handle, claims=B)
        assert said[:2] == ("P0002", f'no entity has the handle "{handle[:200]}"')
        assert said[2] == refusal(desk, "entity", "NT-1", claims=B)[2]

    def test_a_denied_handle_takes_no_longer_than_a_missing_one(self, desk):
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


class TestSearch:
    def test_a_word_of_a_title_counts_more_than_one_of_a_body(self, desk):
        put(
            desk,
            {"id": 10, "title": "Other", "body": "lantern lantern lantern"},
            {"id": 11, "title": "The lantern", "body": "x"},
        )
        assert found(desk, "lantern") == ["NT-11", "NT-10"]

    def test_more_of_the_words_come_first_and_not_all_are_needed(self, desk):
        put(
            desk,
            {"id": 10, "title": "x", "body": "copper kettle whistle"},
            {"id": 11, "title": "y", "body": "copper kettle"},
            {"id": 12, "title": "z", "body": "copper"},
        )
        assert found(desk, "which copper kettle has the whistle?") == ["NT-10", "NT-11", "NT-12"]

    def test_what_is_as_written_comes_first_and_a_minus_excludes(self, desk):
        put(
            desk,
            {"id": 10, "title": "grey heron grey heron", "body": "grey. heron."},
            {"id": 11, "title": "x", "body": "a heron grey"},
        )
        assert found(desk, '"heron grey"')[0] == "NT-10"
        desk.execute("update desk.notes set title = 'grey', body = 'heron' where id = 10")
        assert found(desk, '"heron grey"') == ["NT-11", "NT-10"]
        assert found(desk, "heron -grey") == []

    @pytest.mark.parametrize(
        "query", ["the of and", "-storm", "???", "'", "\\", "a'b\\c | & !", "("]
    )
    def test_odd_words_find_nothing_and_break_nothing(self, desk, query):
        assert found(desk, query) == []

    def test_the_match_is_marked_in_the_body_else_in_the_title(self, desk):
        put(
            desk,
            {"id": 10, "title": "Anchor", "body": "Of iron."},
            {"id": 11, "title": "Chain", "body": "Holds the anchor. " + "Much else. " * 300},
        )
        rows = ask(desk, "search_entities", "anchors")["rows"]
        assert {row["handle"]: row["snippet"] for row in rows}["NT-10"] == "«Anchor»"
        long = {row["handle"]: row["snippet"] for row in rows}["NT-11"]
        assert "«anchor»" in long
        assert len(long) < 400

    def test_types_narrow_it(self, desk):
        desk.execute("insert into desk.topics values (1, 'Storm')")
        assert found(desk, "storm", p_types=["topic"]) == ["TP-1"]
        assert found(desk, "storm", p_types=["note"]) == ["NT-3"]
        assert set(found(desk, "storm", p_types=["note", "topic"])) == {"NT-3", "TP-1"}
        assert found(desk, "storm", p_types=[]) == []

    @pytest.mark.parametrize(
        ("named", "sqlstate", "says"),
        [
            ({"p_types": ["note", "topik"]}, "42704", "topic"),
            ({"p_types": ["hidden"]}, "22023", "not searched"),
            ({"p_types": [None]}, "42704", "null"),
            ({"p_limit": 0}, "22023", "from 1 to 100"),
            ({"p_limit": 101}, "22023", "from 1 to 100"),
            ({"p_limit": None}, "22023", "from 1 to 100"),
            ({"p_model": "none"}, "42704", "embedding model"),
            ({"p_types": [["note"], ["topic"]]}, "22023", "p_types has 2 dimensions"),
        ],
    )
    def test_bad_input_is_refused(self, desk, named, sqlstate, says):
        said = refusal(desk, "search_entities", "storm", **named)
        assert said[0] == sqlstate
        assert says in f"{said[1]} {said[2]}"
        assert said[2]

    @pytest.mark.parametrize("query", [None, "", " \n\t", "x" * 4001])
    def test_a_query_without_words_or_too_long_is_refused(self, desk, query):
        assert refusal(desk, "search_entities", query)[0] == "22023"

    def test_the_total_is_counted_up_to_a_thousand(self, desk):
        desk.execute(
            "insert into desk.notes (id, title) select g, 'Ballast ' || g"
            " from generate_series(101, 1200) as g"
        )
        answer = ask(desk, "search_entities", "ballast", p_limit=3)
        assert (answer["total"], answer["total_is_capped"], answer["truncated"]) == (
            1000, True, True,
        )  # fmt: skip
        desk.execute("delete from desk.notes where id > 103")
        answer = ask(desk, "search_entities", "ballast", p_limit=3)
        assert (answer["total"], answer["total_is_capped"], answer["truncated"]) == (
            3, False, False,
        )  # fmt: skip


class TestVectors:
    @pytest.fixture
    def vectors(self, desk):
        put(
            desk,
            {"id": 10, "title": "Alpha", "body": "one"},
            {"id": 11, "title": "Beta", "body": "two"},
            {"id": 12, "title": "Gamma", "body": "three", "org": ORG_B},
        )
        desk.execute("select aiq.register_embedding_model('m', 2, 'cosine', true)")
        desk.execute(
            "select aiq.put_entity_embeddings("
            "'m', '{NT-10,nt-11,NT-12}', '{{1,0},{0.6,0.8},{1,0.1}}')"
        )
        return desk

    def test_both_rankings_are_fused(self, vectors):
        answer = ask(vectors, "search_entities", "beta", p_embedding="[1, 0]")
        assert (answer["ranked_by"], answer["note"]) == ("words and vectors", None)
        rows = {row["handle"]: row for row in answer["rows"]}
        assert handles(answer) == ["NT-11", "NT-10"]
        assert rows["NT-11"]["found_by"] == ["words", "vector"]
        assert rows["NT-11"]["rrf"] == pytest.approx(1 / 61 + 1 / 62)
        assert rows["NT-10"]["found_by"] == ["vector"]
        assert rows["NT-10"]["snippet"] == "one"
        assert found(vectors, "beta", B, p_embedding="[1,0]") == ["NT-11", "NT-10", "NT-12"]

    @pytest.mark.parametrize("distance", ["l2", "inner"])
    def test_every_distance_ranks(self, vectors, distance):
        vectors.execute(f"select aiq.register_embedding_model('d', 2, '{distance}')")
        vectors.execute("select aiq.put_entity_embeddings('d', '{NT-10,NT-11}', '{{9,9},{1,1}}')")
        order = found(vectors, "nothing", p_embedding="{1,1}", p_model="d")
        assert order == (["NT-11", "NT-10"] if distance == "l2" else ["NT-10", "NT-11"])

    def test_a_changed_text_loses_its_vector_and_asks_for_another(self, vectors):
        vectors.execute("update desk.notes set org = %s where id = 10", [ORG_A])
        assert "NT-10" in found(vectors, "zzz", A, p_embedding="[1,0]")
        assert "NT-10" not in found(vectors, "zzz", B, p_embedding="[1,0]")
        vectors.execute("update desk.notes set body = 'other' where id = 11")
        assert found(vectors, "zzz", A, p_embedding="[1,0]") == ["NT-10"]
        waiting = vectors.execute(
            "select id, content, digest from aiq.entities_to_embed('m') where id = 'NT-11'"
        ).fetchone()
        assert waiting[1] == "Beta\n\nother"
        with pytest.raises(psycopg.Error, match="has changed since") as caught:
            vectors.execute(
                "select aiq.put_entity_embeddings('m', '{NT-11}', '{{1,0}}', '{stale}')"
            )
        assert caught.value.sqlstate == "55000"
        vectors.execute(
            "select aiq.put_entity_embeddings('m', '{NT-11}', '{{1,0}}', array[%s])", [waiting[2]]
        )
        assert set(found(vectors, "zzz", A, p_embedding="[1,0]")) == {"NT-10", "NT-11"}

    @pytest.mark.parametrize(
        ("embedding", "says"),
        [
            ("[1]", 'has 1 numbers, but model "m" writes 2'),
            ("[1,2,3]", 'has 3 numbers, but model "m" writes 2'),
            ("[]", 'has 0 numbers, but model "m" writes 2'),
            ("x", 'is "x", but must be an array of numbers that a real can hold'),
            ("[1,nan]", "holds NaN, but each of its numbers must be finite"),
            ("[-Infinity,1]", "holds -Infinity, but each of its numbers must be finite"),
            ("[1,1e99]", 'is "[1,1e99]", but must be an array of numbers that a real can hold'),
            ("[0,0]", "is all zeros, and has no direction that a cosine could be taken of"),
            ("[[1,2]]", 'is "[[1,2]]", but must be an array of numbers that a real can hold'),
            ("[1,null]", "holds null, but each of its numbers must be finite"),
        ],
    )
    def test_what_is_no_vector_of_the_model_is_refused(self, vectors, embedding, says):
        said = refusal(vectors, "search_entities", "x", p_embedding=embedding)
        assert said[:2] == ("22023", f"p_embedding {says}")
        assert said[2]

    @pytest.mark.parametrize(
        ("ids", "sqlstate", "message"),
        [
            ("{NT-99}", "P0002", 'no searched entity has the handle "NT-99"'),
            ("{NT-3,NT-03}", "P0002", 'no searched entity has the handle "NT-03"'),
            ("{NT-10,nt-10}", "22023", "p_ids names an entity more than once: NT-10, nt-10"),
            ("{TP-1}", "P0002", 'no searched entity has the handle "TP-1"'),
        ],
    )
    def test_vectors_of_what_is_not_searched_are_refused(self, vectors, ids, sqlstate, message):
        both = "{{1,0},{0,1}}" if "," in ids else "{{1,0}}"
        with pytest.raises(psycopg.Error) as caught:
            vectors.execute("select aiq.put_entity_embeddings('m', %s, %s)", [ids, both])
        assert (caught.value.sqlstate, caught.value.diag.message_primary) == (sqlstate, message)
        assert caught.value.diag.message_hint

    @pytest.mark.parametrize(
        ("vector", "says"),
        [("NaN,1", "holds NaN"), ("1,Infinity", "holds infinity"), ("null,1", "holds null"),
         ("0,0", "holds nothing but zeros, which have no angle")],
    )  # fmt: skip
    def test_a_vector_that_cannot_be_is_refused_and_none_is_written(self, vectors, vector, says):
        before = vectors.execute("select count(*) from aiq.entity_vectors").fetchone()
        with pytest.raises(psycopg.Error) as caught:
            vectors.execute(
                "select aiq.put_entity_embeddings('m', '{NT-10,NT-11}', %s::real[])",
                [f"{{{{1,0}},{{{vector}}}}}"],
            )
        assert caught.value.sqlstate == "22023"
        assert caught.value.diag.message_primary == f"the vector of NT-11 {says}"
        assert caught.value.diag.message_hint
        assert vectors.execute("select count(*) from aiq.entity_vectors").fetchone() == before

    @pytest.mark.parametrize("limit", ["0", "-1", "null"])
    def test_a_limit_of_what_is_to_be_embedded_is_at_least_one(self, vectors, limit):
        with pytest.raises(psycopg.Error) as caught:
            vectors.execute(f"select * from aiq.entities_to_embed('m', {limit})")
        assert caught.value.sqlstate == "22023"
        assert caught.value.diag.message_primary == f"p_limit is {limit}, but must be at least 1"
        assert caught.value.diag.message_hint

    def test_where_no_model_is_the_default_one_must_be_named(self, vectors):
        vectors.execute("select aiq.register_embedding_model('m', 2)")
        said = refusal(vectors, "search_entities", "x", p_embedding="[1,0]")
        assert said == (
            "42704",
            "no embedding model is the default, and p_model names none",
            "Write p_model, one of: m",
        )

    def test_without_a_model_or_a_vector_words_rank_alone(self, vectors):
        assert "no vector was given" in ask(vectors, "search_entities", "beta")["note"]
        vectors.execute("select aiq.unregister_embedding_model('m')")
        answer = ask(vectors, "search_entities", "beta", p_embedding="[1,0]")
        assert answer["ranked_by"] == "words"
        assert "no embedding model" in answer["note"]

    def test_a_models_width_stays_while_it_has_vectors(self, vectors):
        with pytest.raises(psycopg.Error, match="cannot become"):
            vectors.execute("select aiq.register_embedding_model('m', 3, 'cosine', true)")


class TestNeighbors:
    @pytest.fixture
    def web(self, desk):
        put(desk, *({"id": 100 + number, "title": f"n{number}"} for number in range(6)))
        cite(desk, (100, 101, 0.5), (102, 100, 0.5), (100, 103, 0.9), (100, 100, 0.7),
             (104, 100, 0.5), (100, 104, 0.5))  # fmt: skip
        return desk

    def test_strongest_first_then_the_other_end_then_out_before_in(self, web):
        rows = ask(web, "neighbors", "NT-100")["rows"]
        assert [(row["handle"], row["direction"], row["weight"]) for row in rows] == [
            ("NT-103", "out", 0.9), ("NT-100", "out", 0.7), ("NT-101", "out", 0.5),
            ("NT-102", "in", 0.5), ("NT-104", "out", 0.5), ("NT-104", "in", 0.5),
        ]  # fmt: skip

    @pytest.mark.parametrize("relations", [None, ["cites"], ["about", "cites", "cites"]])
    @pytest.mark.parametrize("direction", [None, "in", "out"])
    def test_pages_of_one_add_up_to_the_whole(self, web, direction, relations):
        named = {"p_direction": direction, "p_relations": relations}
        whole = ask(web, "neighbors", "NT-100", **named)["rows"]
        assert len(whole) == {None: 6, "in": 3, "out": 4}[direction]
        paged, cursor = [], None
        while True:
            page = ask(web, "neighbors", "NT-100", **named, p_limit=1, p_cursor=cursor)
            paged += page["rows"]
            cursor = page["cursor"]
            assert page["truncated"] is (cursor is not None)
            if cursor is None:
                break
        assert paged == whole

    def test_relations_narrow_it_and_unknown_ones_are_refused(self, web):
        assert near(web, "NT-100", p_relations=["about"]) == []
        assert near(web, "NT-100", p_relations=[]) == []
        said = refusal(web, "neighbors", "NT-100", p_relations=["cite"])
        assert said[0] == "42704"
        assert "cites" in said[2]

    @pytest.mark.parametrize(
        "cursor",
        ["", "x", "AAAA", base64.b64encode(b"[]").decode(), base64.b64encode(b"{}").decode(),
         base64.b64encode(b'[1,"1",2,"cites","out",3]').decode(),
         base64.b64encode(b'[null,"nan",null,null,null,null]').decode(), "\u00e9" * 50],
    )  # fmt: skip
    def test_what_is_no_cursor_is_refused(self, web, cursor):
        said = refusal(web, "neighbors", "NT-100", p_cursor=cursor)
        assert said[0] == "22023"
        assert "no cursor" in said[1]

    def test_another_entitys_cursor_is_refused(self, web):
        cursor = ask(web, "neighbors", "NT-100", p_limit=1)["cursor"]
        assert refusal(web, "neighbors", "NT-104", p_cursor=cursor)[0] == "22023"

    @pytest.mark.parametrize(
        "named", [{"p_limit": 0}, {"p_limit": 101}, {"p_limit": 2147483647}, {"p_limit": None},
                  {"p_direction": "both"}, {"p_direction": ""}],
    )  # fmt: skip
    def test_bad_input_is_refused(self, web, named):
        assert refusal(web, "neighbors", "NT-100", **named)[0] == "22023"

    def test_relations_that_are_no_list_and_no_handle_are_refused_by_name(self, web):
        said = refusal(web, "neighbors", "NT-100", p_relations=[["cites"], ["cites"]])
        assert said[:2] == ("22023", "p_relations has 2 dimensions, but must be a list")
        assert said[2]
        for function in ("neighbors", "entity"):
            said = refusal(web, function, None)
            assert said[:2] == ("22023", "p_handle is null, but must be a handle")
            assert said[2]

    def test_pages_stay_in_order_while_edges_come_and_go(self, desk):
        put(desk, *({"id": number, "title": f"n{number}"} for number in range(1000, 2200)))
        cite(desk, *((1000, number, 0.5) for number in range(1001, 2001)))
        seen, cursor, pages = [], None, 0
        while True:
            page = ask(desk, "neighbors", "NT-1000", p_limit=100, p_cursor=cursor)
            seen += handles(page)
            cursor = page["cursor"]
            if cursor is None:
                break
            # Some before what has been seen, some behind it; some go that have been seen.
            cite(desk, (1000, 2001 + pages, 0.9), (1000, 2101 + pages, 0.1))
            desk.execute("delete from desk.cites where dst = %s", [1001 + pages])
            pages += 1
        assert len(seen) == len(set(seen))
        assert set(seen) >= {f"NT-{number}" for number in range(1001, 2001)}
        assert not set(seen) & {f"NT-{2001 + page}" for page in range(pages)}
        assert set(seen) >= {f"NT-{2101 + page}" for page in range(pages)}

    def test_edges_with_an_end_ahead_count_and_ended_ones_do_not(self, web):
        web.execute(
            "update aiq.edges set valid_to = now() + interval '1 day' where weight = 0.9::real"
        )
        assert near(web, "NT-100")[0] == "NT-103"
        assert near(web, "NT-100", p_relations=["cites"])[0] == "NT-103"
        web.execute("update aiq.edges set valid_to = now() where weight = 0.9::real")
        assert "NT-103" not in near(web, "NT-100")

    def test_a_soft_neighbour_is_told_of_and_read(self, web):
        web.execute(
            "select aiq.upsert_graph(%s, '{}')",
            [json.dumps({
                "nodes": [{"k": "note", "n": "n5"}, {"k": "note", "n": "A rumour"}],
                "edges": [{"s": 0, "t": 1, "r": "cites"}],
            })],
        )  # fmt: skip
        (row,) = ask(web, "neighbors", "NT-105")["rows"]
        assert (row["type"], row["title"]) == (None, "A rumour")
        read = ask(web, "entity", row["handle"])
        assert (read["type"], read["body"]) == (None, None)
