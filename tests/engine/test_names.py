"""Names as arrays are found exactly as by comparing each with each."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphalgo.engine.errors import InvalidValue, MissingSetting
from graphalgo.engine.trigram import ratio, real, similarity, trigrams
from graphalgo.names import building
from graphalgo.names import search as searching
from graphalgo.names.building import Names, build, take_apart
from graphalgo.names.finding import similar_names
from graphalgo.names.keeping import KeptNames
from graphalgo.names.search import Hits, Postings, Probes, needed
from graphalgo.names.tokens import flattened, number_of, numbers_of_tokens
from graphalgo.stores import memory
from graphalgo.stores.memory import MemoryStore
from tests.support.names import THRESHOLDS, hard_names, random_names


def kept(names: list[str]) -> KeptNames:
    made = KeptNames()
    made.add({name: trigrams(name) for name in names})
    return made


def by_hand(names: list[str], probe: str, threshold: float) -> list[str]:
    return sorted(name for name in names if similarity(name, probe) >= threshold)


@pytest.mark.parametrize("threshold", [real(one) for one in THRESHOLDS])
def test_hard_names_are_found_exactly(threshold: float) -> None:
    names = list(dict.fromkeys([*hard_names(), *random_names(800, 1)]))
    index = kept(names)
    for probe in [*hard_names()[::11], *random_names(10, 2), "", "?"]:
        found = sorted(index.similar(list(trigrams(probe)), threshold))
        assert found == by_hand(names, probe, threshold), probe


@settings(max_examples=80, deadline=None)
@given(
    names=st.lists(st.text(alphabet="abc é海", max_size=12), max_size=60, unique=True),
    probe=st.text(alphabet="abc é海", max_size=12),
    threshold=st.floats(1 / 64, 1.0, width=32),
    whole=st.sampled_from([-1, 0, 50]),
    short=st.sampled_from([0, 500]),
    step=st.sampled_from([1, 256]),
    density=st.sampled_from([1, 64, 10**6]),
)
def test_any_names_are_found_exactly_however_they_are_searched(
    names: list[str],
    probe: str,
    threshold: float,
    whole: int,
    short: int,
    step: int,
    density: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "WHOLE", whole)
        patch.setattr(searching, "SHORT", short)
        patch.setattr(searching, "CHUNK", step)
        patch.setattr(building, "DENSITY", density)
        patch.setattr(building, "MANY_NAMES", min(short, 20))
        found = sorted(kept(names).similar(list(trigrams(probe)), threshold))
    assert found == by_hand(names, probe, threshold)


def test_each_similarity_is_the_one_that_pg_trgm_computes() -> None:
    names = list(dict.fromkeys([*hard_names(), *random_names(6_000, 5)]))
    collected = Names()
    numbers = [[number_of(one) for one in trigrams(name)] for name in names]
    places = np.arange(len(names))
    collected.add(places, places * 7, places * 11, *flattened(numbers))
    segment, lists = build(collected)
    postings = {trigram: Postings(found, segment.words) for trigram, found in lists.items()}
    probes = list(enumerate(numbers[::50]))
    parts = Probes(segment).run(probes, real(0.3), postings)
    (hits,) = Hits.together([*parts, *parts])
    found = sorted(
        zip(hits.numbers.tolist(), hits.holders.tolist(), hits.similarities.tolist(), strict=True)
    )
    assert found == sorted(
        (number, place, similarity(names[number * 50], name))
        for number, _ in probes
        for place, name in enumerate(names)
        if similarity(names[number * 50], name) >= real(0.3)
    )
    assert (hits.marks == hits.holders * 7).all()
    assert (hits.places == hits.holders * 11).all()
    assert [float(text) for text in hits.similarities_as_text()] == pytest.approx(
        hits.similarities.tolist(), rel=1e-7
    )
    assert [np.float32(text) for text in hits.similarities_as_text()] == list(hits.similarities)


def test_many_hits_are_put_together_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sorts some millions at once cannot be interrupted meanwhile."""
    monkeypatch.setattr(searching, "TOGETHER", 100)
    random = np.random.default_rng(5)
    parts = []
    for number in random.permutation(np.repeat(np.arange(1, 31), 3)).tolist():
        holders = np.unique(random.integers(0, 90, 40))
        parts.append(
            Hits(
                np.full(len(holders), number, np.int64),
                holders,
                holders % 7,
                holders * 11,
                (holders / 90).astype(np.float32),
            )
        )
    steps: list[None] = []
    groups = Hits.together(parts, lambda: steps.append(None))
    wanted = {(int(part.numbers[0]), holder) for part in parts for holder in part.holders.tolist()}
    found = [pair for group in groups for pair in zip(group.numbers, group.holders, strict=True)]
    assert sorted(found) == sorted(wanted), "each name of a probe once"
    assert len(steps) == len(groups) > 10
    # A probe's own may be in one segment or in several, and are looked through together.
    assert max(map(len, groups)) < 100 + 3 * 40
    assert Hits.together([]) == []


def test_names_of_more_trigrams_than_an_octet_counts_are_found() -> None:
    long = " ".join(f"{chr(97 + i % 26)}{chr(97 + i // 26)}{i}" for i in range(160))
    names = [long, long[:-40], long[40:], "aa0 ba1"] + [f"{long} x{i}" for i in range(200)]
    assert len(trigrams(long)) > 300
    for probe in (long, long[:600]):
        for threshold in (0.3, 0.6, 0.9):
            found = sorted(kept(names).similar(list(trigrams(probe)), real(threshold)))
            assert found == by_hand(names, probe, real(threshold))


def test_a_probe_of_more_trigrams_than_two_octets_count_finds_what_it_holds() -> None:
    # Together those of one word have 65,580 trigrams, a number that two octets take for 44.
    size, count = 1_093, 60
    collected = Names()
    numbers = [list(range(first, first + size)) for first in range(1, size * count, size)]
    none = np.zeros(count, np.int64)
    collected.add(np.arange(count), none, none, *flattened(numbers))
    segment, lists = build(collected)
    postings = {trigram: Postings(found, segment.words) for trigram, found in lists.items()}
    probe = [trigram for each in numbers for trigram in each]
    (found,) = Hits.together(Probes(segment).run([(1, probe)], real(0.01), postings))
    assert sorted(found.holders.tolist()) == list(range(count))


def test_the_least_number_of_shared_trigrams_is_the_least_that_pg_trgm_takes() -> None:
    sizes = np.arange(1, 120, dtype=np.int32)
    for threshold in (real(t) for t in (*THRESHOLDS, 0.01, 0.35, 0.999)):
        for size in (1, 2, 3, 7, 22, 23, 60, 119):
            for other, common in zip(sizes.tolist(), needed(size, sizes, threshold), strict=True):
                takes = [
                    c for c in range(1, min(size, other) + 1) if ratio(c, size, other) >= threshold
                ]
                assert takes[0] == common if takes else common > min(size, other)


def test_a_segment_taken_apart_is_what_it_was_made_of() -> None:
    lists = [sorted({ord(c) for c in name}) for name in random_names(20_000, 3)]
    names = Names()
    sizes, numbers = flattened(lists)
    numbered = np.arange(len(lists))
    names.add(numbered, -numbered, numbered << 16, sizes, numbers)
    again = Names()
    take_apart(*build(names), again)
    holders = again.holders.tolist()
    assert again.count == len(lists)
    assert again.marks.tolist() == [-holder for holder in holders]
    assert again.places.tolist() == [holder << 16 for holder in holders]
    flat = np.concatenate([part for _, _, part in again.blocks()]).tolist()
    place = 0
    for holder, size in zip(holders, again.sizes.tolist(), strict=True):
        assert flat[place : place + size] == lists[holder]
        place += size
    assert sorted(holders) == list(range(len(lists)))


def test_trigrams_shown_as_numbers_are_told_from_those_that_look_like_them() -> None:
    assert numbers_of_tokens("0x1,0x00002f,  a") == [0x307831, 0x2F, 0x202061]
    assert numbers_of_tokens("") == []


def test_the_memory_store_answers_the_same_with_arrays_and_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = list(dict.fromkeys([*hard_names(), *random_names(500, 4)]))

    def store(many: int) -> MemoryStore:
        monkeypatch.setattr(memory, "MANY_NAMES", many)
        made = MemoryStore()
        made.add_entity_type("company", "CO")
        for number, name in enumerate(names, 1):
            made.add_node(number, "company")
            made.add_key(number, name)
            if number == 300:
                made.near_names("global trading", 0.5, 5)
        return made

    with_arrays, without = store(100), store(10**9)
    for probe in [*names[::9], "nothing of the kind"]:
        for threshold in (real(0.3), real(0.6)):
            monkeypatch.setattr(memory, "MANY_NAMES", 100)
            found = with_arrays.fuzzy_keys([probe], threshold, 1_000)
            monkeypatch.setattr(memory, "MANY_NAMES", 10**9)
            assert found == without.fuzzy_keys([probe], threshold, 1_000)
    assert with_arrays._kept is not None
    assert without._kept is None


def test_similar_names_by_each_scorer() -> None:
    store = MemoryStore()
    store.add_entity_type("company", "CO")
    for number, name in enumerate(["meridian dawn", "meridian down", "dawn of meridian ltd"], 1):
        store.add_node(number, "company")
        store.add_key(number, name)
    rows = similar_names(store, ["Meridian  DAWN", "x"], 0.5)
    assert [(row.input_name, row.node_id, row.candidate_similarity) for row in rows] == [
        ("Meridian  DAWN", 1, 0.5), ("Meridian  DAWN", 3, 0.5), ("Meridian  DAWN", 2, 0.5),
    ]  # fmt: skip
    assert rows[0].score == 1.0
    by_words = similar_names(store, ["meridian dawn"], 0.99, scorer="token_set")
    assert {row.node_id for row in by_words} == {1, 3}
    assert by_words[0].candidate_similarity == real(0.3)
    by_letters = similar_names(
        store, ["meridian dawn"], 0.9, 1, "jaro_winkler", candidate_similarity=0.2
    )
    assert [(row.node_id, row.candidate_similarity) for row in by_letters] == [(1, real(0.2))]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"names": None}, "p_names is null"),
        ({"names": ["a", None]}, "an element of p_names is null"),
        ({"names": "meridian dawn"}, "p_names is 'meridian dawn', but must be a list of names"),
        ({"scorer": None}, "p_scorer is null, but must be a text"),
        ({"similarity": 0}, "p_similarity is 0"),
        ({"limit": 0}, "p_limit is 0"),
        ({"scorer": "best"}, 'p_scorer is "best"'),
        (
            {"scorer": "trigram", "candidate_similarity": 0.2},
            "p_candidate_similarity is 0.2, but means nothing for the scorer trigram",
        ),
        ({"scorer": "trigram", "candidate_similarity": 2}, "p_candidate_similarity is 2, but must"),
        ({"scorer": "token_set", "candidate_similarity": 2}, "p_candidate_similarity is 2"),
    ],
)
def test_odd_arguments_are_refused_by_name(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        similar_names(MemoryStore(), **{"names": ["a"], **arguments})
    assert said in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize("scorer", ["jaro_winkler", "token_set"])
def test_a_scorer_whose_package_is_missing_is_refused_saying_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, scorer: str
) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    with pytest.raises(MissingSetting) as refused:
        similar_names(MemoryStore(), ["a"], scorer=scorer)
    assert refused.value.sqlstate == "55000"
    assert refused.value.message.startswith(f'p_scorer is "{scorer}", which needs rapidfuzz')
    assert refused.value.hint is not None and "pip install rapidfuzz" in refused.value.hint
