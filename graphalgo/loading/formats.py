"""The columns of each kind of file, and what their values may be.

A column's parser takes what a CSV field (always text) or a JSON value holds and
gives what is stored, or raises :class:`BadValue` with what was expected.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from graphalgo.engine.folding import fold_key
from graphalgo.loading.errors import shown

MAX_NAME_BYTES = 200
MAX_REF_BYTES = 1000
MAX_KEY_BYTES = 2000
MAX_HANDLE_NUMBER = 2**63 - 1
MAX_TEXT_BYTES = 1_000_000

KEY_KINDS = ("canonical", "short", "alias")
VISIBILITIES = ("public", "org", "private")

_TRUE = {"true", "t", "yes", "y", "on", "1"}
_FALSE = {"false", "f", "no", "n", "off", "0"}
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")


class BadValue(ValueError):
    """A value that its column does not take; the text says what was expected."""

    def __init__(self, expected: str, hint: str | None = None) -> None:
        super().__init__(expected)
        self.expected = expected
        self.hint = hint


def _plain(value: Any, most: int) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadValue("a text")
    text = value if isinstance(value, str) else str(value)
    if text.isascii():
        if "\0" in text:
            raise BadValue("a text without the character NUL, which PostgreSQL cannot store")
        if len(text) > most:
            raise BadValue(f"at most {most} bytes")
        return text
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadValue("a text of whole characters, not half a surrogate pair") from None
    if "\0" in text:
        raise BadValue("a text without the character NUL, which PostgreSQL cannot store")
    if size > most:
        raise BadValue(f"at most {most} bytes")
    return text


def text(value: Any) -> str:
    """Take a text of at most a million bytes."""
    return _plain(value, MAX_TEXT_BYTES)


def name(value: Any) -> str:
    """Take the name of a type or relation, of at most 200 bytes, not folded."""
    taken = _plain(value, MAX_NAME_BYTES)
    if not taken.strip():
        raise BadValue("a name that is not blank")
    return taken


def ref(value: Any) -> str:
    """Take what a file calls one of its nodes, of at most 1000 bytes, as it stands."""
    return _plain(value, MAX_REF_BYTES)


def folded_kind(value: Any) -> str:
    """Take the kind that a soft node claims, folded like a key."""
    taken = fold_key(_plain(value, MAX_NAME_BYTES))
    if not taken or "/" in taken:
        raise BadValue("a kind that is not blank and has no / in it")
    return taken


def key(value: Any) -> str:
    """Take a key and fold it; between 1 and 2000 bytes must be left."""
    taken = fold_key(_plain(value, MAX_TEXT_BYTES))
    if not taken:
        raise BadValue("a key that is not blank")
    if len(taken.encode()) > MAX_KEY_BYTES:
        raise BadValue(f"a key of at most {MAX_KEY_BYTES} bytes")
    return taken


def soft_name(value: Any) -> str:
    """Take the name of a soft node as it is written; folded, it must do for a key."""
    key(value)
    return _plain(value, MAX_TEXT_BYTES)


def key_kind(value: Any) -> str:
    """Take the kind of a key."""
    if value not in KEY_KINDS:
        raise BadValue("canonical, short or alias")
    return str(value)


def visibility(value: Any) -> str:
    """Take the visibility of a row."""
    if value not in VISIBILITIES:
        raise BadValue("public, org or private")
    return str(value)


def boolean(value: Any) -> bool:
    """Take a boolean of JSON, or a word for one."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise BadValue("true or false")


def weight(value: Any) -> float:
    """Take a weight, above 0 and at most 1, that a `real` can hold."""
    expected = "a weight above 0 and at most 1"
    try:
        # Python's float() takes more than numbers are written with elsewhere: 1_0, ０.５.
        if isinstance(value, bool) or (
            isinstance(value, str) and ("_" in value or not value.isascii())
        ):
            raise BadValue(expected)
        number = float(value)
        # What a real rounds to nothing is no weight either.
        if not 0 < number <= 1 or struct.unpack("f", struct.pack("f", number))[0] <= 0:
            raise BadValue(expected)
    except (TypeError, ValueError, OverflowError):
        raise BadValue(expected) from None
    return number


def moment(value: Any) -> datetime:
    """Take a date or a date and time of ISO 8601; without an offset it is in UTC."""
    expected = "a date such as 2024-01-31 or a time such as 2024-01-31T12:00:00+00:00"
    if not isinstance(value, str) or not _DATE.fullmatch(value.strip()):
        raise BadValue(expected)
    try:
        taken = datetime.fromisoformat(value.strip())
        if taken.tzinfo is None:
            taken = taken.replace(tzinfo=UTC)
        return taken.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadValue(expected) from None


def handle_number(value: Any) -> int:
    """Take the number of a handle: whole, from 0, of at most 63 bits."""
    expected = f"a whole number from 0 to {MAX_HANDLE_NUMBER}"
    written = str(value).strip()
    if isinstance(value, bool) or not (written.isascii() and written.isdigit()):
        raise BadValue(expected)
    if len(written) > len(str(MAX_HANDLE_NUMBER)) or int(written) > MAX_HANDLE_NUMBER:
        raise BadValue(expected)
    return int(written)


def handle_prefix(value: Any) -> str:
    """Take the prefix of a type's handles."""
    taken = _plain(value, MAX_NAME_BYTES)
    if not _PREFIX.fullmatch(taken) or taken.lower() == "soft":
        raise BadValue('a letter, then letters, digits and _, and not "soft"')
    return taken


def uuid(value: Any) -> UUID:
    """Take a UUID."""
    if not isinstance(value, str) or not _UUID.fullmatch(value.strip()):
        raise BadValue("a UUID such as d0000000-0000-0000-0000-00000000000a")
    return UUID(value.strip())


Parser = Callable[[Any], Any]


class Format:
    """The columns of one kind of file.

    Parameters
    ----------
    kind : str
        What the file holds, such as ``nodes``.
    columns : mapping
        Each column's parser, in the order in which rows are given.
    required : tuple of str
        The columns that each row must have a value for.
    """

    __slots__ = ("columns", "kind", "names", "required")

    def __init__(self, kind: str, columns: Mapping[str, Parser], required: tuple[str, ...]) -> None:
        self.kind = kind
        self.columns = dict(columns)
        self.names = tuple(columns)
        self.required = required

    def described(self) -> str:
        """Name the columns, the required ones first."""
        optional = [column for column in self.names if column not in self.required]
        listed = f"The columns of a {self.kind} file are {', '.join(self.required)}"
        return f"{listed}; and, where wanted, {', '.join(optional)}." if optional else f"{listed}."

    def parse(self, column: str, value: Any) -> Any:
        """Give what is stored for a value of a column.

        Raises
        ------
        BadValue
            With the value, the column and what was expected.
        """
        try:
            return self.columns[column](value)
        except BadValue as bad:
            raise BadValue(
                f"{column} is {shown(value)}, but must be {bad.expected}", bad.hint
            ) from None


_SCOPE: dict[str, Parser] = {"org_id": uuid, "visibility": visibility, "owner_id": uuid}

TYPES = Format(
    "types",
    {"name": name, "handle_prefix": handle_prefix, "description": text, "indexed": boolean},
    ("name", "handle_prefix"),
)
RELATIONS = Format(
    "relations",
    {
        "src_type": name,
        "relation": name,
        "dst_type": name,
        "inverse_label": text,
        "description": text,
    },
    ("src_type", "relation", "dst_type"),
)
NODES = Format(
    "nodes",
    {
        "ref": ref,
        "entity_type": name,
        "claimed_kind": folded_kind,
        "name": soft_name,
        "summary": text,
        "handle_number": handle_number,
        **_SCOPE,
    },
    ("ref",),
)
KEYS = Format(
    "keys",
    {"ref": ref, "key": key, "kind": key_kind, "is_name": boolean},
    ("ref", "key"),
)
EDGES = Format(
    "edges",
    {
        "src": ref,
        "relation": name,
        "dst": ref,
        "weight": weight,
        "valid_from": moment,
        "valid_to": moment,
        "memory": ref,
        **_SCOPE,
    },
    ("src", "relation", "dst", "weight"),
)
