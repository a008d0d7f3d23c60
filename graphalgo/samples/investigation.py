"""The investigation sample: what an agent finds its way through.

Findings, analyses, pages of charts and notes, each a row of a table of its type,
and the references between them, each a row of a table of its route.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

REFERENCES = "references"
"""The relation of every route of the sample."""

SCHEMA = "investigation"
"""The schema of its tables."""


def investigation_json() -> dict[str, Any]:
    """Read the sample as it is written in ``investigation.json``; a new copy at each call."""
    import json  # noqa: PLC0415 - not every importer reads the sample
    from importlib.resources import files  # noqa: PLC0415

    text = files(__package__).joinpath("investigation.json").read_text(encoding="utf-8")
    sample: dict[str, Any] = json.loads(text)
    return sample


def entities(sample: dict[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Give each entity with its type and the number of its handle."""
    types = {each["handle_prefix"]: each["name"] for each in sample["entity_types"]}
    for entity in sample["entities"]:
        prefix, _, number = entity["handle"].partition("-")
        yield types[prefix], int(number), entity


def references(sample: dict[str, Any]) -> Iterator[tuple[str, int, str, int]]:
    """Give each reference: the type and number that it is from, and those that it is to."""
    ends = {entity["handle"]: (kind, number) for kind, number, entity in entities(sample)}
    for edge in sample["edges"]:
        yield *ends[edge["from"]], *ends[edge["to"]]


def routes(sample: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the two types of each route."""
    for route in sample["routes"]:
        for target in route["to"]:
            yield route["from"], target
