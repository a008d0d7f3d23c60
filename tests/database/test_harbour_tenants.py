"""The harbour sample answers each tenant as written: theirs and what is shared, no more."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.stores.client import ClientStore
from tests.support import harbour
from tests.support.engine import Bound
from tests.support.server import ServerFunctions

STORES = ["inside the server", "over a connection"]


@pytest.fixture(scope="module")
def connections(tenants_dsn):
    """A connection of each tenant's own, and one of a caller without claims."""
    with (
        harbour.caller(tenants_dsn, harbour.claims_of("meridian")) as meridian,
        harbour.caller(tenants_dsn, harbour.claims_of("kestrel")) as kestrel,
        harbour.caller(tenants_dsn, None) as nobody,
    ):
        yield {"meridian": meridian, "kestrel": kestrel, "nobody": nobody}


@pytest.fixture(params=STORES)
def asked_by(request, connections):
    """Give the algorithms as a caller has them."""

    def ask(who: str) -> Any:
        connection = connections[who]
        if request.param == STORES[0]:
            return ServerFunctions(connection)
        return Bound(ClientStore(connection))

    return ask


@pytest.mark.parametrize(("kind", "case"), harbour.tenant_cases())
def test_each_tenant_is_answered_as_written(asked_by, kind, case):
    harbour.check_case(asked_by(case["as"]), kind, case)


def test_one_call_holds_all_that_is_written(tenants_dsn):
    """As the tests in containers do."""
    cases = sum(len(harbour.EXPECTED[kind]) for kind in harbour.KINDS)
    assert harbour.check_tenants(tenants_dsn) == 2 * cases


def test_the_same_question_is_answered_by_who_asks(asked_by):
    question: dict[str, Any] = {
        "seed": "SE-0117", "target_type": "operator", "links": ["edge", "shared_key"]
    }  # fmt: skip
    (meridian,) = asked_by("meridian").iterated_join(**question)
    (kestrel,) = asked_by("kestrel").iterated_join(**question)
    (nobody,) = asked_by("nobody").iterated_join(**question)
    assert (meridian.resolved, meridian.examined) == (False, 0)
    assert (kestrel.resolved, kestrel.summary) == (True, "Kestrel Shipping")
    assert nobody.as_dict() == meridian.as_dict()


def test_holders_of_a_key_are_counted_among_those_the_caller_sees(asked_by):
    """Another tenant's ship on the same number would make the link weigh less."""
    (row,) = asked_by("kestrel").iterated_join("SE-0117", "vessel", links=["shared_key"])
    assert row.path[0]["weight"] == 1.0


@pytest.mark.parametrize("claims", [{"orgs": []}, {"orgs": ["meridian's"]}])
def test_orgs_narrows_and_never_widens(tenants_dsn, claims):
    """None of one's own, or another's alone: what is shared is left, quietly."""
    meridian, kestrel = harbour.claims_of("meridian"), harbour.claims_of("kestrel")
    if claims["orgs"]:
        claims = {"orgs": [meridian["sub"].replace("e", "d", 1)]}
    with (
        harbour.caller(tenants_dsn, {**kestrel, **claims}) as narrowed,
        harbour.caller(tenants_dsn, None) as nobody,
    ):
        for view in ("nodes_api", "node_keys_api", "edges_current", "edge_periods"):
            statement = f"select * from aiq.{view} order by 1, 2"
            rows = narrowed.execute(statement).fetchall()
            assert rows == nobody.execute(statement).fetchall()
            # No edge of the sample joins two shared nodes.
            assert bool(rows) is view.startswith("node")
        with pytest.raises(psycopg.Error) as caught:
            ServerFunctions(narrowed).walk("Aurora Kestrel")
        assert caught.value.sqlstate == "P0002"


def test_orgs_may_name_ones_own(tenants_dsn):
    claims = harbour.claims_of("kestrel")
    named = {**claims, "orgs": [claims["sub"].replace("e", "d", 1)]}
    with harbour.caller(tenants_dsn, named) as connection:
        assert ServerFunctions(connection).walk("Aurora Kestrel")


def test_a_refusal_does_not_tell_what_another_tenant_has(asked_by):
    """A denied name, one letter off another's name, and a handle, refuse as unknown ones do."""
    texts = []
    for who, seed in (
        ("kestrel", "Meridian Dawn"), ("kestrel", "VSL-1"), ("kestrel", "VSL-77"),
        ("kestrel", "9331803"), ("kestrel", "9331809"),
    ):  # fmt: skip
        with pytest.raises((GraphAlgoError, psycopg.Error)) as caught:
            asked_by(who).walk(seed)
        error = caught.value
        assert error.sqlstate == "P0002"
        diag = getattr(error, "diag", None)
        message = diag.message_primary if diag else error.message
        hint = diag.message_hint if diag else error.hint
        texts.append((message.replace(seed, "…"), hint))
    assert texts[1] == texts[2]
    assert texts[3] == texts[4]
    # The soft node is shared; the ship whose name it misspells is not.
    assert "vessel/meridien dawn" in texts[0][1]
    assert "meridian dawn" not in json.dumps(texts).replace("meridien dawn", "")
