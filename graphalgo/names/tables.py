"""The index of names in the database's tables: how a backend reads, keeps and refreshes it.

Segments and lists are rows that never change, found by a segment's token, which is
never used again: what was read under one snapshot is right under any other that
sees the same segment. So a backend keeps the lists it has read, the least recently
used ones dropped first, and needs no message of others. Names written since the
last refresh are rows with numbers of their own, never used again either while their
table is the same; a backend makes a small segment of those that its snapshot sees.

A refresh makes a segment of these rows and, as in a log-structured merge tree
(O'Neil, Cheng, Gawlick & O'Neil, 1996), joins to it those segments that are not
much larger, so that there are few and each name is written a few times only.
"""

from __future__ import annotations

from collections import OrderedDict
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from graphalgo.names.building import (
    BLOCK_NAMES,
    MOST_ENTRIES,
    Names,
    Segment,
    build,
    take_apart,
)
from graphalgo.names.search import Hits, Postings, Probes
from graphalgo.names.tokens import flattened, numbers_of_ascii, numbers_of_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeAlias

    from numpy.typing import NDArray

    from graphalgo.names.building import Bits, Integers

    # A name: its holder, mark, place and trigrams.
    Change: TypeAlias = tuple[int, int, bytes, list[int]]

SEGMENTS = "select id, token::text as token, entries from aiq.name_segments order by id"
SEGMENT = "select holders, marks, places, sizes, starts from aiq.name_segments where id = $1"
LISTS = """
select trigram, bitmap, entries from aiq.name_lists
where segment_id = $1 and trigram = any ($2)
"""
ALL_LISTS = "select trigram, bitmap, entries from aiq.name_lists where segment_id = $1"
CTYPE = "select aiq.name_ctype() as ctype"
# Where their rows lie is not asked: they may be written again before they are folded in.
CHANGES = "select id, node_id, mark, tidsend('(0,0)') as place, tokens from aiq.name_change_tokens"
SOME_CHANGES = CHANGES + " where id = any ($1)"
NAMES = "select node_id, mark, place, size, tokens from aiq.name_tokens where size > 0"

# Only one refresh runs at a time; this is the number of its advisory lock.
LOCK = "select pg_try_advisory_xact_lock(7361747, 1) as held"
CTYPES = """
select
    count(*) filter (where s.ctype <> c.ctype or s.file is distinct from c.file) as other,
    count(*) as segments
from aiq.name_segments as s
cross join (
    select aiq.name_ctype() as ctype, pg_relation_filenode('aiq.node_keys') as file
) as c
"""
# A name that has been taken away or changed again since need not be folded in. Each is
# looked for by its own key: the server is kept from reading all names instead.
FOLDED = """
select
    c.id, c.node_id, c.mark, c.key, c.tokens,
    (
        select tidsend(h.ctid) from aiq.node_keys as h
        where
            h.node_id = c.node_id and h.key = c.key
            and case when h.retired_at is null then h.is_name end
        offset 0
    ) as place
from aiq.name_change_tokens as c
"""
FORGET_CHANGES = "delete from aiq.name_changes where id = any ($1)"
FORGET_ALL_CHANGES = "delete from aiq.name_changes"
FORGET_LISTS = "delete from aiq.name_lists where segment_id = any ($1)"
FORGET_SEGMENTS = "delete from aiq.name_segments where id = any ($1)"
WRITE_SEGMENT = """
insert into aiq.name_segments (entries, ctype, file, holders, marks, places, sizes, starts)
select $1, aiq.name_ctype(), pg_relation_filenode('aiq.node_keys'), $2, $3, $4, $5, $6
returning id
"""
WRITE_LISTS = """
insert into aiq.name_lists (segment_id, trigram, bitmap, entries)
select $1, l.trigram, l.bitmap, l.entries
from unnest($2, $3, $4) as l (trigram, bitmap, entries)
"""

# A refresh joins segments that are at most so many times as large as what they are
# joined to, and no more names than so many, which takes a second.
MERGE_RATIO = 4
MOST_MERGED = 200_000
# Seconds between checks of interrupts: a check takes as long as some steps of a search do.
UNCHECKED = 0.02
# Postings whose trigrams are sorted in one step.
STEP = 600_000
# Bytes of lists written by one statement.
WRITTEN = 4_000_000


class NameIndex:
    """The index as one backend sees it.

    Parameters
    ----------
    plpy : module
        The server's own module, as a PL/Python function body sees it.
    shared : dict
        The backend's global dictionary `GD`: plans and what has been read are kept there.
    """

    def __init__(self, plpy: Any, shared: dict[str, Any]) -> None:
        self._plpy = plpy
        self._plans: dict[str, Any] = shared.setdefault("graphalgo.name_plans", {})
        self._cache: Cache = shared.setdefault("graphalgo.name_cache", Cache())
        self._checked = monotonic()

    # How statements are run.

    def _plan(self, text: str, types: Sequence[str]) -> Any:
        plan = self._plans.get(text)
        if plan is None:
            plan = self._plans[text] = self._plpy.prepare(text, list(types))
        return plan

    def _query(self, text: str, types: Sequence[str] = (), *values: Any) -> Any:
        return self._plpy.execute(self._plan(text, types), list(values))

    def _stream(self, text: str, size: int) -> Iterator[Sequence[Mapping[str, Any]]]:
        cursor = self._plpy.cursor(self._plan(text, ()))
        try:
            while rows := cursor.fetch(size):
                yield rows
        finally:
            cursor.close()

    def check_interrupts(self) -> None:
        """Let a pending cancellation or time-out strike, if it has not been let for a while."""
        now = monotonic()
        if now - self._checked > UNCHECKED:
            self._query("select 1 as one")
            self._checked = monotonic()

    # Searching.

    def hits(self, segments: Sequence[Mapping[str, Any]], threshold: float) -> list[Hits] | None:
        """Find the names, of now or of before, that are similar to each of some names.

        Parameters
        ----------
        segments : sequence
            The segments and the names that are looked for, as
            :func:`graphalgo.names.serving.segments_that_serve` gives them.
        threshold : float
            The least similarity, the value of a ``real`` in (0, 1].

        Returns
        -------
        list of Hits or None
            By the numbers of the given names, from 1, those of each in one of them. None
            where a segment was made under other words.
        """
        cache = self._cache
        if cache.ctype is None:
            # It stays as it is for the life of a backend.
            cache.ctype = self._query(CTYPE)[0]["ctype"]
        if any(row["ctype"] != cache.ctype for row in segments):
            return None
        asked = segments[0]
        cache.keep_changes_of(asked["file"])
        probes = [
            (number, numbers_of_tokens(text))
            for number, text in enumerate(asked["tokens"], 1)
            if text
        ]
        found: list[Hits] = []
        try:
            for segment, lists in self._parts(segments, probes):
                found += segment.run(probes, threshold, lists, self.check_interrupts)
            changes = self._changes(asked["ids"])
            if changes is not None:
                segment, lists = changes
                found += segment.run(probes, threshold, lists, self.check_interrupts)
        finally:
            cache.trim(asked["cache_mb"] << 20)
        return Hits.together(found, self.check_interrupts)

    def _parts(
        self, segments: Sequence[Mapping[str, Any]], probes: Sequence[tuple[int, Sequence[int]]]
    ) -> Iterator[tuple[Probes, Mapping[int, Postings]]]:
        """Yield each segment with the lists that the probes need."""
        trigrams = {trigram for _, probe in probes for trigram in probe}
        for row in segments:
            segment = self._segment(row["id"], row["token"])
            yield segment, self._lists(row["id"], row["token"], segment.segment.words, trigrams)
        self._cache.keep_segments([row["token"] for row in segments])

    def _segment(self, number: int, token: str) -> Probes:
        segment = self._cache.segments.get(token)
        if segment is None:
            row = self._query(SEGMENT, ("bigint",), number)[0]
            segment = self._cache.segments[token] = Probes(
                Segment(
                    _small(np.frombuffer(row["holders"], "<i8")),
                    np.frombuffer(row["marks"], "<i8"),
                    # A segment of an earlier version has none.
                    np.frombuffer(row["places"] or bytes(len(row["marks"])), "<i8"),
                    np.frombuffer(row["sizes"], "<i4"),
                    np.frombuffer(row["starts"], "<i4"),
                )
            )
        return segment

    def _lists(
        self, number: int, token: str, words: int, trigrams: set[int]
    ) -> dict[int, Postings]:
        lists, missing = self._cache.known(token, trigrams)
        if missing:
            rows = self._query(LISTS, ("bigint", "int[]"), number, missing)
            read = {row["trigram"]: Postings(_array_of(row), words) for row in rows}
            for trigram in missing:
                self._cache.remember(token, trigram, read.get(trigram))
            lists.update(read)
        return lists

    def _changes(self, seen: bytes | None) -> tuple[Probes, Mapping[int, Postings]] | None:
        """Return the names written since the last refresh that this snapshot sees, by their ids."""
        cache = self._cache
        if seen is None:
            cache.forget_changes()
            return None
        if seen == cache.changes_seen:
            return cache.changes
        ids = np.frombuffer(seen, ">i8").tolist()
        known = {change: cache.changed[change] for change in ids if change in cache.changed}
        missing = [change for change in ids if change not in known]
        if len(missing) < 1_000:
            rows = self._query(SOME_CHANGES, ("bigint[]",), missing) if missing else ()
            known.update((row["id"], _change(row)) for row in rows)
        else:
            for rows in self._stream(CHANGES, BLOCK_NAMES // 4):
                known.update((row["id"], _change(row)) for row in rows)
        names = Names()
        changed = list(known.values())
        for start in range(0, len(changed), BLOCK_NAMES // 4):
            _add(names, changed[start : start + BLOCK_NAMES // 4])
            self.check_interrupts()
        changes = None
        if names.count:
            segment, lists = build(names, self.check_interrupts)
            postings = {trigram: Postings(one, segment.words) for trigram, one in lists.items()}
            changes = Probes(segment), postings
        # All at once, and last: whatever interrupts what is above leaves what was known.
        cache.changes, cache.changed, cache.changes_seen = changes, known, seen
        cache.weigh_changes()
        return cache.changes

    # Refreshing.

    def refresh(self, rebuild: bool) -> tuple[int, int, int, bool, bool]:
        """Fold the names written since the last refresh in, or build the whole index.

        Parameters
        ----------
        rebuild : bool
            Build it whole. That is also done where there is nothing yet, or what there
            is was made where other characters made words.

        Returns
        -------
        tuple
            How many names were folded in, how many entries and segments there are now,
            whether all was built anew, and whether another refresh runs, so that this one
            did nothing.
        """
        if not self._query(LOCK)[0]["held"]:
            return 0, *self._account(), False, True
        state = self._query(CTYPES)[0]
        if rebuild or not state["segments"] or state["other"]:
            folded, anew = self._build_all(), True
        else:
            folded, anew = self._fold(), False
        return folded, *self._account(), anew, False

    def _account(self) -> tuple[int, int]:
        rows = self._query(SEGMENTS)
        return sum(row["entries"] for row in rows), len(rows)

    def _build_all(self) -> int:
        # What is noted of names until now is in the tables that are read next, of which
        # a later statement sees at least as much; what is noted meanwhile stays.
        self._query(FORGET_ALL_CHANGES)
        old = [row["id"] for row in self._query(SEGMENTS)]
        names = Names()
        total = 0
        for rows in self._stream(NAMES, BLOCK_NAMES):
            _add_rows(names, rows)
            total += len(rows)
            if names.count > MOST_ENTRIES - BLOCK_NAMES:
                self._write(names)
                names = Names()
        self._write(names)
        self._forget(old)
        return total

    def _fold(self) -> int:
        names = Names()
        taken: list[int] = []
        seen: set[tuple[int, str]] = set()
        full: list[Names] = []
        for rows in self._stream(FOLDED, BLOCK_NAMES // 4):
            taken += [row["id"] for row in rows]
            live = {
                (row["node_id"], row["key"]): _change(row)
                for row in rows
                if row["place"] and row["tokens"]
            }
            _add(names, [change for name, change in live.items() if name not in seen])
            seen.update(live)
            if names.count > MOST_ENTRIES - BLOCK_NAMES:
                full.append(names)
                names = Names()
        for each in full:
            self._write(each)
        if taken:
            self._query(FORGET_CHANGES, ("bigint[]",), taken)
        if names.count:
            joined = self._join(names)
            self._write(names)
            self._forget(joined)
        return len(seen)

    def _join(self, names: Names) -> list[int]:
        """Add to new names those of segments not much larger; return which these are."""
        joined = []
        for row in sorted(self._query(SEGMENTS), key=lambda row: int(row["entries"])):
            entries = row["entries"]
            if entries > MERGE_RATIO * names.count or names.count + entries > MOST_MERGED:
                break
            segment = self._segment(row["id"], row["token"]).segment
            lists: dict[int, Integers | Bits] = {}
            for rows in self._stream_lists(row["id"]):
                lists.update((each["trigram"], _array_of(each)) for each in rows)
            take_apart(segment, lists, names, self.check_interrupts)
            joined.append(row["id"])
        return joined

    def _stream_lists(self, number: int) -> Iterator[Sequence[Mapping[str, Any]]]:
        cursor = self._plpy.cursor(self._plan(ALL_LISTS, ("bigint",)), [number])
        try:
            while rows := cursor.fetch(1_000):
                yield rows
        finally:
            cursor.close()

    def _write(self, names: Names) -> None:
        if not names.count:
            return
        segment, lists = build(names, self.check_interrupts)
        number = self._query(
            WRITE_SEGMENT,
            ("int", "bytea", "bytea", "bytea", "bytea", "bytea"),
            names.count,
            segment.holders.astype("<i8").tobytes(),
            segment.marks.astype("<i8").tobytes(),
            segment.places.astype("<i8").tobytes(),
            segment.sizes.astype("<i4").tobytes(),
            segment.starts.astype("<i4").tobytes(),
        )[0]["id"]
        block: list[tuple[int, bool, bytes]] = []
        size = 0
        for trigram in list(lists):
            found = lists.pop(trigram)
            block.append((trigram, found.dtype == np.uint64, _bytes_of(found)))
            size += found.nbytes + 50
            if size > WRITTEN:
                self._write_lists(number, block)
                block, size = [], 0
        self._write_lists(number, block)

    def _write_lists(self, number: int, block: list[tuple[int, bool, bytes]]) -> None:
        if block:
            columns = [list(column) for column in zip(*block, strict=True)]
            types = ("bigint", "int[]", "boolean[]", "bytea[]")
            self._query(WRITE_LISTS, types, number, *columns)

    def _forget(self, segments: list[int]) -> None:
        if segments:
            self._query(FORGET_LISTS, ("bigint[]",), segments)
            self._query(FORGET_SEGMENTS, ("bigint[]",), segments)


class Cache:
    """What a backend has read of the index.

    Attributes
    ----------
    ctype : str or None
        What the server takes for words, once it was asked.
    segments : dict
        Segments by token.
    size : int
        Bytes of lists that are kept.
    changes_size : int
        Some bytes more that the names written since the last refresh take.
    changes : tuple or None
        The names written since the last refresh, as a segment and its lists.
    changes_seen : bytes or None
        The numbers of their rows: under a snapshot that sees the same, they are the same.
    changed : dict
        The holder, mark, place and trigrams of each of these rows.
    changes_file : int or None
        The file of the table that they are rows of.
    """

    # What an entry of the cache costs beside the list itself.
    OVERHEAD = 250
    # What a name written since the last refresh costs beside its trigrams.
    CHANGE = 400

    def __init__(self) -> None:
        self.ctype: str | None = None
        self.segments: dict[str, Probes] = {}
        self.size = 0
        self.changes_size = 0
        self.changes: tuple[Probes, Mapping[int, Postings]] | None = None
        self.changes_seen: bytes | None = None
        self.changed: dict[int, Change] = {}
        self.changes_file: int | None = None
        # The least recently used first; None for a trigram that the segment has not.
        self._lists: OrderedDict[tuple[str, int], Postings | None] = OrderedDict()

    def known(self, token: str, trigrams: set[int]) -> tuple[dict[int, Postings], list[int]]:
        """Return the lists that are kept, and the trigrams of which nothing is known."""
        lists: dict[int, Postings] = {}
        missing = []
        for trigram in trigrams:
            key = token, trigram
            if key not in self._lists:
                missing.append(trigram)
                continue
            self._lists.move_to_end(key)
            found = self._lists[key]
            if found is not None:
                lists[trigram] = found
        return lists, missing

    def remember(self, token: str, trigram: int, found: Postings | None) -> None:
        """Keep a list, or that there is none."""
        self._lists[token, trigram] = found
        self.size += self._cost(found)

    def keep_changes_of(self, file: int) -> None:
        """Forget the names written since the last refresh if they are of another table's file.

        A table that was dropped and made again, or truncated, may count its rows from 1.
        """
        if file != self.changes_file:
            self.forget_changes()
            self.changes_file = file

    def forget_changes(self) -> None:
        """Keep none of the names written since the last refresh."""
        self.changes, self.changes_seen, self.changed = None, None, {}
        self.changes_size = 0

    def weigh_changes(self) -> None:
        """Note how many bytes the names written since the last refresh take."""
        lists = () if self.changes is None else self.changes[1].values()
        trigrams = sum(len(change[3]) for change in self.changed.values())
        self.changes_size = (
            sum(map(self._cost, lists)) + self.CHANGE * len(self.changed) + 8 * trigrams
        )

    def keep_segments(self, tokens: Sequence[str]) -> None:
        """Drop what belongs to segments that are no longer there, if there are any."""
        if len(self.segments) <= len(tokens):
            return
        for token in set(self.segments) - set(tokens):
            del self.segments[token]
        for key in [key for key in self._lists if key[0] not in self.segments]:
            self.size -= self._cost(self._lists.pop(key))

    def trim(self, most: int) -> None:
        """Drop the least recently used lists until no more than `most` bytes are kept.

        Names written since the last refresh count first and are kept all the same: to read
        them again for each search takes too long. Beside them 20 or 24 bytes a name are
        kept. Where nothing shall be, neither are.
        """
        while self._lists and self.size + self.changes_size > most:
            _, found = self._lists.popitem(last=False)
            self.size -= self._cost(found)
        if not most:
            self.segments.clear()
            self.forget_changes()

    def _cost(self, found: Postings | None) -> int:
        return self.OVERHEAD + (0 if found is None else found.nbytes)


def _small(found: NDArray[np.int64]) -> NDArray[Any]:
    """Return numbers in half the memory where that holds them."""
    fits = len(found) and found.min() >= 0 and found.max() < 1 << 32
    return found.astype(np.uint32) if fits else found


def _array_of(row: Mapping[str, Any]) -> Integers | Bits:
    return np.frombuffer(row["entries"], np.uint64 if row["bitmap"] else "<i4")


def _bytes_of(found: Integers | Bits) -> bytes:
    return (found if found.dtype == np.uint64 else found.astype("<i4")).tobytes()


def _places(rows: Iterable[bytes]) -> NDArray[np.int64]:
    """Return places as numbers: a block in the table's file, and which of its rows."""
    found = np.frombuffer(b"".join(rows), [("block", ">u4"), ("row", ">u2")])
    numbers: NDArray[np.int64] = found["block"].astype(np.int64) << 16 | found["row"]
    return numbers


def _change(row: Mapping[str, Any]) -> Change:
    return row["node_id"], row["mark"], row["place"], numbers_of_tokens(row["tokens"])


def _add(names: Names, changed: Sequence[Change]) -> None:
    """Add names a step at a time."""
    with_words = [change for change in changed if change[3]]
    start = total = 0
    for end, change in enumerate(with_words, 1):
        total += len(change[3])
        if total > STEP or end == len(with_words):
            part = with_words[start:end]
            names.add(
                np.fromiter((holder for holder, _, _, _ in part), np.int64, len(part)),
                np.fromiter((mark for _, mark, _, _ in part), np.int64, len(part)),
                _places(place for _, _, place, _ in part),
                *flattened(trigrams for _, _, _, trigrams in part),
            )
            start, total = end, 0


def _add_rows(names: Names, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add names as the server shows them: those of ASCII letters all at once."""
    plain = [row for row in rows if len(row["tokens"]) == 3 * row["size"]]
    others = [_change(row) for row in rows if len(row["tokens"]) != 3 * row["size"]]
    start = total = 0
    for end, row in enumerate(plain, 1):
        total += row["size"]
        if total > STEP or end == len(plain):
            part = plain[start:end]
            names.add(
                np.fromiter((one["node_id"] for one in part), np.int64, len(part)),
                np.fromiter((one["mark"] for one in part), np.int64, len(part)),
                _places(one["place"] for one in part),
                np.fromiter((one["size"] for one in part), np.int32, len(part)),
                numbers_of_ascii("".join([one["tokens"] for one in part])),
            )
            start, total = end, 0
    _add(names, others)
