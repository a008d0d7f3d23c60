"""What the engine asks of a store.

A store answers questions about nodes, keys and links *that the caller may see*;
how it keeps them is its own matter. Three stores exist: in memory
(:mod:`graphalgo.stores.memory`), inside a PostgreSQL backend
(:mod:`graphalgo.stores.spi`) and over a connection
(:mod:`graphalgo.stores.client`).

Links come in columns rather than rows: a list of node ids that were expanded,
a list of the neighbours, a list of the weights. A database hands such columns
over in half the time of the same links as rows.
"""

from __future__ import annotations

# `typing` costs a fresh backend some milliseconds, so it is imported for the
# type checker alone; type checkers take this name for true.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Protocol, TypeAlias

    # What is shown of a node: its handle, key, entity type and summary.
    NodeInfo: TypeAlias = tuple[str, str | None, str | None, str | None]
    NoInfo: TypeAlias = tuple[None, None, None, None]

    # A moment as the caller gave it: the engine only hands it on.
    Moment: TypeAlias = Any

    # The expanded nodes, their neighbours, the weights: one entry a link. The
    # links of one expanded node stand together, the strongest first.
    Links: TypeAlias = tuple[Sequence[int], Sequence[int], Sequence[float]]
    # The same and the relation of each link.
    RelationLinks: TypeAlias = tuple[Sequence[int], Sequence[int], Sequence[float], Sequence[str]]
    # What a judge said: node ids, linked ids, confidences, reasons.
    Verdicts: TypeAlias = tuple[
        Sequence[int | None],
        Sequence[int | None],
        Sequence[float | None],
        Sequence[str | None],
    ]

    class Store(Protocol):
        """Nodes, keys and links as one caller sees them.

        A frontier is a list of different node ids. `limit` is the most links
        that one node and one link kind may give: the engine asks for one more
        than its degree cap, which tells it whether the cap cut anything.
        Weights are the double value of a real.
        """

        def reading(self) -> AbstractContextManager[object]:
            """Give what is read within one state of the data, at one moment.

            Each call of an algorithm does all its reading inside one.
            """

        def check_interrupts(self) -> None:
            """Let a pending cancellation or time-out strike. Cheap; called within long loops."""

        def entity_types(self) -> list[tuple[str, str]]:
            """Return each registered entity type and its handle prefix, by name."""

        def relation_names(self) -> list[str]:
            """Return the declared relations, sorted by code point, each once."""

        def nodes_by_handle(
            self, entity_type: str | None, number: int, as_of: Moment | None
        ) -> list[int]:
            """Return the node with that handle (`entity_type` None: a soft node), or nothing.

            A retired node is found only where `as_of` lies before its retirement.
            """

        def nodes_by_key(self, key: str, limit: int) -> list[int]:
            """Return typed nodes that hold the folded key and soft nodes of that `kind/name`.

            At most `limit`, by id.
            """

        def near_names(self, name: str, threshold: float, limit: int) -> list[str]:
            """Return the keys of nodes with similar names, the most similar first.

            A soft node's is its `kind/name`. Ties by the shown key.
            """

        def exact_keys(
            self, keys: Sequence[str], kinds: Sequence[str], limit: int
        ) -> list[tuple[int, int, str, str]]:
            """Return (index in `keys`, node id, key, kind) of typed nodes that hold a key.

            Of the given kinds; at most `limit` for each key, by id.
            """

        def soft_names(self, keys: Sequence[str], limit: int) -> list[tuple[int, int, str]]:
            """Return (index in `keys`, node id, `kind/name`) of soft nodes.

            Those whose bare name or `kind/name` is the key; at most `limit` for
            each, by `kind/name`, then id.
            """

        def fuzzy_keys(
            self, keys: Sequence[str], threshold: float, limit: int
        ) -> list[tuple[int, int, str, float]]:
            """Return (index in `keys`, node id, key, similarity) of typed nodes.

            Each node once, with its most similar name (ties: the least); at most
            `limit` for each key, by similarity descending, key, id.
            """

        def describe(self, ids: Sequence[int]) -> dict[int, NodeInfo]:
            """Return what is shown of each node, retired ones too."""

        def describe_answers(self, ids: Sequence[int]) -> dict[int, NodeInfo | NoInfo]:
            """Return what is shown of the nodes of an answer, as `describe` does.

            A store whose caller reads that by itself may leave it out: four times
            None for each node.
            """

        def of_type(self, ids: Sequence[int], entity_type: str) -> list[int]:
            """Return those of the nodes that are of the type, retired ones too."""

        def visible(self, ids: Sequence[int], as_of: Moment | None) -> list[int]:
            """Return those of the ids that are nodes which the caller may see."""

        def edge_links(
            self,
            frontier: Sequence[int],
            limit: int,
            relations: Sequence[str] | None,
            as_of: Moment | None,
        ) -> Iterator[Links]:
            """Yield the strongest edges of each node, both ways, in blocks.

            Per node by weight descending, neighbour id, relation, out before
            in, edge id. A self-loop counts once. All links of one node are in
            one block, and the blocks are small enough (some ten thousand links,
            or one node's) that a loop over one is never long.
            """

        def relation_links(
            self,
            frontier: Sequence[int],
            limit: int,
            relations: Sequence[str] | None,
            as_of: Moment | None,
        ) -> Iterator[RelationLinks]:
            """Yield what `edge_links` does, with each link's relation."""

        def over_cap(
            self,
            ids: Sequence[int],
            cap: int,
            relations: Sequence[str] | None,
            as_of: Moment | None,
        ) -> list[int]:
            """Return the nodes that have more than `cap` edges; a self-loop counts once."""

        def shared_key_links(self, frontier: Sequence[int], limit: int) -> Iterator[Links]:
            """Yield, for each node, the nodes that hold one of its keys.

            One link a neighbour, over the key with the fewest holders, of weight
            1 / (holders - 1); per node by holders, then neighbour id.
            """

        def similar_links(
            self, frontier: Sequence[int], threshold: float, limit: int
        ) -> Iterator[Links]:
            """Yield, for each node, the nodes with a name similar to one of its names.

            One link a neighbour, of the most similar pair of different names, its
            similarity at least `threshold`; per node by similarity descending,
            neighbour id. None between nodes that are known not to be the same.
            """

        def distinct_pairs(self, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
            """Return those of the pairs whose nodes are known not to be the same."""

        def check_judge(self) -> None:
            """Refuse when no judge is set, or the one that is cannot be called.

            Raises
            ------
            MissingSetting
                The setting is empty.
            InvalidJudge
                The judge is missing, not the caller's to execute, or of another shape.
            """

        def judged_links(self, frontier: Sequence[int]) -> Iterator[Verdicts]:
            """Call the judge once with the frontier; yield what it says, unchecked, in blocks."""

        def edge_details(
            self,
            hops: Sequence[tuple[int, int, float]],
            relations: Sequence[str] | None,
            as_of: Moment | None,
        ) -> list[tuple[str, str]]:
            """Return relation and direction (`out` or `in`) of each hop (from, to, weight).

            Of parallel edges the first by relation, out before in, edge id.
            """

        def shared_key_details(self, pairs: Sequence[tuple[int, int]]) -> list[str]:
            """Return the key of each pair's link: the fewest holders, then the least key."""

        def similar_details(self, pairs: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
            """Return both names of each pair's link: the most similar different names.

            Ties: the least name of the second node, then of the first.
            """
