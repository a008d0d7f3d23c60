"""What an application declares."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from graphalgo.engine.errors import InvalidValue, UnknownName

REFERENCES = "references"
"""The relation of a route that names none."""

_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class EntityType:
    """An entity type.

    Attributes
    ----------
    name : str
        What it is called.
    handle_prefix : str
        The first part of its entities' handles, a letter and then letters, digits
        and underscores; no two types share one, in whatever case.
    description : str, optional
        What an agent reads of it.
    indexed : bool
        Whether a search finds its entities.
    """

    name: str
    handle_prefix: str
    description: str | None = None
    indexed: bool = True


@dataclass(frozen=True, slots=True)
class Route:
    """A relation that may lead from entities of one type to those of another.

    Attributes
    ----------
    src_type, relation, dst_type : str
        From where, how, and to where.
    inverse_label : str, optional
        What the way back is called.
    description : str, optional
        What an agent reads of it.
    """

    src_type: str
    relation: str
    dst_type: str
    inverse_label: str | None = None
    description: str | None = None

    @property
    def name(self) -> tuple[str, str, str]:
        """What tells it from other routes."""
        return self.src_type, self.relation, self.dst_type


class Ontology:
    """Entity types and routes that fit together.

    Parameters
    ----------
    entity_types : iterable of EntityType
        In any order.
    routes : iterable of Route
        Between those types.

    Raises
    ------
    InvalidValue
        Two types share a name or a prefix, a route is there twice, or a name is
        empty (22023).
    UnknownName
        A route leads from or to a type that is not declared (42704).
    """

    def __init__(self, entity_types: Iterable[EntityType], routes: Iterable[Route] = ()) -> None:
        self.entity_types = {each.name: each for each in _distinct_types(entity_types)}
        self.routes = {each.name: each for each in _distinct_routes(routes)}
        for route in self.routes.values():
            self._check(route)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Ontology)
            and self.entity_types == other.entity_types
            and self.routes == other.routes
        )

    def __hash__(self) -> int:
        return hash((frozenset(self.entity_types), frozenset(self.routes)))

    def _check(self, route: Route) -> None:
        for end in (route.src_type, route.dst_type):
            if end not in self.entity_types:
                raise UnknownName(
                    f'the route {written(route)} names the entity type "{end}",'
                    " which is not declared",
                    f"Declare it, or name one of: {', '.join(self.entity_types) or 'none'}.",
                )


def written(route: Route) -> str:
    """Write a route as the instructions of the MCP server do."""
    return f"{route.src_type} -{route.relation}-> {route.dst_type}"


def _distinct_types(entity_types: Iterable[EntityType]) -> list[EntityType]:
    names: set[str] = set()
    prefixes: dict[str, str] = {"soft": "soft nodes"}
    kept = []
    for each in entity_types:
        if not each.name or "\x00" in each.name:
            raise InvalidValue("an entity type has no name", "Name it.")
        if each.name in names:
            raise InvalidValue(
                f'the entity type "{each.name}" is declared twice', "Declare it once."
            )
        if not _PREFIX.fullmatch(each.handle_prefix):
            raise InvalidValue(
                f'the handle_prefix of "{each.name}" is "{each.handle_prefix}", but must be'
                " a letter and then letters, digits and underscores",
                "Write for example DSC.",
            )
        taken = prefixes.setdefault(each.handle_prefix.lower(), each.name)
        if taken != each.name:
            raise InvalidValue(
                f'the handle_prefix of "{each.name}" is "{each.handle_prefix}",'
                f" but that is the prefix of {taken}",
                "Give each entity type a prefix of its own.",
            )
        names.add(each.name)
        kept.append(each)
    return kept


def _distinct_routes(routes: Iterable[Route]) -> list[Route]:
    names: set[tuple[str, str, str]] = set()
    kept = []
    for each in routes:
        if not all(each.name):
            raise InvalidValue(
                f"the route {written(each)} lacks an end or its relation", "Name all three."
            )
        if each.name in names:
            raise InvalidValue(f"the route {written(each)} is declared twice", "Declare it once.")
        names.add(each.name)
        kept.append(each)
    return kept
