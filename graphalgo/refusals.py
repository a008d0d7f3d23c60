"""Refusals on their way out of a PL/Python function, and JSON without the json module.

Runs inside a database backend, so it imports next to nothing.
"""

from __future__ import annotations

from _json import encode_basestring, make_encoder

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
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
    rest of a first call; its own encoder, which is in C, takes nothing.
    """
    return "".join(_encode(value, 0))


def _refuse_value(value: Any) -> Any:
    raise TypeError(f"{value!r} is no value of JSON")


# What json.dumps makes of its arguments: no check for cycles, nothing for other types,
# no indent, no spaces, no order, every key a text, NaN never.
_encode: Callable[[Any, int], Iterable[str]] = make_encoder(
    None, _refuse_value, encode_basestring, None, ":", ",", False, False, False
)


def _sqlstate(number: int) -> str:
    """Return the five characters that the server packs into a number, six bits each.

    Only errors that have a condition name carry them as text, too.
    """
    return "".join(chr(ord("0") + (number >> 6 * place & 63)) for place in range(5))
