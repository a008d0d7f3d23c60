"""What the parser understood of a query, defaults included.

A plan can be shown as JSON (:meth:`Plan.as_dict`) and written as a query again
(:meth:`Plan.to_text`), which parses to an equal plan.
"""

from __future__ import annotations

from graphalgo.engine.arguments import MAX_DEPTH, MAX_INTEGER

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, ClassVar

KEY_LIMIT = 10
ROW_LIMIT = 10
WALK_LIMIT = 100
WALK_DEPTH = 1
DEGREE_CAP = 100
# Reciprocal rank fusion: what is added to each place, and the least number of
# rows that each ranking gives.
FUSION_CONSTANT = 60
FUSION_DEPTH = 100

GREATEST_DEPTH = MAX_DEPTH
GREATEST_LIMIT = MAX_INTEGER


class Plan:
    """A record of one mode's parts, given by name.

    Attributes
    ----------
    mode : str
        `LOOKUP`, `GRAPH`, `TEXT`, `SEMANTIC`, `SEARCH`, `SCHEMA` or `SQL`.
    """

    __slots__ = ()
    mode: ClassVar[str] = ""
    _fields: ClassVar[tuple[str, ...]] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON has it: the mode and then its parts, in order."""
        return {"mode": self.mode, **{name: getattr(self, name) for name in self._fields}}

    def to_text(self) -> str:
        """Return a query that parses to an equal plan.

        It leaves out what is so by default. What the parser has accepted is never
        printed longer than it accepts.
        """
        from graphalgo.p8ql.printing import printed  # noqa: PLC0415 - only printing needs it

        return printed(*self._written())

    def _written(self) -> tuple[str, list[str], list[tuple[str, int | str]]]:
        """Return what opens the query, its strings, and the modifiers that are needed."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({inner})"


class LookupPlan(Plan):
    """Nodes by key."""

    __slots__ = _fields = ("keys", "fuzzy", "limit")
    mode = "LOOKUP"

    def __init__(self, keys: list[str], fuzzy: bool = False, limit: int = KEY_LIMIT) -> None:
        self.keys = keys
        self.fuzzy = fuzzy
        self.limit = limit

    def as_dict(self) -> dict[str, Any]:
        return {"mode": "LOOKUP", "keys": self.keys, "fuzzy": self.fuzzy, "limit": self.limit}

    def _written(self) -> tuple[str, list[str], list[tuple[str, int | str]]]:
        fuzzy = "FUZZY " if self.fuzzy else ""
        return f"{fuzzy}LOOKUP", self.keys, _modifiers(("LIMIT", self.limit, KEY_LIMIT))


class GraphPlan(Plan):
    """A walk."""

    __slots__ = _fields = ("key", "depth", "relation", "degree_cap", "limit")
    mode = "GRAPH"

    def __init__(
        self,
        key: str,
        depth: int = WALK_DEPTH,
        relation: str | None = None,
        limit: int = WALK_LIMIT,
    ) -> None:
        self.key = key
        self.depth = depth
        self.relation = relation
        self.degree_cap = DEGREE_CAP
        self.limit = limit

    def _written(self) -> tuple[str, list[str], list[tuple[str, int | str]]]:
        modifiers = _modifiers(
            ("DEPTH", self.depth, WALK_DEPTH),
            ("TYPE", self.relation, None),
            ("LIMIT", self.limit, WALK_LIMIT),
        )
        return self.mode, [self.key], modifiers


class TextPlan(Plan):
    """A full text search."""

    __slots__ = _fields = ("words", "source", "limit")
    mode = "TEXT"

    def __init__(self, words: str, source: str, limit: int = ROW_LIMIT) -> None:
        self.words = words
        self.source = source
        self.limit = limit

    def _written(self) -> tuple[str, list[str], list[tuple[str, int | str]]]:
        modifiers = _modifiers(("FROM", self.source, None), ("LIMIT", self.limit, ROW_LIMIT))
        return self.mode, [self.words], modifiers


class SemanticPlan(Plan):
    """A search for the nearest vectors; without a model, the default one's."""

    __slots__ = ("limit", "model", "source", "words")
    _fields: ClassVar[tuple[str, ...]] = ("words", "source", "model", "limit")
    mode = "SEMANTIC"

    def __init__(
        self, words: str, source: str, model: str | None = None, limit: int = ROW_LIMIT
    ) -> None:
        self.words = words
        self.source = source
        self.model = model
        self.limit = limit

    def _written(self) -> tuple[str, list[str], list[tuple[str, int | str]]]:
        modifiers = _modifiers(
            ("FROM", self.source, None),
            ("USING", self.model, None),
            ("LIMIT", self.limit, ROW_LIMIT),
        )
        return self.mode, [self.words], modifiers


class SearchPlan(SemanticPlan):
    """Both searches, fused by reciprocal rank.

    Attributes
    ----------
    k : int
        What is added to each place.
    depth : int
        How many rows each ranking gives.
    """

    __slots__ = ("depth", "k")
    _fields = ("words", "source", "model", "limit", "k", "depth")
    mode = "SEARCH"

    def __init__(
        self, words: str, source: str, model: str | None = None, limit: int = ROW_LIMIT
    ) -> None:
        super().__init__(words, source, model, limit)
        self.k = FUSION_CONSTANT
        self.depth = max(FUSION_DEPTH, limit)


class SchemaPlan(Plan):
    """What the database is: all of it, a facet, or one relation of facet `sql`."""

    __slots__ = ("facet", "source")
    _fields = ("facet", "source")
    mode = "SCHEMA"

    def __init__(self, facet: str | None = None, source: str | None = None) -> None:
        self.facet = facet
        self.source = source

    def as_dict(self) -> dict[str, Any]:
        return {"mode": self.mode, "facet": self.facet, "from": self.source}

    def _written(self) -> tuple[str, list[str], list[tuple[str, int | str]]]:
        # Only the facet "sql" is of one relation, so that goes without saying.
        facet = f" {self.facet}" if self.facet and self.source is None else ""
        return f"SCHEMA{facet}", [], _modifiers(("FROM", self.source, None))


class SqlPlan(Plan):
    """A statement, as it is written; it is planned here and run elsewhere."""

    __slots__ = _fields = ("statement",)
    mode = "SQL"

    def __init__(self, statement: str) -> None:
        self.statement = statement

    def to_text(self) -> str:
        return self.statement


def _modifiers(*given: tuple[str, int | str | None, int | None]) -> list[tuple[str, int | str]]:
    """Return the modifiers, each with its value, that are not what they are by default."""
    return [
        (name, value) for name, value, default in given if value is not None and value != default
    ]
