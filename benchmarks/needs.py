"""Importing this says in one sentence what the benchmarks lack, before all else is imported."""

from importlib.util import find_spec

_MISSING = [
    name for name in ("matplotlib", "networkx", "numpy", "rapidfuzz") if find_spec(name) is None
]
if _MISSING:
    raise SystemExit(
        f"The benchmarks need {', '.join(_MISSING)}: run make bench, or pip install -e '.[bench]'."
    )
