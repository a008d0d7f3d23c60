"""The entity types and relations that a load may use: those declared, and those it declares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from psycopg import Cursor
from psycopg.rows import TupleRow

from graphalgo.engine.arguments import near_spellings, quoted
from graphalgo.loading.errors import UnknownNameInLine, shown
from graphalgo.loading.reading import Reader

_STORE_TYPE = """
insert into aiq.entity_types as t (name, handle_prefix, description, indexed)
values (%s, %s, %s, %s)
on conflict (name) do update
set handle_prefix = excluded.handle_prefix, description = excluded.description,
    indexed = excluded.indexed
where
    (t.handle_prefix, t.description, t.indexed)
    is distinct from (excluded.handle_prefix, excluded.description, excluded.indexed)
"""

_STORE_RELATION = """
insert into aiq.relations as r (src_type, relation, dst_type, inverse_label, description)
values (%s, %s, %s, %s, %s)
on conflict (src_type, relation, dst_type) do update
set inverse_label = excluded.inverse_label, description = excluded.description
where
    (r.inverse_label, r.description) is distinct from (excluded.inverse_label, excluded.description)
"""

_MOST_NAMED = 10


class Vocabulary:
    """Types and relations by name, read once and added to as files declare more.

    Parameters
    ----------
    cursor : psycopg.Cursor
        In the load's transaction.
    """

    def __init__(self, cursor: Cursor[TupleRow]) -> None:
        self.cursor = cursor
        cursor.execute("select name, handle_prefix from aiq.entity_types")
        self.prefixes: dict[str, str] = dict(cursor.fetchall())
        cursor.execute("select src_type, relation, dst_type from aiq.relations")
        self.declared: set[tuple[str, str, str]] = {
            (source, relation, target) for source, relation, target in cursor.fetchall()
        }
        self.relations = {relation for _, relation, _ in self.declared}

    def declare_types(self, reader: Reader) -> tuple[int, int, int]:
        """Declare each entity type of a file; a type that is there is replaced.

        Returns
        -------
        tuple of int
            How many types the file has, how many are new, and how many have changed.
        """
        seen: dict[str, int] = {}
        known = len(self.prefixes)
        stored = 0
        for line, (name, prefix, description, indexed) in reader:
            _refuse_repeated(reader, seen, line, name, f"entity type {shown(name)}")
            for other, taken in self.prefixes.items():
                if other != name and taken.lower() == prefix.lower():
                    reader.refuse(
                        line,
                        f"handle_prefix is {shown(prefix)}, but that is the prefix of the"
                        f" entity type {shown(other)}",
                        "Give each entity type a prefix of its own.",
                    )
            self.prefixes[name] = prefix
            row = (name, prefix, description, True if indexed is None else indexed)
            stored += self.cursor.execute(_STORE_TYPE, row).rowcount
        added = len(self.prefixes) - known
        return len(seen), added, stored - added

    def declare_relations(self, reader: Reader) -> tuple[int, int, int]:
        """Declare each relation of a file; one that is there is replaced.

        Returns
        -------
        tuple of int
            How many relations the file has, how many are new, and how many have changed.
        """
        seen: dict[tuple[str, str, str], int] = {}
        known = len(self.declared)
        stored = 0
        for line, (source, relation, target, inverse, description) in reader:
            for column, entity_type in (("src_type", source), ("dst_type", target)):
                self.check_type(reader, line, column, entity_type)
            declared = (source, relation, target)
            _refuse_repeated(reader, seen, line, declared, f"relation {shown(relation)}")
            self.declared.add(declared)
            self.relations.add(relation)
            row = (*declared, inverse, description)
            stored += self.cursor.execute(_STORE_RELATION, row).rowcount
        added = len(self.declared) - known
        return len(seen), added, stored - added

    def check_type(self, reader: Reader, line: int, column: str, entity_type: str) -> None:
        """Refuse an entity type that is not registered, with near spellings."""
        if entity_type not in self.prefixes:
            raise UnknownNameInLine(
                str(reader.path),
                line,
                f"{column} is {shown(entity_type)}, but must be a registered entity type",
                _near(entity_type, self.prefixes, "entity types"),
            )

    def check_relation(self, reader: Reader, line: int, relation: str) -> None:
        """Refuse a relation that is declared for no types at all, with near spellings."""
        if relation not in self.relations:
            raise UnknownNameInLine(
                str(reader.path),
                line,
                f"relation is {shown(relation)}, but must be a declared relation",
                _near(relation, self.relations, "relations"),
            )

    def refuse_ends(self, reader: Reader, line: int, relation: str, ends: tuple[str, str]) -> None:
        """Refuse a relation that is not declared for the types of its ends."""
        allowed = sorted(
            f"{source} to {target}"
            for source, declared, target in self.declared
            if declared == relation
        )
        raise UnknownNameInLine(
            str(reader.path),
            line,
            f"relation {shown(relation)} is not declared from {ends[0]} to {ends[1]}",
            f"It is declared from {'; from '.join(allowed[:_MOST_NAMED])}."
            " Declare it for these types too, or turn the edge round.",
        )


def _refuse_repeated(
    reader: Reader, seen: dict[Any, int], line: int, entry: object, what: str
) -> None:
    if entry in seen:
        reader.refuse(line, f"{what} is already on line {seen[entry]}")
    seen[entry] = line


def _near(name: str, names: Iterable[str], what: str) -> str:
    known = sorted(names)
    near = near_spellings(name, known)
    if near:
        return f"Did you mean {' or '.join(quoted([word]) for word in near)}?"
    if not known:
        return f"No {what} are declared yet: load a file that declares some."
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    return f"The declared {what} are {quoted(known[:_MOST_NAMED])}{more}."
