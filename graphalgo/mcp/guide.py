"""The instructions that an agent is handed when it connects: how to use the map, and the map."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Row = Mapping[str, Any]

_HOW = """\
This server is a map of what the user has. It shows what that user may see and nothing else.

How to use it:
1. search_entities finds entities by words. Take the handle of a hit, such as ABC-12.
2. get_neighbors goes one hop from a handle along the routes below: direction "out" is what the \
entity refers to, "in" what refers to it. Go on from there, one hop at a time.
3. Tools give compact references only. Read what you chose, whole, at its resource: \
{scheme}://ontology/entities/HANDLE
lookup finds by name or code; iterated_join walks several hops to a type; query answers the \
dialect P8QL (ask SCHEMA first).
The map below can be read again at {scheme}://ontology. It holds types and routes, no entities.
"""
_UNREAD = """
The map could not be read just now: {reason}. Read {scheme}://ontology before you go on.
"""


def instructions(ontology: Row, scheme: str, longest: int) -> str:
    """Write the instructions with the ontology as it is.

    Parameters
    ----------
    ontology : mapping
        As `aiq.ontology()` answers it.
    scheme : str
        The scheme of the resources' URIs.
    longest : int
        The most characters; what is cut is said, and where it can be read.
    """
    text = _HOW.format(scheme=scheme)
    end = f"\n(The rest of the map is left out here: read {scheme}://ontology.)\n"
    for line in _map(ontology):
        if len(text) + len(line) + 1 + len(end) > longest:
            return text + end
        text += f"{line}\n"
    return text


def instructions_without_map(reason: str, scheme: str) -> str:
    """Write the instructions for when the ontology cannot be read."""
    return _HOW.format(scheme=scheme) + _UNREAD.format(reason=reason, scheme=scheme)


def _map(ontology: Row) -> Iterator[str]:
    yield ""
    yield "Entity types (prefix of the handles: type, what it is):"
    types = ontology["entity_types"]
    yield from (_entity_type(each) for each in types)
    if not types:
        yield "(none are declared)"
    yield ""
    yield "Routes (type -relation-> type):"
    yield from _routes(ontology["routes"])
    if not ontology["routes"]:
        yield "(none are declared)"


def _entity_type(row: Row) -> str:
    about = f", {_line(row['description'])}" if row.get("description") else ""
    found = "" if row.get("indexed", True) else " [not in search_entities; reached by routes]"
    return f"- {row['handle_prefix']}: {row['name']}{about}{found}"


def _routes(rows: Iterable[Row]) -> Iterator[str]:
    """Write the routes, those that differ in where they lead alone as one line."""
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for row in rows:
        key = (
            row["src_type"],
            row["relation"],
            _line(row.get("inverse_label") or ""),
            _line(row.get("description") or ""),
        )
        grouped.setdefault(key, []).append(row["dst_type"])
    for (source, relation, inverse, about), targets in grouped.items():
        back = f" (back: {inverse})" if inverse else ""
        yield f"- {source} -{relation}-> {', '.join(targets)}{back}{f': {about}' if about else ''}"


def _line(text: str) -> str:
    return " ".join(text.split())
