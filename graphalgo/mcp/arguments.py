"""The arguments of the tools: their JSON schemas, and refusals that say what to write.

An argument is described once; from that come the schema that an agent reads and
the check that its call meets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from graphalgo.engine.errors import GraphAlgoError, InvalidValue

_SHOWN = 200

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a tool.

    Attributes
    ----------
    name, about : str
        What it is called and what it means.
    required : bool
        Whether a call must give it.
    default : Any
        What holds where it is left out.
    example : Any
        What a refusal shows.
    """

    name: str
    about: str
    required: bool = False
    default: Any = None
    example: Any = None

    def schema(self) -> Schema:
        """Give its JSON schema."""
        schema = {**self._type(), "description": self.about}
        if self.default is not None:
            schema["default"] = self.default
        return schema

    def read(self, given: Any) -> Any:
        """Check a value and return it; refuse what it cannot be (22023)."""
        if given is None:
            if self.required:
                raise self._refusal(given)
            return self.default
        return self._read(given)

    def _type(self) -> Schema:
        raise NotImplementedError

    def _read(self, given: Any) -> Any:
        raise NotImplementedError

    def _must(self) -> str:
        raise NotImplementedError

    def _refusal(self, given: Any, must: str | None = None) -> InvalidValue:
        hint = f"Write for example {json.dumps({self.name: self.example}, ensure_ascii=False)}."
        if not self.required:
            hint = f"{hint[:-1]}, or leave it out."
        return InvalidValue(
            f"{self.name} is {shown(given)}, but must be {must or self._must()}", hint
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Argument):
    """A text; `longest` characters at most, one at least."""

    longest: int = 1000

    def _type(self) -> Schema:
        return {"type": "string", "minLength": 1, "maxLength": self.longest}

    def _must(self) -> str:
        return f"a text of 1 to {self.longest} characters"

    def _read(self, given: Any) -> str:
        if not isinstance(given, str):
            raise self._refusal(given)
        return self.checked(given)

    def checked(self, given: str) -> str:
        """Check a text; refuse one that is empty, too long, or cannot be stored."""
        if not given:
            raise self._refusal(given)
        if len(given) > self.longest:
            raise InvalidValue(
                f"{self.name} has {len(given)} characters, but may have {self.longest}",
                "Write less.",
            )
        if "\x00" in given:
            raise InvalidValue(
                f"{self.name} holds a NUL character, which no text in the database has",
                "Leave it out.",
            )
        try:
            given.encode()
        except UnicodeEncodeError:
            raise InvalidValue(
                f"{self.name} holds half of a surrogate pair, which is no character",
                "Write it in UTF-8.",
            ) from None
        return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Argument):
    """One of some words."""

    words: tuple[str, ...]

    def _type(self) -> Schema:
        return {"type": "string", "enum": list(self.words)}

    def _must(self) -> str:
        return f"{', '.join(self.words[:-1])} or {self.words[-1]}"

    def _read(self, given: Any) -> str:
        if not isinstance(given, str) or given not in self.words:
            raise self._refusal(given)
        return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag(Argument):
    """True or false."""

    def _type(self) -> Schema:
        return {"type": "boolean"}

    def _must(self) -> str:
        return "true or false"

    def _read(self, given: Any) -> bool:
        if not isinstance(given, bool):
            raise self._refusal(given)
        return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Argument):
    """A whole number from `least` to `most`."""

    least: int
    most: int

    def _type(self) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def _must(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def _read(self, given: Any) -> int:
        if isinstance(given, float) and given.is_integer():
            given = int(given)
        if isinstance(given, bool) or not isinstance(given, int):
            raise self._refusal(given)
        if not self.least <= given <= self.most:
            raise self._refusal(given)
        return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Similarity(Argument):
    """A number above 0 and at most 1."""

    def _type(self) -> Schema:
        return {"type": "number", "exclusiveMinimum": 0, "maximum": 1}

    def _must(self) -> str:
        return "a number above 0 and at most 1"

    def _read(self, given: Any) -> float:
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given <= 1:
            raise self._refusal(given)
        return float(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment(Argument):
    """A moment, as ISO 8601 writes it; without an offset it is in UTC."""

    def _type(self) -> Schema:
        return {"type": "string", "minLength": 1, "maxLength": 40}

    def _must(self) -> str:
        return "a date or a moment as ISO 8601 writes it"

    def _read(self, given: Any) -> datetime:
        try:
            moment = datetime.fromisoformat(given)
        except (TypeError, ValueError):
            raise self._refusal(given) from None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts(Argument):
    """A list of texts; `most` at most, one at least."""

    most: int = 100
    longest: int = 1000
    words: tuple[str, ...] | None = None

    def _type(self) -> Schema:
        each: Schema = {"type": "string", "minLength": 1, "maxLength": self.longest}
        if self.words is not None:
            each = {"type": "string", "enum": list(self.words)}
        return {"type": "array", "items": each, "minItems": 1, "maxItems": self.most}

    def _must(self) -> str:
        return f"a list of 1 to {self.most} texts"

    def _read(self, given: Any) -> list[str]:
        if not isinstance(given, list) or not 1 <= len(given) <= self.most:
            raise self._refusal(given)
        one: Argument = Text(
            name=f"each of {self.name}", about="", required=True, longest=self.longest,
            example=self.example[0],
        )  # fmt: skip
        if self.words is not None:
            one = Choice(
                name=f"each of {self.name}", about="", required=True, words=self.words,
                example=self.example[0],
            )  # fmt: skip
        return [one.read(each) for each in given]


def input_schema(arguments: Iterable[Argument]) -> Schema:
    """Give the JSON schema of a tool's arguments."""
    arguments = list(arguments)
    return {
        "type": "object",
        "properties": {each.name: each.schema() for each in arguments},
        "required": [each.name for each in arguments if each.required],
        "additionalProperties": False,
    }


def read_arguments(
    tool: str, arguments: Iterable[Argument], given: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Check a call's arguments.

    Parameters
    ----------
    tool : str
        The tool's name, for refusals.
    arguments : iterable of Argument
        What the tool takes.
    given : mapping or None
        What the call gives.

    Returns
    -------
    dict
        A value for each argument.

    Raises
    ------
    InvalidValue
        A value cannot be what its argument takes, or no argument has that name (22023).
    """
    known = {each.name: each for each in arguments}
    given = {} if given is None else given
    for name in given:
        if name not in known:
            near = get_close_matches(name[:_SHOWN], known, n=1)
            hint = f"Write {near[0]}." if near else f"It takes {', '.join(known)}."
            raise InvalidValue(f"{tool} takes no argument {shown(name)}", hint)
    return {name: each.read(given.get(name)) for name, each in known.items()}


def shown(value: Any) -> str:
    """Write a value as a caller would, cut where it is long."""
    try:
        written = json.dumps(value, ensure_ascii=False)
        written.encode()
    except (TypeError, ValueError):
        written = json.dumps(value, default=str)
    return written if len(written) <= _SHOWN else f"{written[:_SHOWN]}…"


def told(error: GraphAlgoError) -> str:
    """Write a refusal for an agent: the sentence, what to write instead, the SQLSTATE."""
    lines = [error.message]
    if error.hint:
        lines.append(f"HINT: {error.hint}")
    return "\n".join([*lines, f"SQLSTATE: {error.sqlstate}"])
