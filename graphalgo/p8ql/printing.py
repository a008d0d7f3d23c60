"""From a plan back to a query.

What the parser has accepted is never printed longer than it accepts: where the readable
form would be, the shortest one is printed.
"""

from __future__ import annotations

from graphalgo.p8ql.lexer import is_word
from graphalgo.p8ql.parser import LONGEST_QUERY, MODIFIERS

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence

    # A modifier's name, and its value: a number, or a name to be written bare or in quotes.
    Modifier = tuple[str, int | str]

QUOTES = ('"', "'")


def printed(opening: str, strings: Sequence[str], modifiers: Sequence[Modifier]) -> str:
    """Return a query.

    Parameters
    ----------
    opening : str
        The mode, with what stands before it.
    strings : sequence of str
        Keys or words.
    modifiers : sequence of tuple
        Those that are not what they are by default.

    Returns
    -------
    str
        The readable form if the parser takes one of that length, else the shortest.
    """
    readable = " ".join(
        [
            opening,
            *([", ".join(map(quote, strings))] if strings else []),
            *(f"{name} {_value(value)}" for name, value in modifiers),
        ]
    )
    if len(readable) <= LONGEST_QUERY:
        return readable
    return _shortest(opening, strings, modifiers)


def quote(text: str, mark: str | None = None) -> str:
    """Return a text as a string of the dialect, in that quote or in the one that is shorter."""
    if mark is None:
        mark = min(QUOTES, key=text.count)
    return mark + text.replace(mark, mark * 2) + mark


def _value(value: int | str) -> str:
    """Return a modifier's value, a name without quotes where the parser reads it so."""
    return str(value) if isinstance(value, int) or _is_bare(value) else quote(value)


def _is_bare(name: str) -> bool:
    if name.startswith(("--", "/*")) or (name.isascii() and name.upper() in MODIFIERS):
        return False
    return is_word(name)


def _shortest(opening: str, strings: Sequence[str], modifiers: Sequence[Modifier]) -> str:
    """Return the query without the spaces that the lexer does not need.

    It needs none beside quotes, so that what ends in a word stands last.
    """
    text = opening + _side_by_side(strings)
    values = [(name, _value(value)) for name, value in modifiers]
    for name, value in sorted(values, key=lambda one: one[1][0] not in QUOTES):
        needed = "" if text[-1] in QUOTES else " "
        text += needed + name + ("" if value[0] in QUOTES else " ") + value
    return text


def _side_by_side(strings: Sequence[str]) -> str:
    """Return strings in the quotes that make them shortest in all.

    Between two in the same quote stands a space, or they would be one. The best way to
    end in each quote comes from the best ways to end the string before: O(characters).
    """
    costs = [0, 0]
    # For each string and quote: the quote of the string before.
    chosen: list[tuple[int, int]] = []
    for place, text in enumerate(strings):
        before: list[int] = []
        sums = []
        for mark in (0, 1):
            ways = [costs[last] + (last == mark and place > 0) for last in (0, 1)]
            before.append(ways.index(min(ways)))
            sums.append(min(ways) + text.count(QUOTES[mark]))
        chosen.append((before[0], before[1]))
        costs = sums
    mark = costs.index(min(costs))
    written: list[str] = []
    for text, before_it in zip(reversed(strings), reversed(chosen), strict=True):
        if written and written[-1][0] == QUOTES[mark]:
            written.append(" ")
        written.append(quote(text, QUOTES[mark]))
        mark = before_it[mark]
    return "".join(reversed(written))
