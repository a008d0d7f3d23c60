"""Text that is shown: made visible, measured and shortened."""

from __future__ import annotations

from unicodedata import category, combining, east_asian_width

ELLIPSIS = "…"

# Widths in em, of DejaVu Sans and Verdana, the widest of the common faces: what
# fits by these fits in any of them.
_NARROW = dict.fromkeys("ijlIftr.,:;|!'`()[]{}/\\ ", 0.41)
_WIDE = dict.fromkeys("mwMW@%—…", 1.0)
_ODD = {**_NARROW, **_WIDE}
_LOWER, _OTHER, _FULL = 0.62, 0.72, 1.05

# Line breaks, control characters, marks that turn the reading direction round,
# half surrogates, and what is not assigned.
_INVISIBLE = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}


def visible(text: str) -> str:
    """Replace what a terminal or a picture would obey rather than show by its escape.

    Parameters
    ----------
    text : str
        Anything that was stored as a key, a name or a summary.

    Returns
    -------
    str
        The same text with control characters and the like as ``\\n``, ``\\x1b`` or
        ``\\u202e``.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        letter.encode("unicode_escape").decode() if category(letter) in _INVISIBLE else letter
        for letter in text
    )


def width(text: str, size: float) -> float:
    """Estimate how wide a text is at most in a sans-serif face of a size, in the same unit."""
    return size * sum(map(_em, text))


def _em(letter: str) -> float:
    if letter in _ODD:
        return _ODD[letter]
    if letter.isascii():
        return _LOWER if letter.islower() or letter.isdigit() else _OTHER
    if combining(letter):
        return 0.0
    return _FULL if east_asian_width(letter) in "WF" or ord(letter) > 0xFFFF else _OTHER


def shortened(text: str, size: float, room: float) -> str:
    """Cut a text so that it fits into `room`, with an ellipsis where something is left out."""
    if width(text, size) <= room:
        return text
    left = room - width(ELLIPSIS, size)
    kept = []
    for letter in text:
        left -= size * _em(letter)
        if left < 0:
            break
        kept.append(letter)
    return "".join(kept).rstrip() + ELLIPSIS


def number(value: float) -> str:
    """Write a weight, score or similarity with three significant digits at most."""
    return f"{value:.3g}"
