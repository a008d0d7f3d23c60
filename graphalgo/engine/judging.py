"""From what a judge said to links: checked, capped, the most confident first."""

from __future__ import annotations

from graphalgo.engine.ordering import smallest

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from graphalgo.engine.protocol import Moment, Store

    # Expanded nodes, neighbours, confidences and reasons, an entry a link.
    JudgedLinks: TypeAlias = tuple[list[int], list[int], list[float], list[str]]
    # -confidence, neighbour, reason: as links are ordered.
    Judgement: TypeAlias = tuple[float, int, str]

BLOCK_LINKS = 20_000


def judged_links(
    store: Store, frontier: Sequence[int], limit: int, as_of: Moment | None
) -> Iterator[JudgedLinks]:
    """Yield the links that the judge makes of the frontier's nodes.

    Ids that the caller cannot see, links to oneself, nulls, confidences outside
    (0, 1] and pairs known not to be the same are dropped. A verdict is walked
    either way: one that names a frontier node second only is a link from it too.
    At most `limit` links a node, by confidence descending, neighbour id, reason; a
    null reason reads as empty.

    Cost: memory grows with the frontier times `limit`, not with what the judge
    says.
    """
    kept: dict[int, list[Judgement]] = {node: [] for node in frontier}
    for verdicts in store.judged_links(frontier):
        _keep_valid(store, kept, verdicts, as_of)
        for node, judgements in kept.items():
            if len(judgements) > 2 * limit + 1000:
                kept[node] = smallest(judgements, limit, store.check_interrupts)
    yield from _blocks(store, kept, limit)


def _keep_valid(
    store: Store,
    kept: dict[int, list[Judgement]],
    verdicts: tuple[
        Sequence[int | None],
        Sequence[int | None],
        Sequence[float | None],
        Sequence[str | None],
    ],
    as_of: Moment | None,
) -> None:
    valid: list[tuple[int, Judgement]] = []
    others: set[int] = set()
    for node, linked, confidence, reason in zip(*verdicts, strict=True):
        if node is None or linked is None or confidence is None or node == linked:
            continue
        if not 0 < confidence <= 1:
            continue
        if node in kept:
            start, end = node, linked
        elif linked in kept:
            start, end = linked, node
        else:
            continue
        valid.append((start, (-confidence, end, reason or "")))
        others.add(end)
    seen = set(store.visible(sorted(others), as_of))
    linked_pairs = {(start, judgement[1]) for start, judgement in valid}
    distinct = set(store.distinct_pairs(sorted(linked_pairs)))
    for start, judgement in valid:
        if judgement[1] in seen and (start, judgement[1]) not in distinct:
            kept[start].append(judgement)


def _blocks(store: Store, kept: dict[int, list[Judgement]], limit: int) -> Iterator[JudgedLinks]:
    block: JudgedLinks = ([], [], [], [])
    for node, judgements in kept.items():
        for negative, linked, reason in smallest(judgements, limit, store.check_interrupts):
            block[0].append(node)
            block[1].append(linked)
            block[2].append(-negative)
            block[3].append(reason)
        if len(block[0]) >= BLOCK_LINKS:
            yield block
            block = ([], [], [], [])
    if block[0]:
        yield block
