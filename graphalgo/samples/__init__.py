"""Small graphs that ship with the package, to try things on and to check by eye."""

from __future__ import annotations

from typing import Any


def harbour_json() -> dict[str, Any]:
    """Read the harbour sample: the ships, operators, ports and registers of a small port.

    Returns
    -------
    dict
        The sample as it is written in ``harbour.json``; a new copy at each call.
        :func:`graphalgo.samples.harbour.graph_from_harbour` turns it into nodes,
        keys and edges.
    """
    import json  # noqa: PLC0415 - not every importer reads the sample
    from importlib.resources import files  # noqa: PLC0415

    text = files(__name__).joinpath("harbour.json").read_text(encoding="utf-8")
    sample: dict[str, Any] = json.loads(text)
    return sample
