"""What `aiq.sql_passthrough` does inside a backend: one statement, read only, as its caller.

The statement runs in a subtransaction that is read only and always rolled back, so
that nothing of it stays: no setting, notification, temporary table or large object.
What a rollback does not undo, session locks, is put right afterwards.

Runs inside a database backend, so it imports next to nothing.
"""

from __future__ import annotations

from graphalgo.refusals import json_text, server_refusal

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    # A row of pg_locks: both halves of the key, which of the two forms of key, the mode.
    Lock = tuple[int, int, int, str]

OPENERS = ("select", "with", "table", "values", "explain")
# Options of EXPLAIN that do not run it, and their values.
PLAIN_OPTIONS = {"costs", "format", "generic_plan", "settings", "summary", "verbose"} | {
    "text", "json", "xml", "yaml", "on", "off", "true", "false", "0", "1",
}  # fmt: skip
# Where rbac.pinned_claims finds them. SQL cannot write there.
CLAIMS = "graphalgo.claims"
PLAN = "graphalgo.run_statement"
# While a cursor of this name is open, rbac.caller_audiences asks for them.
GUARD = "aiq.sql_passthrough"
# What the server's lexer takes for white space; the last from PostgreSQL 16 on, and before
# that nowhere outside of strings, names and comments.
WHITE_SPACE = " \t\n\r\f\v"
# Characters. A longer statement is refused unread, as a longer query is; no word that
# matters here is as long as the other.
LONGEST_STATEMENT = 100_000
LONGEST_WORD = 64

_READ_CLAIMS = "select coalesce(current_setting('request.jwt.claims', true), '') as claims"
_QUIET = "select set_config('client_min_messages', 'error', true)"
_RUN = "select columns, rows, row_count, cut from aiq.run_statement($1, $2, $3)"
_LOCKS = """
select classid::bigint, objid::bigint, objsubid, mode
from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and granted
"""

# For what the server says without a hint.
HINTS = {
    "42P01": "Write the schema before every name, such as aiq.nodes_api.",
    "42P11": "Send one statement, and one that reads: without INTO.",
    "25006": "aiq.sql_passthrough runs what reads; writers are called by themselves.",
}


class _RolledBack(Exception):
    """Leaves a subtransaction of which nothing is to stay."""


class _LockLost(Exception):
    """A lock that the statement released could not be taken again."""


def sql_passthrough(
    plpy: Any, shared: dict[str, Any], statement: str | None, limit: int | None
) -> list[tuple[str | None, str | None, int | None, str | None, str | None]]:
    """Run one statement and read its first rows.

    Parameters
    ----------
    plpy : module
        The server's own module, as a PL/Python function body sees it.
    shared : dict
        The backend's global dictionary `GD`. The claims are pinned in it.
    statement : str
        Begins with one of `OPENERS`, after white space and comments; of at most
        `LONGEST_STATEMENT` characters.
    limit : int
        At least 1; the most rows to read.

    Returns
    -------
    list of tuple
        One: the columns and the rows as JSON, the number of rows, what cut them, and
        as JSON a refusal or what the server said, beside which there is nothing else.
    """
    refusal = _unfit(statement, limit)
    if refusal is None:
        try:
            answer = _run_and_tidy(plpy, shared, str(statement), limit)
        except plpy.SPIError as error:
            refusal = _told(error, statement)
        except _LockLost as lost:
            refusal = {
                "sqlstate": "55P03",
                "message": f"the statement released the session's advisory lock {lost}, and another"
                " session has it",
                "hint": "Leave the session's locks as they are.",
            }
        else:
            return [(answer["columns"], answer["rows"], answer["row_count"], answer["cut"], None)]
    return [(None, None, None, None, json_text(refusal))]


def cursor_columns(plpy: Any, cursor: str) -> list[tuple[str, int, int]]:
    """Return the name, type and type modifier of each column of an open cursor.

    Reading no row of it starts the statement but does not move the cursor.
    """
    rows = plpy.execute(f"fetch forward 0 from {plpy.quote_ident(cursor)}")
    return list(zip(rows.colnames(), rows.coltypes(), rows.coltypmods(), strict=True))


def opener(statement: str) -> str:
    """Return the first word of a statement, in lower case, after white space and comments.

    Comments end where the server's lexer lets them end; block comments nest. Linear in
    the text.
    """
    return _word(statement, 0)[0]


def analyzes(statement: str) -> bool:
    """Tell whether an EXPLAIN may run what it explains.

    Of its options only those are known to be harmless that are written plainly.
    """
    word, end = _word(statement, _word(statement, 0)[1])
    if word:
        return word in ("analyze", "analyse")
    if not statement.startswith("(", end):
        # What is not understood here may be to the server.
        return end < len(statement)
    options = statement[end + 1 : statement.find(")", end)].lower().replace(",", " ").split()
    return not set(options) <= PLAIN_OPTIONS


def _word(statement: str, place: int) -> tuple[str, int]:
    """Return the next word, in lower case, and where it ends."""
    start = end = _after_comments(statement, place)
    for letter in statement[start : start + LONGEST_WORD]:
        if not (letter.isalnum() or letter in "_$"):
            break
        end += 1
    return statement[start:end].lower(), end


def _after_comments(statement: str, place: int = 0) -> int:
    # One character ends a line here, so that none is looked for in vain again and again.
    lines = statement.replace("\r", "\n")
    while True:
        place = _after_white_space(statement, place)
        if statement.startswith("--", place):
            place = lines.find("\n", place)
            if place < 0:
                return len(statement)
        elif statement.startswith("/*", place):
            place = _after_block_comment(statement, place)
        else:
            return place


def _after_white_space(statement: str, place: int) -> int:
    size = 16
    while True:
        piece = statement[place : place + size]
        rest = piece.lstrip(WHITE_SPACE)
        place += len(piece) - len(rest)
        if rest or not piece:
            return place
        size *= 2


def _after_block_comment(statement: str, place: int) -> int:
    depth = 0
    opening = place
    while True:
        # Looked for again only when passed, or many closings would each look for one.
        if 0 <= opening < place:
            opening = statement.find("/*", place)
        closing = statement.find("*/", place)
        if closing < 0:
            return len(statement)
        if 0 <= opening < closing:
            depth += 1
            place = opening + 2
        else:
            depth -= 1
            place = closing + 2
            if depth == 0:
                return place


def _unfit(statement: str | None, limit: int | None) -> dict[str, str | None] | None:
    """Return why these arguments are refused, or nothing."""
    if statement is None:
        return {
            "sqlstate": "22023",
            "message": "p_statement is null, but must be a statement",
            "hint": "Write for example select * from aiq.nodes_api.",
        }
    if len(statement) > LONGEST_STATEMENT:
        return {
            "sqlstate": "22023",
            "message": f"p_statement has {len(statement)} characters, but may have"
            f" {LONGEST_STATEMENT}: it is too long",
            "hint": "Read from a table or a view instead of writing many values out.",
        }
    if limit is None or limit < 1:
        return {
            "sqlstate": "22023",
            "message": f"p_limit is {'null' if limit is None else limit}, but must be at least 1",
            "hint": "Write how many rows to read at most.",
        }
    word = opener(statement)
    if word == "explain" and analyzes(statement):
        return {
            "sqlstate": "42501",
            "message": "EXPLAIN may not run the statement here: it counts rows of everyone",
            "hint": "Leave ANALYZE out; the options COSTS, FORMAT, GENERIC_PLAN, SETTINGS, SUMMARY"
            " and VERBOSE are allowed.",
        }
    if word in OPENERS:
        return None
    found = f'"{word[:40]}"' if word else "something else"
    if _after_comments(statement) == len(statement):
        found = "no word at all"
    return {
        "sqlstate": "42601",
        "message": "a statement must begin with SELECT, WITH, TABLE, VALUES or EXPLAIN,"
        f" but this one begins with {found}",
        "hint": "Write one statement that reads; white space and comments may precede it.",
    }


def _run_and_tidy(plpy: Any, shared: dict[str, Any], statement: str, limit: int | None) -> Any:
    """Run the statement; leave the session's locks as they were, even after an error."""
    before = _locks(plpy)
    try:
        answer = _run(plpy, shared, statement, limit)
    except Exception:
        _tidy(plpy, before)
        raise
    _tidy(plpy, before)
    return answer


def _run(plpy: Any, shared: dict[str, Any], statement: str, limit: int | None) -> Any:
    """Run the statement under pinned claims, and undo whatever it has done."""
    # A statement that hands on another keeps the claims of whoever called the first.
    outermost = CLAIMS not in shared
    if PLAN not in shared:
        shared[PLAN] = plpy.prepare(_RUN, ["text", "int", "text"])
    try:
        if outermost:
            shared[CLAIMS] = plpy.execute(_READ_CLAIMS)[0]["claims"]
        with plpy.subtransaction():
            guard = GUARD if outermost else None
            answer = plpy.execute(shared[PLAN], [statement, limit, guard])[0]
            raise _RolledBack
    except _RolledBack:
        return answer
    finally:
        if outermost:
            shared.pop(CLAIMS, None)


def _told(error: Any, statement: str | None) -> dict[str, str | None]:
    """Return what the server said, and where in the statement."""
    refusal = server_refusal(error)
    query, position = error.spidata[3:5]
    if query == statement and position:
        where = f"At character {position} of the statement."
        refusal["detail"] = "\n".join(filter(None, (refusal["detail"], where)))
    if refusal["hint"] is None:
        refusal["hint"] = HINTS.get(str(refusal["sqlstate"]))
    return refusal


def _locks(plpy: Any) -> set[Lock]:
    """Return the advisory locks of this session."""
    return {
        (row["classid"], row["objid"], row["objsubid"], row["mode"]) for row in plpy.execute(_LOCKS)
    }


def _tidy(plpy: Any, before: set[Lock]) -> None:
    """Release the session locks that a statement took, and take those it released."""
    try:
        _restore_locks(plpy, before)
    except plpy.SPIError:
        # A cancellation may come just here. It is heeded, but after the locks.
        _restore_locks(plpy, before)
        raise


def _restore_locks(plpy: Any, before: set[Lock]) -> None:
    after = _locks(plpy)
    if after - before:
        _release(plpy, after - before, every=not before)
    lost = [lock for lock in before - after if not _call(plpy, "pg_try_advisory_lock", lock)]
    if lost:
        raise _LockLost(", ".join(f"({_key(lock)})" for lock in sorted(lost)))


def _release(plpy: Any, locks: Iterable[Lock], *, every: bool) -> None:
    if every:
        plpy.execute("select pg_advisory_unlock_all()")
        return
    try:
        with plpy.subtransaction():
            # Each is released until there is nothing to release, which is worth a warning.
            plpy.execute(_QUIET)
            for lock in locks:
                while _call(plpy, "pg_advisory_unlock", lock):
                    pass
            raise _RolledBack
    except _RolledBack:
        pass


def _call(plpy: Any, function: str, lock: Lock) -> bool:
    """Call a function on a lock's key, in the lock's mode."""
    suffix = "_shared" if lock[3] == "ShareLock" else ""
    type_name = "int" if lock[2] == 2 else "bigint"
    key = ", ".join(f"'{part}'::{type_name}" for part in _key(lock).split(", "))
    done: bool = plpy.execute(f"select {function}{suffix}({key}) as done")[0]["done"]
    return done


def _key(lock: Lock) -> str:
    """Return a lock's key as it is written: one number, or two."""
    high, low, form, _ = lock
    if form == 2:
        return ", ".join(str(half - (half >> 31 << 32)) for half in (high, low))
    key = high << 32 | low
    return str(key - (key >> 63 << 64))
