"""The nodes of a live cluster: their state according to the API, and methods to control them."""

from __future__ import annotations

from typing import Any

from zabka.testing.cluster import Believes
from zabka.testing.live.http_api import HttpApi


class Node:
    """One peer or broker: its state, and methods to control it."""

    def __init__(self, api: HttpApi, kind: str, number: int) -> None:
        self._api = api
        self._path = f"/api/v1/{kind}s/{number}"
        self.id = number
        self.name = f"{kind}-{number}"

    def __repr__(self) -> str:
        return self.name

    def describe(self) -> dict[str, Any]:
        """Return the complete API response about the node."""
        found: dict[str, Any] = self._api.get(self._path)
        return found

    @property
    def process(self) -> str:
        """The state of the process: `running`, `paused` or `down`."""
        return str(self.describe()["process"])

    @property
    def pid(self) -> int | None:
        """Process id, or None while the process is down."""
        pid: int | None = self.describe()["pid"]
        return pid

    def _apply(self, action: str) -> None:
        self._api.post(f"{self._path}/{action}")

    def kill(self) -> None:
        """Send SIGKILL to the process."""
        self._apply("kill")

    def stop(self) -> None:
        """Stop the node with SIGTERM; a broker performs a controlled shutdown."""
        self._apply("stop")

    def pause(self) -> None:
        """Send SIGSTOP to the process."""
        self._apply("pause")

    def resume(self) -> None:
        """Send SIGCONT to the process."""
        self._apply("resume")

    def start(self) -> None:
        """Start the node after a stop or kill."""
        self._apply("start")

    def restart(self) -> None:
        """Stop the node, and start it again."""
        self._apply("restart")


class Peer(Node):
    """A peer of a live cluster: a server of the ensemble."""

    @property
    def state(self) -> str:
        """The peer's state: LEADING, FOLLOWING, LOOKING, OBSERVING or DOWN."""
        return str(self.describe()["state"])

    @property
    def phase(self) -> str:
        """The peer's ZAB phase: ELECTION, DISCOVERY, SYNCHRONIZATION or BROADCAST."""
        return str(self.describe()["phase"])


class Broker(Node):
    """A broker of a live cluster."""

    @property
    def registered(self) -> bool:
        """Whether the broker's ephemeral znode exists in /brokers/ids, according to the ensemble."""
        return bool(self.describe()["registered"])

    @property
    def is_controller(self) -> bool:
        """Whether the broker considers itself the controller, correctly or not."""
        return bool(self.describe()["is_controller"])

    @property
    def believes(self) -> Believes:
        """The controller that this broker considers active, according to its last report."""
        belief = self.describe()["believes"]
        return Believes(belief["controller_id"], belief["controller_epoch"])

    @property
    def session_state(self) -> str:
        """State of the broker's ZooKeeper session, according to its last report."""
        return str(self.describe()["session_state"])
