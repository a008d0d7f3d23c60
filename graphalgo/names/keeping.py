"""The index of names kept in memory, for the twin: the same segments, never written anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphalgo.names.building import BLOCK_NAMES, MOST_ENTRIES, Names, build
from graphalgo.names.search import Postings, Probes
from graphalgo.names.tokens import flattened, number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class KeptNames:
    """Names by the trigrams of the engine, searched as the database's index is.

    Not for two threads at once.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._segments: list[tuple[Probes, Mapping[int, Postings]]] = []

    def add(self, names: Mapping[str, Iterable[str]]) -> None:
        """Add names with their trigrams, each a name that was not added before.

        Costs some 15 microseconds a name; few names at a time make many segments, each
        of which is searched.
        """
        given = [(name, [number_of(one) for one in trigrams]) for name, trigrams in names.items()]
        for start in range(0, len(given), MOST_ENTRIES):
            part = given[start : start + MOST_ENTRIES]
            collected = Names()
            for first in range(0, len(part), BLOCK_NAMES):
                block = part[first : first + BLOCK_NAMES]
                place = len(self._names)
                self._names += [name for name, _ in block]
                holders = np.arange(place, place + len(block), dtype=np.int64)
                # Each name is its own holder.
                none = np.zeros_like(holders)
                collected.add(holders, none, none, *flattened(trigrams for _, trigrams in block))
            segment, lists = build(collected)
            self._segments.append(
                (
                    Probes(segment),
                    {trigram: Postings(found, segment.words) for trigram, found in lists.items()},
                )
            )

    def similar(self, trigrams: Sequence[str], threshold: float) -> list[str]:
        """Return the names similar to one that has some trigrams.

        Parameters
        ----------
        trigrams : sequence of str
            All of them, each once.
        threshold : float
            The least similarity, the value of a ``real`` in (0, 1].

        Returns
        -------
        list of str
            All names whose similarity is at least the threshold.
        """
        if not trigrams:
            return []
        numbers = [number_of(trigram) for trigram in trigrams]
        found: list[str] = []
        for segment, lists in self._segments:
            for hits in segment.run([(0, numbers)], threshold, lists):
                found += [self._names[place] for place in hits.holders.tolist()]
        return found
