"""From a query to its plan.

A recursion-free reader of one mode, its strings and its modifiers. What it does
not understand it refuses with a sentence that says what to write instead, and
the place; it raises nothing else.
"""

from __future__ import annotations

from graphalgo.engine.arguments import represented, shown
from graphalgo.p8ql import plan as plans
from graphalgo.p8ql.errors import QuerySyntaxError, QueryValueError
from graphalgo.p8ql.lexer import COMMA, CURLY_QUOTES, END, STRING, WORD, Lexer, first_word

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from graphalgo.p8ql.lexer import Token
    from graphalgo.p8ql.plan import Plan

# Characters. A longer query is refused unread.
LONGEST_QUERY = 100_000

MODES = ("LOOKUP", "GRAPH", "TEXT", "SEMANTIC", "SEARCH", "SCHEMA")
SQL_OPENERS = ("SELECT", "WITH", "TABLE", "VALUES", "EXPLAIN")
FACETS = ("p8ql", "graph", "sql")
# Each modifier, and the modes in which it means something.
MODIFIERS = {
    "DEPTH": ("GRAPH",),
    "TYPE": ("GRAPH",),
    "FROM": ("TEXT", "SEMANTIC", "SEARCH", "SCHEMA"),
    "USING": ("SEMANTIC", "SEARCH"),
    "LIMIT": ("LOOKUP", "GRAPH", "TEXT", "SEMANTIC", "SEARCH"),
    "FUZZY": (),
}
FORMS = {
    "LOOKUP": '[FUZZY] LOOKUP "key" [, "key" …] [LIMIT n]',
    "GRAPH": 'GRAPH "key" [DEPTH n] [TYPE relation] [LIMIT n]',
    "TEXT": 'TEXT "words" FROM source [LIMIT n]',
    "SEMANTIC": 'SEMANTIC "words" FROM source [USING model] [LIMIT n]',
    "SEARCH": 'SEARCH "words" FROM source [USING model] [LIMIT n]',
    "SCHEMA": 'SCHEMA ["facet"] [FROM relation]',
    "SQL": "SELECT …, WITH …, TABLE …, VALUES … or EXPLAIN …",
}
_EXAMPLES = {
    "DEPTH": "DEPTH 2",
    "TYPE": "TYPE operated_by",
    "FROM": "FROM notes",
    "USING": "USING model",
    "LIMIT": "LIMIT 10",
}
# Words of other languages for what a mode does.
_MEANT = {
    "FIND": "LOOKUP", "GET": "LOOKUP", "RESOLVE": "LOOKUP", "NODE": "LOOKUP",
    "WALK": "GRAPH", "TRAVERSE": "GRAPH", "MATCH": "GRAPH", "NEIGHBOURS": "GRAPH",
    "NEIGHBORS": "GRAPH", "PATH": "GRAPH", "FULLTEXT": "TEXT", "GREP": "TEXT",
    "VECTOR": "SEMANTIC", "SIMILAR": "SEMANTIC", "EMBEDDING": "SEMANTIC",
    "DESCRIBE": "SCHEMA", "SHOW": "SCHEMA", "HELP": "SCHEMA",
}  # fmt: skip
# What others call a mode, and what is none: the message and the hint.
_NO_MODES = {
    "HYBRID": ("HYBRID is not a mode, but SEARCH is,", f"Write SEARCH: {FORMS['SEARCH']}."),
    "SQL": (
        "SQL is not a mode: a statement stands for itself",
        "Leave the word out and begin with SELECT, WITH, TABLE, VALUES or EXPLAIN.",
    ),
}
_SEARCHES: dict[str, Callable[..., Plan]] = {
    "TEXT": plans.TextPlan,
    "SEMANTIC": plans.SemanticPlan,
    "SEARCH": plans.SearchPlan,
}
_PARTS = {"FROM": "source", "USING": "model", "LIMIT": "limit"}
_WRITES = frozenset(
    (
        "INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "ALTER", "DROP", "TRUNCATE", "COPY",
        "DO", "CALL", "SET", "GRANT", "REVOKE", "BEGIN", "COMMIT", "ROLLBACK",
    )
)  # fmt: skip


def parse(text: str) -> Plan:
    """Return the plan of a query.

    Parameters
    ----------
    text : str
        Any text. A keyword may stand in any case, a string in double or single
        quotes. A statement of SQL is kept as it is written, without white space and
        semicolons at its ends; comments belong to SQL alone.

    Returns
    -------
    Plan
        With defaults filled in, but for the model, which the store knows.

    Raises
    ------
    QuerySyntaxError
        It does not parse (42601); with the position, in characters from 1.
    QueryValueError
        It does, but a number is out of its range, the facet is unknown, or it is
        longer than 100,000 characters (22023).
    InvalidValue
        It is no text (22023).

    Notes
    -----
    Costs time in proportion to the length of the text, and none for more than the
    longest query.
    """
    if not isinstance(text, str):
        raise QueryValueError(
            f"the query is {represented(text)}, but must be a text", "Write for example SCHEMA.", 1
        )
    if len(text) > LONGEST_QUERY:
        raise QueryValueError(
            f"the query has {len(text)} characters, but may have {LONGEST_QUERY}: it is too long",
            "Ask for less at a time; aiq.lookup takes an array of keys of any length.",
            LONGEST_QUERY + 1,
        )
    word, start, end = first_word(text)
    if word == "LOOKUP" and text.startswith(' "', end) and text.find('"', end + 2) == len(text) - 1:
        # What is asked most, one key in double quotes and no more, needs no reader.
        return plans.LookupPlan([text[end + 2 : -1]])
    if word in _SEARCHES and (plan := _plain_search(text, end, word)) is not None:
        return plan
    if word in SQL_OPENERS:
        return plans.SqlPlan(_statement(text))
    if word == "FUZZY":
        return _fuzzy(text, end)
    if word in MODES:
        return _Reader(text, end, word).plan()
    raise _no_mode(text, word, start)


def plan_of(text: str) -> dict[str, Any]:
    """Return the plan of a query as JSON has it; raises what :func:`parse` does."""
    return parse(text).as_dict()


def _plain_search(text: str, end: int, mode: str) -> Plan | None:
    """Return the plan of a search as most are written, or None where it takes a reader.

    Words in double quotes, then modifiers and bare names or numbers apart by white space.
    """
    close = text.find('"', end + 2)
    if close < 0 or not text.startswith(' "', end):
        return None
    rest = text[close + 1 :]
    parts = rest.split()
    if not rest.isascii() or rest[:1] != " " or len(parts) % 2:
        return None
    given: dict[str, Any] = {}
    for name, value in zip(map(str.upper, parts[::2]), parts[1::2], strict=True):
        part = _PARTS.get(name)
        if part is None or part in given or mode not in MODIFIERS[name]:
            return None
        if name == "LIMIT":
            if not value.isdigit() or len(value) > 9 or not int(value):
                return None
            given[part] = int(value)
        elif value.isidentifier() and value.upper() not in MODIFIERS:
            given[part] = value
        else:
            return None
    return _SEARCHES[mode](text[end + 2 : close], **given) if "source" in given else None


def _statement(text: str) -> str:
    """Return a statement without what may stand at its ends."""
    end = len(text)
    while text[end - 1] == ";" or text[end - 1].isspace():
        end -= 1
    return text[:end].lstrip()


def _fuzzy(text: str, end: int) -> Plan:
    token = Lexer(text, end).next()
    if token.keyword == "LOOKUP":
        return _Reader(text, token.position + len("LOOKUP") - 1, "LOOKUP", fuzzy=True).plan()
    raise QuerySyntaxError(
        f"FUZZY stands before {_written(token)}, but belongs before LOOKUP",
        'Write FUZZY LOOKUP "key".',
        token.position,
    )


class _Reader:
    """Reads what follows the mode: strings, then modifiers in any order."""

    def __init__(self, text: str, start: int, mode: str, fuzzy: bool = False) -> None:
        self.lexer = Lexer(text, start)
        self.mode = mode
        self.fuzzy = fuzzy
        self.token = self.lexer.next()
        self.given: dict[str, Any] = {}
        self.places: dict[str, int] = {}

    def advance(self) -> Token:
        token, self.token = self.token, self.lexer.next()
        return token

    def plan(self) -> Plan:
        """Return the plan of the whole text."""
        if self.mode == "LOOKUP":
            keys = self.keys()
            self.modifiers()
            return plans.LookupPlan(keys, self.fuzzy, **self.taken(limit="LIMIT"))
        if self.mode == "SCHEMA":
            return self.schema()
        words = self.string()
        self.modifiers()
        if self.mode == "GRAPH":
            return plans.GraphPlan(
                words, **self.taken(depth="DEPTH", relation="TYPE", limit="LIMIT")
            )
        if "FROM" not in self.given:
            raise QuerySyntaxError(
                f"{self.mode} needs FROM and the name of a source, which is missing",
                f'Write {FORMS[self.mode]}; SCHEMA "p8ql" lists the sources.',
                self.token.position,
            )
        if self.mode == "TEXT":
            return plans.TextPlan(words, **self.taken(source="FROM", limit="LIMIT"))
        kind = plans.SemanticPlan if self.mode == "SEMANTIC" else plans.SearchPlan
        return kind(words, **self.taken(source="FROM", model="USING", limit="LIMIT"))

    def taken(self, **names: str) -> dict[str, Any]:
        """Return the modifiers that are given, by the names of the plan's parts."""
        return {part: self.given[name] for part, name in names.items() if name in self.given}

    def schema(self) -> Plan:
        facet = None
        if self.token.kind == STRING or (
            self.token.kind == WORD and self.token.keyword not in MODIFIERS
        ):
            facet = self.facet()
        self.modifiers()
        source = self.given.get("FROM")
        if source is not None and facet not in (None, "sql"):
            raise QuerySyntaxError(
                f'FROM belongs to the facet "sql" and means nothing for "{facet}",',
                'Write SCHEMA "sql" FROM relation.',
                self.places["FROM"],
            )
        return plans.SchemaPlan("sql" if source is not None else facet, source)

    def facet(self) -> str:
        token = self.advance()
        facet = token.value.lower()
        if facet in FACETS:
            return facet
        meant = _nearest(facet, FACETS)
        raise QueryValueError(
            f"{shown(token.value)} is not a facet of SCHEMA",
            _did_you_mean(f'SCHEMA "{meant}"' if meant else None)
            + "The facets are p8ql, graph and sql; without one all are shown.",
            token.position,
        )

    def keys(self) -> list[str]:
        """Read the keys of LOOKUP; commas between them are optional."""
        keys = [self.string()]
        while True:
            if self.token.kind == COMMA:
                self.advance()
                keys.append(self.string())
            elif self.token.kind == STRING:
                keys.append(self.advance().value)
            else:
                return keys

    def string(self) -> str:
        """Read the string that the mode needs."""
        if self.token.kind == STRING:
            return self.advance().value
        what = {"LOOKUP": "a key", "GRAPH": "a key"}.get(self.mode, "words")
        example = "key" if what == "a key" else "words"
        if self.token.kind == WORD and self.token.keyword not in MODIFIERS:
            raise self.unquoted(what)
        if self.token.kind == WORD and self.token.keyword == "FUZZY":
            raise self.misplaced_fuzzy()
        self.refuse_odd(self.token)
        raise QuerySyntaxError(
            f"{self.mode} needs {what} in quotes, but {_found(self.token)}",
            f'Write {self.mode} "{example}"; the form is {FORMS[self.mode]}.',
            self.token.position,
        )

    def unquoted(self, what: str) -> QuerySyntaxError:
        """Return the refusal of words that stand where a string belongs."""
        start = self.token
        self.refuse_odd(start)
        words: list[str] = []
        while self.token.kind == WORD and self.token.keyword not in MODIFIERS and len(words) < 8:
            words.append(self.token.value)
            try:
                self.advance()
            except QuerySyntaxError:
                break
        written = " ".join(words)[:100]
        return QuerySyntaxError(
            f"{shown(start.value)} is not in quotes, but {what} of {self.mode} "
            f"{'stands' if what == 'a key' else 'stand'} in quotes",
            f'Write {self.mode} "{written}".',
            start.position,
        )

    def modifiers(self) -> None:
        """Read the modifiers up to the end of the text."""
        while self.token.kind != END:
            token = self.token
            name = token.keyword
            if name not in MODIFIERS:
                raise self.unexpected(token)
            if name == "FUZZY":
                raise self.misplaced_fuzzy()
            if self.mode not in MODIFIERS[name]:
                raise self.misplaced(token, name)
            if name in self.given:
                raise QuerySyntaxError(
                    f"{name} is given twice, first at character {self.places[name]} and again",
                    f"Write {name} once.",
                    token.position,
                )
            self.advance()
            self.places[name] = token.position
            if name == "LIMIT":
                self.given[name] = self.number(name, plans.GREATEST_LIMIT)
            elif name == "DEPTH":
                self.given[name] = self.number(name, plans.GREATEST_DEPTH)
            else:
                self.given[name] = self.name(name)

    def name(self, modifier: str) -> str:
        """Read a name, bare or in quotes."""
        token = self.token
        if token.kind == STRING and not token.value:
            raise QueryValueError(
                f"the name after {modifier} is empty",
                f"Write for example {_EXAMPLES[modifier]}.",
                token.position,
            )
        if token.kind not in (STRING, WORD):
            self.refuse_odd(token)
        if token.kind not in (STRING, WORD) or token.keyword in MODIFIERS:
            quotes = ""
            if token.keyword:
                quotes = f' If that is the name, put it in quotes: {modifier} "{token.value}".'
            raise QuerySyntaxError(
                f"{modifier} needs a name, but {_found(token)}",
                f"Write for example {_EXAMPLES[modifier]}.{quotes}",
                token.position,
            )
        self.refuse_odd(token)
        return self.advance().value

    def number(self, modifier: str, greatest: int) -> int:
        """Read a whole number from 1."""
        token = self.token
        digits = token.value.lstrip("+-") if token.kind == WORD else ""
        signs = len(token.value) - len(digits)
        if not (digits.isascii() and digits.isdigit() and signs <= 1):
            if token.kind != WORD:
                self.refuse_odd(token)
            raise QuerySyntaxError(
                f"{modifier} needs a whole number, but {_found(token)}",
                f"Write for example {_EXAMPLES[modifier]}.",
                token.position,
            )
        digits = digits.lstrip("0") or "0"
        number = int(digits) if len(digits) <= 10 else greatest + 1
        if token.value[0] == "-" or not 1 <= number <= greatest:
            raise QueryValueError(
                f"{modifier} is {token.value[:40]}, but must be from 1 to {greatest}",
                f"Write for example {_EXAMPLES[modifier]}.",
                token.position,
            )
        self.advance()
        return number

    def misplaced(self, token: Token, name: str) -> QuerySyntaxError:
        """Return the refusal of a modifier of other modes."""
        where = MODIFIERS[name]
        taken = [other for other, modes in MODIFIERS.items() if self.mode in modes]
        why = f"{self.mode} takes {_listed(taken)}."
        if self.mode == "TEXT" and name == "USING":
            why += " It needs no vectors, and so no model."
        return QuerySyntaxError(
            f"{name} belongs to {_listed(where)} and means nothing for {self.mode},",
            f"Leave {name} out. {why}",
            token.position,
        )

    def misplaced_fuzzy(self) -> QuerySyntaxError:
        if self.mode == "LOOKUP" and not self.fuzzy:
            return QuerySyntaxError(
                "FUZZY stands after LOOKUP, but goes before it",
                'Write FUZZY LOOKUP "key".',
                self.token.position,
            )
        if self.fuzzy:
            return QuerySyntaxError(
                "FUZZY is given twice", "Write FUZZY once.", self.token.position
            )
        return QuerySyntaxError(
            f"FUZZY belongs before LOOKUP and means nothing for {self.mode},",
            'Leave FUZZY out, or write FUZZY LOOKUP "key".',
            self.token.position,
        )

    def unexpected(self, token: Token) -> QuerySyntaxError:
        """Return the refusal of what is no modifier."""
        self.refuse_odd(token)
        form = f"The form is {FORMS[self.mode]}."
        if token.kind == STRING and self.mode == "LOOKUP":
            return QuerySyntaxError(
                f"the key {shown(token.value)} stands after a modifier",
                f"Write all keys first. {form}",
                token.position,
            )
        before = self.lexer.text[token.position - 2]
        if token.kind == WORD and before in "\"'":
            return QuerySyntaxError(
                f"{shown(token.value)} stands right behind a string",
                f"Inside a string that stands between {before} write {before} twice. {form}",
                token.position,
            )
        if token.kind in (STRING, COMMA):
            what = {"GRAPH": "one key", "SCHEMA": "one facet"}.get(self.mode, "one string of words")
            return QuerySyntaxError(
                f"{self.mode} takes {what}, but {_found(token)}", form, token.position
            )
        known = [name for name, modes in MODIFIERS.items() if self.mode in modes]
        meant = _nearest(token.keyword, known)
        return QuerySyntaxError(
            f"{shown(token.value)} is no modifier of {self.mode}",
            f"{_did_you_mean(meant)}{form}",
            token.position,
        )

    def refuse_odd(self, token: Token) -> None:
        """Refuse what has no place anywhere in the dialect."""
        if token.kind == WORD and token.value.startswith(("--", "/*")):
            raise QuerySyntaxError(
                f"{shown(token.value)} begins a comment, which has no place here,",
                "Leave it out: comments belong to SQL alone.",
                token.position,
            )
        if token.kind != "other":
            return
        if token.value == ";":
            raise QuerySyntaxError(
                "a semicolon has no place here",
                "Leave it out: a text holds one query.",
                token.position,
            )
        if token.value in CURLY_QUOTES:
            raise QuerySyntaxError(
                f"{token.value} is not a quote of the dialect",
                "Write straight quotes, \"like this\" or 'like this'.",
                token.position,
            )
        raise QuerySyntaxError(
            f"{token.value} has no place here",
            f"The form is {FORMS[self.mode]}.",
            token.position,
        )


def _no_mode(text: str, word: str, start: int) -> QuerySyntaxError:
    """Return the refusal of a text that begins with no mode."""
    modes = f"A query begins with {_listed((*MODES, 'FUZZY LOOKUP', *SQL_OPENERS), 'or')}."
    if start == len(text):
        message, hint = "the query is empty", f'{modes} Try SCHEMA "p8ql".'
    elif not word:
        message, hint = f"the query begins with {text[start]!r}", _no_word(text, start) + modes
    elif word in _NO_MODES:
        message, hint = _NO_MODES[word]
    else:
        message, hint = _other_word(shown(text[start : start + len(word)]), word, modes)
    return QuerySyntaxError(message, hint, start + 1)


def _no_word(text: str, start: int) -> str:
    """Return what to tell whoever begins with a sign instead of a word."""
    if text[start] in "\"'":
        return 'To look a key up write LOOKUP "key". '
    if text[start] in CURLY_QUOTES:
        return 'Write straight quotes, and a mode before them: LOOKUP "key". '
    if text.startswith(("--", "/*"), start):
        return "Comments belong inside SQL; leave it out here. "
    return ""


def _other_word(written: str, word: str, modes: str) -> tuple[str, str]:
    """Return the message and the hint for a first word that is no mode."""
    if word in _WRITES:
        openers = _listed(SQL_OPENERS, "or")
        return (
            f"{written} is not a mode, and nothing here writes",
            f"A statement of SQL begins with {openers}.",
        )
    if word in MODIFIERS:
        return (
            f"{word} is not a mode but a modifier",
            f"It belongs to {_listed(MODIFIERS[word])}. {modes}",
        )
    meant = _MEANT.get(word) or _nearest(word, (*MODES, "FUZZY LOOKUP", *SQL_OPENERS))
    if meant is None:
        return f"{written} is not a mode", modes
    form = f"The form is {FORMS[meant]}. " if meant in FORMS else ""
    return f"{written} is not a mode (did you mean {meant}?)", form + modes


def _nearest(word: str, vocabulary: Sequence[str]) -> str | None:
    from graphalgo.p8ql.spelling import nearest  # noqa: PLC0415 - only a refusal needs it

    return nearest(word, vocabulary)


def _did_you_mean(meant: str | None) -> str:
    return f"Did you mean {meant}? " if meant else ""


def _listed(words: tuple[str, ...] | list[str], last: str = "and") -> str:
    """Return the words with commas between, and another word before the last."""
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def _written(token: Token) -> str:
    return "nothing" if token.kind == END else shown(token.value)


def _found(token: Token) -> str:
    """Say what stands where something else was expected."""
    if token.kind == END:
        return "the query ends"
    if token.kind == COMMA:
        return "a comma stands there"
    kind = "the string " if token.kind == STRING else ""
    return f"{kind}{shown(token.value)} stands there"
