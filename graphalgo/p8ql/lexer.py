"""The words, strings and commas of a query, one after the other.

A string stands in double or single quotes, the quote inside it doubled. A bare
word ends at white space, a comma, a quote, a parenthesis or a semicolon, so
that names such as `hand-4d` and `notes.en` need no quotes.
"""

from __future__ import annotations

from graphalgo.p8ql.errors import QuerySyntaxError

STRING, WORD, COMMA, OTHER, END = "string", "word", "comma", "other", "end"

# Quotes that word processors and keyboards write in the place of straight ones.
CURLY_QUOTES = "“”„‟‘’‚‛«»‹›`´″′＂＇"
_ENDS_WORD = frozenset(",;()\"'" + CURLY_QUOTES)


class Token:
    """A piece of a query.

    Attributes
    ----------
    kind : str
        `string`, `word`, `comma`, `other` (a character that has no place in the
        dialect) or `end`.
    value : str
        A string's contents; else what is written.
    position : int
        Of its first character, from 1.
    """

    __slots__ = ("kind", "position", "value")

    def __init__(self, kind: str, value: str, position: int) -> None:
        self.kind = kind
        self.value = value
        self.position = position

    @property
    def keyword(self) -> str:
        """The word in capitals; empty for what is no ASCII word."""
        return self.value.upper() if self.kind == WORD and self.value.isascii() else ""


class Lexer:
    """Reads tokens off a query.

    Parameters
    ----------
    text : str
        The query.
    start : int
        Where to begin, from 0.

    Notes
    -----
    Each character is looked at a constant number of times.
    """

    __slots__ = ("at", "text")

    def __init__(self, text: str, start: int = 0) -> None:
        self.text = text
        self.at = start

    def next(self) -> Token:
        """Return the next token; at the end, `end` for ever."""
        text, at = self.text, self.at
        length = len(text)
        while at < length and text[at].isspace():
            at += 1
        if at == length:
            self.at = at
            return Token(END, "", at + 1)
        first = text[at]
        if first in "\"'":
            return self._string(at, first)
        if first == ",":
            self.at = at + 1
            return Token(COMMA, ",", at + 1)
        if first in _ENDS_WORD:
            self.at = at + 1
            return Token(OTHER, first, at + 1)
        end = at + 1
        while end < length and text[end] not in _ENDS_WORD and not text[end].isspace():
            end += 1
        self.at = end
        return Token(WORD, text[at:end], at + 1)

    def _string(self, start: int, quote: str) -> Token:
        text = self.text
        end = text.find(quote, start + 1)
        while end >= 0 and text.startswith(quote, end + 1):
            end = text.find(quote, end + 2)
        if end < 0:
            raise QuerySyntaxError(
                f"the string that begins with {quote} is not closed",
                f"End it with {quote}; inside a string write the quote twice.",
                start + 1,
            )
        self.at = end + 1
        return Token(STRING, text[start + 1 : end].replace(quote * 2, quote), start + 1)


def is_word(text: str) -> bool:
    """Tell whether a text is read as one word."""
    return bool(text) and not any(one in _ENDS_WORD or one.isspace() for one in text)


def first_word(text: str) -> tuple[str, int, int]:
    """Return a query's first word in capitals, and where it begins and ends (from 0).

    It is made of letters, digits and underscores; empty where the query begins
    with something else. Only ASCII is put in capitals.
    """
    word = text.partition(" ")[0]
    if word.isascii() and word.isalpha():
        return word.upper(), 0, len(word)
    start, length = 0, len(text)
    while start < length and text[start].isspace():
        start += 1
    end = start
    while end < length and (text[end].isalnum() or text[end] == "_"):
        end += 1
    word = text[start:end]
    return (word.upper() if word.isascii() else word), start, end
