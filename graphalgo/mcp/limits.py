"""How often a user may ask."""

from __future__ import annotations

import time
from collections import OrderedDict

# The share of a minute's requests that may come at once.
_BURST = 6


class Rate:
    """So many requests a minute of each user, a part of them at once.

    A bucket of tokens for each user, which fills steadily. A user who has not asked
    for a minute has a full one, as one never seen has: they are forgotten, so that
    memory holds nobody but who asked within a minute.

    Parameters
    ----------
    a_minute : int
        The most requests a minute.
    """

    def __init__(self, a_minute: int) -> None:
        self.a_second = a_minute / 60
        self.burst = max(1.0, a_minute / _BURST)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, user: str, now: float | None = None) -> float:
        """Count a request.

        Parameters
        ----------
        user : str
            Who asks.
        now : float, optional
            The time in seconds, on any clock that does not go back.

        Returns
        -------
        float
            0 if they may ask; else the seconds until they may.
        """
        now = time.monotonic() if now is None else now
        self._forget(now)
        tokens, then = self._buckets.pop(user, (self.burst, now))
        tokens = min(self.burst, tokens + (now - then) * self.a_second)
        allowed = tokens >= 1
        self._buckets[user] = (tokens - 1 if allowed else tokens, now)
        return 0.0 if allowed else (1 - tokens) / self.a_second

    def _forget(self, now: float) -> None:
        """Drop who has a full bucket again. The oldest are the first."""
        while self._buckets:
            _, then = next(iter(self._buckets.values()))
            if now - then < self.burst / self.a_second:
                return
            self._buckets.popitem(last=False)
