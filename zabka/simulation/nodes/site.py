"""The site on which the nodes of a simulated world stand: its clock, its network, its journal, and what is drawn."""

from __future__ import annotations

from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.kernel.scheduler import Scheduler
from zabka.simulation.network.addresses import client_addresses
from zabka.simulation.network.network import Network
from zabka.simulation.network.tap import MessageTap, TappedNetwork
from zabka.simulation.network.wire import TypedWire, Wire
from zabka.simulation.record import Record
from zabka.simulation.settings import WorldSettings

SKEW_MS_MAX = 500


class Site:
    """All that a node may know of the world around it.  Two sites of one seed and the same settings are alike."""

    def __init__(
        self,
        seed: int,
        settings: WorldSettings | None = None,
        wire: Wire | None = None,
        tap: MessageTap | None = None,
    ) -> None:
        self.seed = seed
        self.settings = settings or WorldSettings()
        self.wire: Wire = wire or TypedWire(derive_random(seed, "wire"))
        self.scheduler = Scheduler()
        self.record = Record(self.scheduler)
        random = derive_random(seed, "network")
        self.network = TappedNetwork(self.scheduler, random, tap) if tap else Network(self.scheduler, random)
        self._skews = derive_random(seed, "skew")
        self._skew_ms: dict[str, int] = {}

    @property
    def zookeeper_connect(self) -> str:
        """The ensemble's client addresses."""
        return client_addresses(range(1, self.settings.peers + 1))

    def skew_ms(self, name: str) -> int:
        """How far a node's wall clock is off, at most SKEW_MS_MAX either way; drawn once a node."""
        return self._skew_ms.setdefault(name, self._skews.randrange(-SKEW_MS_MAX, SKEW_MS_MAX))
