"""From what a caller wrote to one node: handles, kind/name, keys."""

from __future__ import annotations

import pytest

from graphalgo.engine.errors import Ambiguous, NotFound
from graphalgo.engine.seed import parse_handle, resolve_seed
from graphalgo.stores.memory import MemoryStore
from tests.support.building import Building

TYPES = [("thing", "T"), ("company", "CPY"), ("odd", "a_1")]
RETIRED = "2022-01-01T00:00:00+00:00"
BEFORE = "2021-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("t-1", ("thing", 1)),
        ("t-0", ("thing", 0)),
        ("cpy-9223372036854775807", ("company", 2**63 - 1)),
        ("a_1-7", ("odd", 7)),
        ("soft-12", (None, 12)),
        # Keys:
        ("t-9223372036854775808", None),
        ("t-99999999999999999999999", None),
        ("nl-2231", None),
        ("t-01", None),
        ("t-1a", None),
        ("t-", None),
        ("t", None),
        ("-1", None),
        ("t--1", None),
        ("t-1-2", None),
        ("t-²", None),
        ("t-١", None),
        ("cpy 1", None),
        ("soft/12", None),
    ],
)
def test_a_handle_is_a_registered_prefix_and_a_number(written, meant):
    assert parse_handle(written, TYPES) == meant


def test_a_handle_is_read_in_any_case_and_with_white_space_around():
    store = Building().things(1).store()
    for written in ("T-1", "t-1", "  T-1\t"):
        assert resolve_seed(store, "p_seed", written) == 1


def test_a_handles_number_may_be_another_than_the_id():
    store = MemoryStore()
    store.add_entity_type("vessel", "VSL")
    store.add_node(7, "vessel", handle_number=1200)
    assert resolve_seed(store, "p_seed", "VSL-1200") == 7
    with pytest.raises(NotFound):
        resolve_seed(store, "p_seed", "VSL-7")


def test_a_handle_finds_only_a_node_of_its_type():
    with pytest.raises(NotFound):
        resolve_seed(Building().things(1).store(), "p_seed", "G-1")


def test_a_soft_handle_finds_only_a_soft_node():
    store = Building().things(1).soft(2, "ship", "x").store()
    assert resolve_seed(store, "p_seed", "soft-2") == 2
    for written in ("soft-1", "T-2"):
        with pytest.raises(NotFound):
            resolve_seed(store, "p_seed", written)


def test_what_looks_like_a_handle_of_no_type_is_a_key():
    store = Building().things(1).code("nl-2231", 1).store()
    assert resolve_seed(store, "p_seed", "NL-2231") == 1


def test_a_handle_of_a_registered_prefix_is_never_a_key():
    store = Building().things(1, 2).code("t-2", 1).store()
    assert resolve_seed(store, "p_seed", "T-2") == 2
    store = Building().things(1).code("t-2", 1).store()
    with pytest.raises(NotFound):
        resolve_seed(store, "p_seed", "T-2")


@pytest.mark.parametrize("kind", ["canonical", "short", "alias"])
@pytest.mark.parametrize("is_name", [True, False])
def test_a_key_of_any_kind_finds_its_node(kind, is_name):
    store = Building().things(1).key(1, "Some  Key", kind, is_name).store()
    assert resolve_seed(store, "p_seed", " some KEY ") == 1


def test_a_soft_node_is_found_by_kind_and_name_and_never_by_its_bare_name():
    store = Building().soft(1, "Ship", "Meridian  Dawn").store()
    assert resolve_seed(store, "p_seed", "ship/meridian dawn") == 1
    with pytest.raises(NotFound) as caught:
        resolve_seed(store, "p_seed", "meridian dawn")
    assert caught.value.hint == 'Near spellings: "ship/meridian dawn".'


def test_a_bare_name_finds_the_typed_node_though_a_soft_one_has_it():
    store = Building().soft(1, "ship", "dawn").node(2, "thing", "dawn").store()
    assert resolve_seed(store, "p_seed", "dawn") == 2


def test_a_typed_key_and_a_soft_node_of_one_spelling_are_two():
    store = Building().soft(1, "ship", "dawn").node(2, "thing", "ship/dawn").store()
    with pytest.raises(Ambiguous, match="soft-1, T-2"):
        resolve_seed(store, "p_seed", "ship/dawn")


def test_several_nodes_are_named_by_their_handles_and_none_is_taken():
    store = Building().node(1, "thing", "same").node(2, "goal", "same").store()
    with pytest.raises(Ambiguous) as caught:
        resolve_seed(store, "p_seed", "same")
    assert caught.value.message == '"same" names 2 nodes: T-1, G-2'


def test_one_node_with_one_key_under_several_kinds_is_one():
    store = Building().node(1, "thing", "same").key(1, "SAME", "alias").store()
    assert resolve_seed(store, "p_seed", "same") == 1


def test_of_very_many_ten_are_named():
    building = Building()
    for node in range(1, 30):
        building.node(node, "thing", "same")
    with pytest.raises(Ambiguous) as caught:
        resolve_seed(building.store(), "p_seed", "same")
    handles = ", ".join(f"T-{node}" for node in range(1, 11))
    assert caught.value.message == f'"same" names more than 10 nodes: {handles}'


def test_near_spellings_are_five_at_most_the_nearest_first_each_once():
    building = Building().node(1, "thing", "meridian dawn").node(2, "goal", "meridian dawn")
    building.soft(3, "ship", "meridian dawns")
    for node in range(10, 20):
        building.node(node, "thing", f"meridian {node}")
    with pytest.raises(NotFound) as caught:
        resolve_seed(building.store(), "p_seed", "meridian daw")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith('Near spellings: "meridian dawn", "ship/meridian dawns", ')
    assert caught.value.hint.count('"') == 10


def test_codes_are_no_near_spellings():
    store = Building().things(1).code("9331802", 1).store()
    with pytest.raises(NotFound) as caught:
        resolve_seed(store, "p_seed", "9331803")
    assert caught.value.hint is not None
    assert "9331802" not in caught.value.hint


class TestRetired:
    @pytest.fixture
    def store(self) -> MemoryStore:
        building = Building().node(1, "thing", "old hand", retired_at=RETIRED)
        return building.soft(2, "ship", "old ship", retired_at=RETIRED).store()

    @pytest.mark.parametrize("written", ["T-1", "old hand", "soft-2", "ship/old ship"])
    def test_nothing_finds_it_now(self, store, written):
        with pytest.raises(NotFound):
            resolve_seed(store, "p_seed", written)

    @pytest.mark.parametrize(("written", "node"), [("T-1", 1), ("soft-2", 2)])
    def test_its_handle_finds_it_as_of_before(self, store, written, node):
        assert resolve_seed(store, "p_seed", written, BEFORE) == node
        with pytest.raises(NotFound):
            resolve_seed(store, "p_seed", written, RETIRED)

    @pytest.mark.parametrize("written", ["old hand", "ship/old ship"])
    def test_keys_have_no_past(self, store, written):
        with pytest.raises(NotFound):
            resolve_seed(store, "p_seed", written, BEFORE)
