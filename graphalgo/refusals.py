"""Refusals on their way out of a PL/Python function, and JSON without the json module.

Runs inside a database backend, so it imports next to nothing.
"""

from __future__ import annotations

from _json import encode_basestring

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any


def server_refusal(error: Any) -> dict[str, str | None]:
    """Return what the server said of an error, as `aiq.refuse` raises it again.

    Parameters
    ----------
    error : plpy.SPIError
        What a statement inside the server has raised.

    Returns
    -------
    dict
        Its `sqlstate`, `message`, `detail` and `hint`.
    """
    # What the server said: a number for its SQLSTATE, detail, hint and more.
    number, detail, hint, *_ = error.spidata
    return {
        "sqlstate": _sqlstate(number),
        "message": str(error),
        "detail": detail,
        "hint": hint,
    }


def json_text(value: Any) -> str:
    """Return a value of dicts, lists, texts, numbers, booleans and None as JSON text.

    The json module takes a fresh backend some 14 ms to import, longer than the
    rest of a first call; its own string encoder, which is in C, takes nothing.
    """
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(k)}:{json_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", False: "false", True: "true"}[value]
    return repr(value)


def _sqlstate(number: int) -> str:
    """Return the five characters that the server packs into a number, six bits each.

    Only errors that have a condition name carry them as text, too.
    """
    return "".join(chr(ord("0") + (number >> 6 * place & 63)) for place in range(5))
