"""Full text search as PostgreSQL does it, for the store in memory.

Texts become lexemes with positions, words become a query, and rows are ranked by
`ts_rank` to the last bit of a real. It answers as the server does for words,
numbers, words with hyphens, phrases, `or` and `-without`, in the configurations
`simple` and `english` and a UTF-8 locale. It differs where the server's parser sees more
than that: web and mail addresses, hosts, file names (`a.b`, `a/b`), tags and entities
are words with other characters between them here. `english` stems as the installed
`snowballstemmer` does; a server whose Snowball is another release may stem a rare
word otherwise.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, sqrt
from re import compile as compile_pattern
from typing import TYPE_CHECKING, NamedTuple

from graphalgo.engine.errors import MissingSetting, UnknownName
from graphalgo.engine.folding import fold_key
from graphalgo.engine.trigram import real

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

CONFIGURATIONS = ("english", "simple")

# What the server keeps of one text: the greatest position, and how many of one lexeme.
LAST_POSITION = 16_383
MOST_POSITIONS = 255
MOST_BYTES = 2_046

# All passages have the weight D.
WEIGHT = real(0.1)
# Phrases that are farther apart than this count as good as nothing.
FAR = 100
UNRELATED = real(1e-30)
NO_RANK = real(1e-20)
# The sum of 1 / i² over all i, as the rank has it.
BASEL = 1.64493406685

STOP_WORDS = frozenset(
    """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself
    she her hers herself it its itself they them their theirs themselves what which who whom
    this that these those am is are was were be been being have has had having do does did
    doing a an the and but if or because as until while of at by for with about against between
    into through during before after above below to from up down in out on off over under again
    further then once here there when where why how all any both each few more most other some
    such no nor not only own same so than too very s t can will just don should now
    """.split()  # noqa: SIM905 - a list of a hundred strings is no easier to read
)

_WORD = r"[^\W_]+"
_TOKEN = compile_pattern(
    rf"""
    (?P<number>[+-]?[0-9]+(?:\.[0-9]+)*(?:[eE][+-]?[0-9]+)?(?![^\W_]))
    |(?P<hyphenated>(?=[0-9]*[^\W\d_]){_WORD}(?:-(?=[0-9]*[^\W\d_]){_WORD})+)-?
    |(?P<word>{_WORD})
    """,
    flags=64,  # re.VERBOSE
)
# What stands between operands and has no meaning of its own.
_APART = "!&|()"
_ENDS = _APART + ':"'
_OR = compile_pattern(r"(?i:or)(?![-\w])(?=\s*\S)")


SNIPPET_WORDS = 30


class Token(NamedTuple):
    """A word or a number of a text, and where it stands in it."""

    text: str
    start: int
    end: int


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text as the server's parser finds them.

    A word with hyphens comes as a whole and then part by part.
    """
    for match in _TOKEN.finditer(text):
        yield Token(match[match.lastgroup or 0], match.start(), match.end(match.lastgroup or 0))
        if match.lastgroup == "hyphenated":
            start = match.start()
            for part in match["hyphenated"].split("-"):
                yield Token(part, start, start + len(part))
                start += len(part) + 1


def dictionary(configuration: str) -> Callable[[str], str | None]:
    """Return what makes a token a lexeme, or None of a stop word.

    Raises
    ------
    UnknownName
        The configuration is not one of those that are known here (42704).
    MissingSetting
        `english` needs the package snowballstemmer, which is not there (55000).
    """
    check_configuration(configuration)
    if configuration.endswith("simple"):
        return fold_key
    stem = _stemmer()

    def lexeme(token: str) -> str | None:
        folded = fold_key(token)
        if any(character in "0123456789" for character in folded):
            return folded
        return None if folded in STOP_WORDS else stem(folded)

    return lexeme


def check_configuration(name: str) -> None:
    """Refuse a configuration that is not known here (42704)."""
    if name.removeprefix("pg_catalog.") not in CONFIGURATIONS:
        raise UnknownName(
            f'text search configuration "{name}" is not known to the store in memory',
            "It knows english and simple; a server knows its own.",
        )


@lru_cache(maxsize=1)
def _stemmer() -> Callable[[str], str]:
    try:
        from snowballstemmer import stemmer  # noqa: PLC0415 - an extra of the package
    except ImportError as error:
        raise MissingSetting(
            "the configuration english needs the package snowballstemmer, which is not installed",
            "Install it with: pip install 'graphalgo[text]'; or use the configuration simple.",
        ) from error
    stem: Callable[[str], str] = stemmer("english").stemWord
    return stem


class Vector:
    """The lexemes of a text and their positions, in order.

    Parameters
    ----------
    text : str
    lexeme : callable
        What :func:`dictionary` gives.
    """

    __slots__ = ("positions",)

    def __init__(self, text: str, lexeme: Callable[[str], str | None]) -> None:
        self.positions: dict[str, list[int]] = {}
        for word, position in lexemes(text, lexeme):
            places = self.positions.setdefault(word, [])
            capped = min(position, LAST_POSITION)
            if len(places) < MOST_POSITIONS and (not places or places[-1] != capped):
                places.append(capped)


def lexemes(text: str, lexeme: Callable[[str], str | None]) -> Iterator[tuple[str, int]]:
    """Yield the lexemes of a text and their positions from 1; stop words leave a gap."""
    position = 0
    for token in tokens(text):
        if len(token.text.encode()) > MOST_BYTES:
            continue
        position += 1
        word = lexeme(token.text)
        if word is not None:
            yield word, position


class Phrase(NamedTuple):
    """Lexemes at positions relative to each other, or one alone; perhaps negated."""

    words: list[tuple[str, int]]
    negations: int

    def found_in(self, vector: Vector) -> bool:
        """Say whether a text holds it, or, negated an odd number of times, does not."""
        return self._stands_in(vector) != bool(self.negations % 2)

    def _stands_in(self, vector: Vector) -> bool:
        first, start = self.words[0]
        return any(
            all(
                place + position - start in vector.positions.get(word, ())
                for word, position in self.words
            )
            for place in vector.positions.get(first, ())
        )


class Query:
    """A web search: alternatives, each of phrases that must all be found.

    Parameters
    ----------
    words : str
        Words that must all be there; `or` between alternatives, a phrase in double
        quotes, `-` before what must not be there.
    lexeme : callable
        What :func:`dictionary` gives.
    """

    def __init__(self, words: str, lexeme: Callable[[str], str | None]) -> None:
        self.alternatives: list[list[Phrase]] = []
        for alternative in _alternatives(words):
            phrases = [
                Phrase(found, negations)
                for text, negations in alternative
                if (found := list(lexemes(text, lexeme)))
            ]
            if phrases:
                self.alternatives.append(phrases)
        phrases = [phrase for alternative in self.alternatives for phrase in alternative]
        self._words = sorted(
            {word for phrase in phrases for word, _ in phrase.words}, key=str.encode
        )
        # Whether the query as a whole is a conjunction or a phrase.
        self._joined = len(self.alternatives) == 1 and (
            len(phrases) > 1 or (not phrases[0].negations and len(phrases[0].words) > 1)
        )

    def matches(self, vector: Vector) -> bool:
        """Say whether a text is found."""
        return any(
            all(phrase.found_in(vector) for phrase in alternative)
            for alternative in self.alternatives
        )

    def rank(self, vector: Vector) -> float:
        """Return `ts_rank` of a text that is found, as the double of its real."""
        if not vector.positions:
            return 0.0
        positions = [vector.positions.get(word) for word in self._words]
        if self._joined and len(positions) > 1:
            return _rank_together(positions)
        return _rank_apart(positions)

    def spoken(self) -> frozenset[str]:
        """Return the lexemes that a snippet marks."""
        return frozenset(
            word
            for alternative in self.alternatives
            for phrase in alternative
            if not phrase.negations % 2
            for word, _ in phrase.words
        )


def _alternatives(words: str) -> list[list[tuple[str, int]]]:
    """Return what stands between the `or`s: texts, each with the number of `-` before it.

    An `or` joins two operands only after one and before something; what is only
    punctuation is an operand without words. A quote that is not closed goes to the end.
    """
    alternatives: list[list[tuple[str, int]]] = [[]]
    negations, after_operand, at = 0, False, 0
    while at < len(words):
        character = words[at]
        if character.isspace():
            at += 1
        elif character == '"':
            end = words.find('"', at + 1)
            end = len(words) if end < 0 else end
            alternatives[-1].append((words[at + 1 : end], negations))
            negations, after_operand, at = 0, True, end + 1
        elif after_operand and (match := _OR.match(words, at)):
            alternatives.append([])
            after_operand, at = False, match.end()
        elif character == "-":
            negations, after_operand, at = negations + 1, False, at + 1
        elif character in _APART:
            at += 1
        else:
            # What begins with a colon goes on behind it.
            end = at + 1
            while end < len(words) and words[end] not in _ENDS and not words[end].isspace():
                end += 1
            alternatives[-1].append((words[at:end], negations))
            negations, after_operand, at = 0, True, end
    return alternatives


def _rank_apart(positions: Sequence[list[int] | None]) -> float:
    """Rank by how often each word is there, later occurrences counting less."""
    rank = 0.0
    for places in positions:
        if places is None:
            continue
        falling = 0.0
        for number in range(1, len(places) + 1):
            falling = real(falling + real(WEIGHT / (number * number)))
        # All weights are the same, so the first is the greatest.
        rank = real(rank + real(real(WEIGHT + falling) - WEIGHT) / BASEL)
    return real(rank / len(positions))


def _rank_together(positions: Sequence[list[int] | None]) -> float:
    """Rank by how near to each other the words stand, every pair of places counting."""
    rank = -1.0
    for index, places in enumerate(positions):
        for others in positions[:index]:
            for place in places or ():
                for other in others or ():
                    apart = abs(place - other)
                    if not apart:
                        continue
                    near = real(sqrt(real(real(WEIGHT * WEIGHT) * _closeness(apart))))
                    rank = near if rank < 0 else real(1.0 - (1.0 - rank) * (1.0 - near))
    return NO_RANK if rank < 0 else rank


@lru_cache(maxsize=FAR + 1)
def _closeness(apart: int) -> float:
    if apart > FAR:
        return UNRELATED
    return real(1.0 / (1.005 + 0.05 * exp(apart / 1.5 - 2)))


def snippet(text: str, query: Query, lexeme: Callable[[str], str | None]) -> str:
    """Return the text around the first word that is searched, the words between « and ».

    At most thirty words; the server chooses its fragments by other rules.
    """
    spoken = query.spoken()
    found = [token for token in tokens(text) if "-" not in token.text[1:]]
    hits = [number for number, token in enumerate(found) if lexeme(token.text) in spoken]
    first = max(0, hits[0] - 10) if hits and len(found) > SNIPPET_WORDS else 0
    shown = found[first : first + SNIPPET_WORDS]
    if not shown:
        return text
    last = len(text) if first + SNIPPET_WORDS >= len(found) else shown[-1].end
    parts, at = [], 0 if first == 0 else shown[0].start
    for token in shown:
        if lexeme(token.text) in spoken:
            parts.append(f"{text[at : token.start]}«{text[token.start : token.end]}»")
            at = token.end
    return "".join(parts) + text[at:last]
