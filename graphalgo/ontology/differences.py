"""What stands between an ontology and the one in the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from graphalgo.ontology.declarations import EntityType, Ontology, Route, written

Thing = EntityType | Route


@dataclass(frozen=True, slots=True)
class Change:
    """One difference, and what applies it.

    Attributes
    ----------
    before, after : EntityType, Route or None
        In the database and as declared; None where it is not there.
    use : str or None
        What in the database stands on it, where it is to be dropped or its handles
        are to change.
    kept : bool
        It would be dropped, but is in use and stays.
    """

    before: Thing | None
    after: Thing | None
    use: str | None = None
    kept: bool = False

    @property
    def drops(self) -> bool:
        """Whether it takes something away."""
        return self.after is None and not self.kept

    def line(self) -> str:
        """Write it as a line of a diff."""
        thing = self.after or self.before
        assert thing is not None
        mark = "=" if self.kept else "+" if self.before is None else "~" if self.after else "-"
        said = [f"{mark} {_named(thing)}"]
        if self.before is not None and self.after is not None:
            said.append(_altered(self.before, self.after))
        if self.use:
            said.append(f"{'kept: ' if self.kept else ''}{self.use}")
        return ": ".join(said)


def differences(have: Ontology, want: Ontology) -> list[Change]:
    """List the differences, types before routes, by name.

    Parameters
    ----------
    have : Ontology
        What is in the database.
    want : Ontology
        What is declared.
    """
    return [
        *_compared(have.entity_types, want.entity_types),
        *_compared(have.routes, want.routes),
    ]


def with_use(change: Change, use: str | None, keep: bool) -> Change:
    """Add what stands on a thing; keep it, where that is asked for."""
    return replace(change, use=use, kept=bool(use) and keep and change.after is None)


def _compared(have: Mapping[Any, Thing], want: Mapping[Any, Thing]) -> list[Change]:
    pairs = [(have.get(name), want.get(name)) for name in sorted({*have, *want})]
    return [Change(before, after) for before, after in pairs if before != after]


def _named(thing: Thing) -> str:
    if isinstance(thing, EntityType):
        return f"entity type {thing.name} ({thing.handle_prefix})"
    return f"route {written(thing)}"


def _altered(before: Thing, after: Thing) -> str:
    names = [name for name in before.__slots__ if getattr(before, name) != getattr(after, name)]
    return ", ".join(
        f"{name} {getattr(before, name)!r} -> {getattr(after, name)!r}" for name in names
    )
