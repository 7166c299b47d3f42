"""Choice of the server to try next, and of the pause before the attempt."""

from __future__ import annotations

from collections.abc import Sequence

from zabka.ensemble.ports import Random

BACKOFF_MIN_MS = 50
"""Upper bound of the random pause after all servers have failed once. It doubles with each further round."""
BACKOFF_MAX_MS = 1_000


class Rotation:
    """Order in which a client tries the servers.

    It pauses only between rounds, not between the servers of a round. The pauses are random and grow.
    """

    __slots__ = ("_failed", "_next", "_preferred", "_random", "_servers")

    def __init__(self, servers: Sequence[str], random: Random, *, shuffle: bool) -> None:
        assert servers
        self._servers = list(servers)
        self._random = random
        self._next = 0
        self._failed = 0
        self._preferred = ""
        if shuffle:
            self._shuffle()

    def _shuffle(self) -> None:
        """Shuffle the servers, so that clients distribute themselves over all servers."""
        servers = self._servers
        for last in range(len(servers) - 1, 0, -1):
            pick = self._random.randrange(0, last + 1)
            servers[last], servers[pick] = servers[pick], servers[last]

    @property
    def size(self) -> int:
        """Number of servers in the rotation."""
        return len(self._servers)

    @property
    def failed(self) -> int:
        """Number of consecutive connections and connection attempts on which no server replied to a request."""
        return self._failed

    def next(self) -> str:
        """Return the server to try now."""
        if self._preferred:
            preferred, self._preferred = self._preferred, ""
            return preferred
        server = self._servers[self._next % len(self._servers)]
        self._next += 1
        return server

    def prefer(self, server: str) -> None:
        """Make this server the next one to try."""
        self._preferred = server

    def pause_ms(self, *, served: bool) -> int:
        """Return the pause before the next attempt, after a connection ended or failed.

        If the server had replied to requests on that connection (`served`), the pause is 0.
        """
        self._failed = 0 if served else self._failed + 1
        rounds, within = divmod(self._failed, len(self._servers))
        if rounds == 0 or within:
            return 0
        longest_ms = min(BACKOFF_MAX_MS, BACKOFF_MIN_MS << min(rounds - 1, 16))
        return longest_ms // 2 + self._random.randrange(0, longest_ms // 2 + 1)
