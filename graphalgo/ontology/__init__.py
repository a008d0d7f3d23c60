"""The ontology: entity types and the routes between them, declared by the application.

Declarations are written in YAML or in Python, held against the database, and
applied in one transaction::

    from graphalgo.ontology import EntityType, Ontology, Route

    ontology = Ontology(
        entity_types=[EntityType("discovery", "DSC", "a finding"), EntityType("insight", "INS")],
        routes=[Route("discovery", "references", "insight")],
    )
"""

from __future__ import annotations

from graphalgo.ontology.applying import InUse, apply, current, difference
from graphalgo.ontology.declarations import EntityType, Ontology, Route
from graphalgo.ontology.differences import Change
from graphalgo.ontology.reading import from_document, read

__all__ = [
    "Change",
    "EntityType",
    "InUse",
    "Ontology",
    "Route",
    "apply",
    "current",
    "difference",
    "from_document",
    "read",
]
