"""Graph algorithms that run inside PostgreSQL, each with a pure-Python twin.

The package is imported inside database backends, where every import counts:
nothing is loaded here. Import what you need from :mod:`graphalgo.engine` (the
algorithms) and :mod:`graphalgo.stores` (what they run on).
"""

__version__ = "0.3.2"
