"""The engine's functions bound to a store, so that stores and the server look alike."""

from __future__ import annotations

from functools import partial
from typing import Any

from graphalgo import engine


class Bound:
    """The algorithms with their store given."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.iterated_join = partial(engine.iterated_join, store)
        self.iterated_join_trace = partial(engine.iterated_join_trace, store)
        self.walk = partial(engine.walk, store)
        self.lookup = partial(engine.lookup, store)
