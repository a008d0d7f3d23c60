"""Checks of the arguments that the algorithms share, with the errors they raise.

A message names the argument as the SQL functions do (`p_budget`); the Python
functions' arguments have the same names without the `p_`.
"""

from __future__ import annotations

from math import isinf, isnan

from graphalgo.engine.errors import InvalidValue, UnknownName
from graphalgo.engine.trigram import real, similarity

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LINK_KINDS = ("edge", "shared_key", "similar", "judged")
DEFAULT_LINKS = ("edge", "shared_key", "similar")

MAX_ROUNDS = 5
MAX_DEPTH = 5
MAX_BUDGET = 100_000
MAX_DEGREE_CAP = 100_000
# Names of this similarity or more are near each other: the real nearest to 0.3.
NAME_SIMILARITY = 0.30000001192092896
# How much of what a caller wrote a message repeats.
SHOWN_LENGTH = 200
# The greatest value of the SQL functions' `int`.
MAX_INTEGER = 2_147_483_647


def whole_number(name: str, value: Any, low: int, high: int, example: int) -> int:
    """Return `value` if it is a whole number from `low` to `high`; else refuse it by name."""
    if value is None:
        raise InvalidValue(
            f"{name} is null, but must be {_range(low, high)}", _write(name, example)
        )
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidValue(
            f"{name} is {represented(value)}, but must be a whole number {_range(low, high)}",
            _write(name, example),
        )
    if not low <= value <= high:
        raise InvalidValue(
            f"{name} is {represented(value)}, but must be {_range(low, high, value > high)}",
            _write(name, example),
        )
    return value


def threshold(name: str, value: Any) -> float:
    """Return a similarity threshold as the double of a real; refuse what is outside (0, 1]."""
    if value is None:
        raise InvalidValue(f"{name} is null, but must be above 0 and at most 1", _write(name, 0.6))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidValue(
            f"{name} is {represented(value)}, but must be a number above 0 and at most 1",
            _write(name, 0.6),
        )
    rounded = _as_real(value)
    if not 0 < rounded <= 1:
        raise InvalidValue(
            f"{name} is {show_real(rounded)}, but must be above 0 and at most 1", _write(name, 0.6)
        )
    return rounded


def flag(name: str, value: Any) -> bool:
    """Return `value` if it is a boolean; else refuse it by name."""
    if not isinstance(value, bool):
        shown = represented(value)
        raise InvalidValue(f"{name} is {shown}, but must be true or false", _write(name, "false"))
    return value


def text(name: str, value: Any, hint: str) -> str:
    """Return `value` if it is a text; else refuse it by name."""
    if not isinstance(value, str):
        shown = represented(value)
        raise InvalidValue(f"{name} is {shown}, but must be a text", hint)
    return value


def link_kinds(value: Any) -> tuple[str, ...]:
    """Return the asked link kinds in the engine's order, each once; refuse any other."""
    hint = f"Write some of {', '.join(LINK_KINDS)}."
    asked = _texts("p_links", value, hint)
    if not asked:
        raise InvalidValue("p_links is empty, but must name at least one link kind", hint)
    for kind in asked:
        if kind not in LINK_KINDS:
            raise InvalidValue(f"p_links holds {shown(kind)}, which is not a link kind", hint)
    return tuple(kind for kind in LINK_KINDS if kind in asked)


def declared_type(value: Any, entity_types: Sequence[tuple[str, str]]) -> str:
    """Return `value` if it is a registered entity type; else refuse it with near spellings."""
    names = [name for name, _ in entity_types]
    name = text("p_target_type", value, _one_of("entity types", names))
    if name not in names:
        raise UnknownName(
            f"p_target_type is {shown(name)}, which is not a registered entity type",
            _near_hint(name, names, "entity types"),
        )
    return name


def declared_relation(name: str, value: Any, declared: Sequence[str]) -> str:
    """Return `value` if it is a declared relation; else refuse it with near spellings."""
    relation = text(name, value, _one_of("relations", declared))
    if relation not in declared:
        raise UnknownName(
            f"{name} {'holds' if name == 'p_relations' else 'is'} {shown(relation)}, "
            "which is not a declared relation",
            _near_hint(relation, declared, "relations"),
        )
    return relation


def declared_relations(value: Any, declared: Sequence[str]) -> list[str] | None:
    """Return the asked relations, each once, or None for all; refuse undeclared ones."""
    if value is None:
        return None
    asked = _texts("p_relations", value, _one_of("relations", declared))
    if not asked:
        raise InvalidValue(
            "p_relations is empty, but must name at least one relation",
            "Write null for every relation.",
        )
    return sorted({declared_relation("p_relations", relation, declared) for relation in asked})


def near_spellings(name: str, vocabulary: Sequence[str], limit: int = 3) -> list[str]:
    """Return the words of the vocabulary that are most like `name`, the nearest first."""
    lowered = name.lower()
    scored = []
    for word in vocabulary:
        score = similarity(lowered, word)
        if lowered and (word.lower().startswith(lowered) or lowered.startswith(word.lower())):
            score = max(score, 0.5)
        if score >= 0.3:
            scored.append((-score, word))
    return [word for _, word in sorted(scored)[:limit]]


def shown(written: str) -> str:
    """Return what a caller wrote in double quotes, cut where it is very long."""
    return f'"{written}"' if len(written) <= SHOWN_LENGTH else f'"{written[:SHOWN_LENGTH]}…"'


def represented(value: Any) -> str:
    """Return a value that is no text as Python writes it, cut where it is very long."""
    if value is None:
        return "null"
    try:
        written = repr(value)
    except ValueError:
        # Of a whole number with thousands of digits Python writes none.
        return f"a very large {type(value).__name__}"
    return written if len(written) <= SHOWN_LENGTH else f"{written[:SHOWN_LENGTH]}…"


def told(value: Any) -> str:
    """Return any value as a sentence tells it: a text in double quotes, others as Python does."""
    return shown(value) if isinstance(value, str) else represented(value)


def quoted(words: Sequence[str]) -> str:
    """Return the words in double quotes with commas between."""
    return ", ".join(f'"{word}"' for word in words)


def show_real(value: float) -> str:
    """Return the shortest decimal that reads back as the same real."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    for digits in range(1, 10):
        shown = f"{value:.{digits}g}"
        if _as_real(float(shown)) == value:
            return shown
    return repr(value)


def _as_real(value: float) -> float:
    """Return the double of the nearest real; what no real can hold stays what it is."""
    try:
        return real(value) if abs(value) < 1 else real(float(value))
    except InvalidValue:
        return 0.0 if abs(value) < 1 else float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _texts(name: str, value: Any, hint: str) -> list[str]:
    if value is None:
        raise InvalidValue(f"{name} is null, but must be a list", hint)
    if isinstance(value, str) or not isinstance(value, (list, tuple, set, frozenset)):
        raise InvalidValue(f"{name} is {represented(value)}, but must be a list", hint)
    return [text(f"an element of {name}", element, hint) for element in value]


def _range(low: int, high: int, above: bool = False) -> str:
    return f"at least {low}" if high == MAX_INTEGER and not above else f"from {low} to {high}"


def _write(name: str, example: object) -> str:
    return f"Write for example {name} => {example}."


def _one_of(what: str, names: Sequence[str]) -> str:
    if not names:
        return f"No {what} are declared yet."
    shown = quoted(names[:10])
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"The declared {what} are {shown}{more}."


def _near_hint(name: str, names: Sequence[str], what: str) -> str:
    near = near_spellings(name, names)
    if near:
        return f"Did you mean {' or '.join(quoted([word]) for word in near)}?"
    return _one_of(what, names)
