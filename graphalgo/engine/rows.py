"""The rows that the algorithms answer, named as the SQL functions' columns."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, ClassVar


class Row:
    """A record with the attributes of `_fields`, given in that order."""

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *values: Any) -> None:
        if len(values) != len(self._fields):
            raise TypeError(f"{type(self).__name__} takes {len(self._fields)} values")
        for name, value in zip(self._fields, values, strict=True):
            setattr(self, name, value)

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self._fields)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.as_dict().__repr__()))

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({inner})"

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a dictionary, in the order of the columns."""
        return {name: getattr(self, name) for name in self._fields}


class JoinRow(Row):
    """One node that an iterated join reached, or why it reached none."""

    __slots__ = _fields = (
        "resolved",
        "round",
        "hops",
        "node_id",
        "handle",
        "key",
        "entity_type",
        "summary",
        "score",
        "path",
        "deferred",
        "examined",
        "reason",
    )
    resolved: bool
    round: int
    hops: int | None
    node_id: int | None
    handle: str | None
    key: str | None
    entity_type: str | None
    summary: str | None
    score: float | None
    path: list[dict[str, Any]] | None
    deferred: int
    examined: int
    reason: str | None


class WalkRow(Row):
    """One node within reach of a walk."""

    __slots__ = _fields = (
        "depth",
        "node_id",
        "handle",
        "key",
        "entity_type",
        "summary",
        "path",
        "weight",
        "capped",
    )
    depth: int
    node_id: int
    handle: str | None
    key: str | None
    entity_type: str | None
    summary: str | None
    path: list[str]
    weight: float
    capped: bool


class LookupRow(Row):
    """One node that an input key found."""

    __slots__ = _fields = (
        "input_key",
        "node_id",
        "handle",
        "key",
        "entity_type",
        "summary",
        "match_kind",
        "score",
    )

    def __init__(
        self,
        input_key: str,
        node_id: int,
        handle: str | None,
        key: str,
        entity_type: str | None,
        summary: str | None,
        match_kind: str,
        score: float,
    ) -> None:
        # Written out: a lookup of one key takes little longer than to make a row by loops.
        self.input_key = input_key
        self.node_id = node_id
        self.handle = handle
        self.key = key
        self.entity_type = entity_type
        self.summary = summary
        self.match_kind = match_kind
        self.score = score

    def as_dict(self) -> dict[str, Any]:
        return {
            "input_key": self.input_key,
            "node_id": self.node_id,
            "handle": self.handle,
            "key": self.key,
            "entity_type": self.entity_type,
            "summary": self.summary,
            "match_kind": self.match_kind,
            "score": self.score,
        }


class SimilarRow(Row):
    """One node with a name similar to an input name."""

    __slots__ = _fields = (
        "input_name",
        "node_id",
        "handle",
        "key",
        "entity_type",
        "summary",
        "score",
        "candidate_similarity",
    )
    input_name: str
    node_id: int
    handle: str | None
    key: str
    entity_type: str | None
    summary: str | None
    score: float
    candidate_similarity: float
