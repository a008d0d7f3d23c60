"""The algorithms, pure: no I/O, no third-party import, no knowledge of PostgreSQL.

Each takes a store (see :mod:`graphalgo.engine.protocol`) as its first argument.
"""

from graphalgo.engine.join import iterated_join, iterated_join_trace
from graphalgo.engine.lookup import lookup
from graphalgo.engine.walk import walk

__all__ = ["iterated_join", "iterated_join_trace", "lookup", "walk"]
