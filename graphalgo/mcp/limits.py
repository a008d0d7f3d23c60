"""How often a user may ask, and how many sessions are theirs."""

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


class Sessions:
    """Who has how many sessions, so that nobody takes all of them.

    A session that ended by itself is not reported; it is forgotten when it has been
    idle for as long as sessions may be.

    Parameters
    ----------
    each : int
        The most sessions of one user.
    idle : float
        The seconds after which an idle session ends.
    """

    def __init__(self, each: int, idle: float) -> None:
        self.each = each
        self.idle = idle
        # By user the sessions, each with the requests that run and when the last one ended.
        self._users: dict[str, dict[str, tuple[int, float]]] = {}

    def __len__(self) -> int:
        return sum(len(sessions) for sessions in self._users.values())

    def full(self, user: str, now: float | None = None) -> bool:
        """Whether a user has as many as one may have."""
        now = time.monotonic() if now is None else now
        sessions = self._users.get(user, {})
        for name in [
            name
            for name, (running, last) in sessions.items()
            if not running and now - last >= self.idle
        ]:
            self.end(user, name)
        return len(sessions) >= self.each

    def begin(self, user: str, session: str, now: float | None = None) -> None:
        """Count a session that was opened."""
        now = time.monotonic() if now is None else now
        self._users.setdefault(user, {})[session] = (0, now)

    def use(self, user: str, session: str, change: int, now: float | None = None) -> None:
        """Count a request of a session that begins (1) or has ended (-1)."""
        now = time.monotonic() if now is None else now
        sessions = self._users.get(user, {})
        if session in sessions:
            sessions[session] = (sessions[session][0] + change, now)

    def end(self, user: str, session: str) -> None:
        """Forget a session."""
        sessions = self._users.get(user, {})
        sessions.pop(session, None)
        if not sessions:
            self._users.pop(user, None)

    def sweep(self, now: float | None = None) -> None:
        """Forget every session that is over."""
        for user in list(self._users):
            self.full(user, now)
