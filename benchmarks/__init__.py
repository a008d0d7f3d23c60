"""Benchmarks of graphalgo: synthetic high-degree graphs, measurements, and the peers beside them.

Run with ``python -m benchmarks --help`` from the checkout.
"""

from importlib.util import find_spec

_MISSING = [
    name for name in ("matplotlib", "networkx", "numpy", "rapidfuzz") if not find_spec(name)
]
if _MISSING:
    raise SystemExit(
        f"The benchmarks need {', '.join(_MISSING)}: run make bench, or pip install -e '.[bench]'."
    )
