"""Declarations in YAML, JSON or Python.

A document has `entity_types`, a list of objects with `name`, `handle_prefix`,
`description` and `indexed`, and `routes`, a list of objects with `from`, `to` (a
type or a list of types), `relation`, `inverse_label` and `description`.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from graphalgo.engine.errors import InvalidValue, MissingSetting
from graphalgo.ontology.declarations import REFERENCES, EntityType, Ontology, Route

_TYPE_MEMBERS = {"name": str, "handle_prefix": str, "description": str, "indexed": bool}
_ROUTE_MEMBERS = {
    "from": str, "to": (str, list), "relation": str, "inverse_label": str, "description": str
}  # fmt: skip
_ATTRIBUTE = "ontology"


def read(named: str) -> Ontology:
    """Read declarations.

    Parameters
    ----------
    named : str
        A file in YAML or JSON; a Python file that defines `ontology`; or
        ``module:attribute``, an :class:`Ontology` that can be imported.

    Raises
    ------
    InvalidValue
        There is no such file or object, or it declares no ontology (22023).
    UnknownName
        A route names a type that is not declared (42704).
    """
    path = Path(named)
    if path.suffix == ".py":
        return _of_python(named, _module(path), _ATTRIBUTE)
    module, colon, attribute = named.partition(":")
    if colon and not path.exists():
        try:
            return _of_python(named, importlib.import_module(module), attribute)
        except ImportError as error:
            raise InvalidValue(
                f'"{named}" cannot be imported: {error}', "Name a file, or module:attribute."
            ) from error
    return from_document(_document(path), named)


def from_document(document: Any, named: str = "the ontology") -> Ontology:
    """Make an ontology of a document.

    Parameters
    ----------
    document : dict
        As the module's own text describes it.
    named : str
        What refusals call it.
    """
    if not isinstance(document, Mapping) or "entity_types" not in document:
        raise InvalidValue(
            f"{named} declares no entity_types", "Write a document with entity_types and routes."
        )
    types = [
        EntityType(**_members(entry, _TYPE_MEMBERS, ("name", "handle_prefix"), where))
        for where, entry in _entries(document, "entity_types", named)
    ]
    routes = [
        route
        for where, entry in _entries(document, "routes", named)
        for route in _routes(_members(entry, _ROUTE_MEMBERS, ("from", "to"), where), where)
    ]
    return Ontology(types, routes)


def _entries(document: Mapping[str, Any], name: str, named: str) -> Iterator[tuple[str, Any]]:
    entries = document.get(name) or []
    if not isinstance(entries, list):
        raise InvalidValue(f"{name} of {named} is no list", f"Write a list of {name}.")
    for number, entry in enumerate(entries, start=1):
        yield f"{named}, {name} {number}", entry


def _members(
    entry: Any, known: Mapping[str, Any], required: tuple[str, ...], where: str
) -> dict[str, Any]:
    if not isinstance(entry, Mapping):
        raise InvalidValue(f"{where} is no object", f"Write its members: {', '.join(known)}.")
    for name, value in entry.items():
        if name not in known:
            raise InvalidValue(f'{where} has "{name}"', f"Its members are {', '.join(known)}.")
        if value is not None and not isinstance(value, known[name]):
            raise InvalidValue(
                f"{where}: {name} is {value!r}", "Write a text, in quotes if need be."
            )
    for name in required:
        if not entry.get(name):
            raise InvalidValue(f"{where} has no {name}", f"Write {name}.")
    return {name: value for name, value in entry.items() if value is not None}


def _routes(entry: dict[str, Any], where: str) -> Iterator[Route]:
    targets = [entry["to"]] if isinstance(entry["to"], str) else entry["to"]
    for target in targets:
        if not isinstance(target, str):
            raise InvalidValue(f"{where}: to holds {target!r}", "Name entity types.")
        yield Route(
            entry["from"],
            entry.get("relation", REFERENCES),
            target,
            entry.get("inverse_label"),
            entry.get("description"),
        )


def _document(path: Path) -> Any:
    try:
        import yaml  # noqa: PLC0415 - only for a file
    except ImportError:
        raise MissingSetting(
            "reading an ontology needs the package pyyaml, which is not installed",
            "Install it with: pip install pyyaml",
        ) from None
    try:
        # JSON is YAML, too.
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise InvalidValue(f'"{path}" is not UTF-8', "Write it in UTF-8.") from None
    except OSError as error:
        raise InvalidValue(
            f'"{path}" cannot be read: {error.strerror or error}', "Name a file with an ontology."
        ) from error
    except yaml.YAMLError as error:
        raise InvalidValue(
            f'"{path}" is not YAML: {" ".join(str(error).split())}', "Correct it there."
        ) from None


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise InvalidValue(f'"{path}" is no file', "Name a Python file that defines `ontology`.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _of_python(named: str, module: Any, attribute: str) -> Ontology:
    found = getattr(module, attribute, None)
    if not isinstance(found, Ontology):
        raise InvalidValue(
            f'"{named}" defines no Ontology called "{attribute}"',
            f"Write: from graphalgo.ontology import Ontology; {attribute} = Ontology([…], […])",
        )
    return found
