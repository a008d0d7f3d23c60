"""Comparing versions of the package."""

from __future__ import annotations

import re

_VERSION = re.compile(
    r"(?P<release>\d+(?:\.\d+)*)"
    r"(?:(?P<stage>a|b|rc)(?P<number>\d+))?"
    r"(?:\.post(?P<post>\d+))?"
    r"(?:\.dev(?P<dev>\d+))?"
    r"(?:\+.*)?"
)
_FINAL = "z"


def sort_key(version: str) -> tuple[object, ...]:
    """Make a key that puts versions in their order.

    Parameters
    ----------
    version : str
        A version such as ``0.3.0``, ``1.0rc1`` or ``1.0.dev3``.

    Returns
    -------
    tuple
        Compares as the versions do; a version that cannot be read comes before all others.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return ((),)
    release = [int(part) for part in match["release"].split(".")]
    while release and release[-1] == 0:  # 1.0 and 1.0.0 are one version
        release.pop()
    # 1.0.dev1 comes before 1.0a1, and 1.0a1.dev1 before 1.0a1.
    unfinished = match["dev"] is not None
    stage = match["stage"] or ("" if unfinished and match["post"] is None else _FINAL)
    return (
        tuple(release),
        stage,
        int(match["number"] or 0),
        -1 if match["post"] is None else int(match["post"]),
        not unfinished,
        int(match["dev"] or 0),
    )


def is_newer(version: str, than: str) -> bool:
    """Tell whether one version comes after another.

    Parameters
    ----------
    version, than : str
        Two versions.

    Returns
    -------
    bool
        True if `version` is the later one.
    """
    return sort_key(version) > sort_key(than)
