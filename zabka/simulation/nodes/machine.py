"""A machine of the simulated world: its storage outlives the processes that run on it one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.kernel.runtime import SimRuntime
from zabka.simulation.nodes.site import Site


class Storage(Protocol):
    """What a machine keeps."""

    def crash(self) -> object:
        """The process was killed: what was written stays."""
        ...

    def power_loss(self) -> object:
        """The power went: what was made durable stays."""
        ...


class Process:
    """One run of a node's process: its runtime, its place in the network, its journal."""

    def __init__(self, site: Site, name: str, incarnation: int) -> None:
        self.site = site
        self.random = derive_random(site.seed, f"{name}/{incarnation}")
        self.runtime = SimRuntime(site.scheduler, self.random, skew_ms=site.skew_ms(name))
        self.host = site.network.boot(name, self.runtime)
        self.emit = site.record.emitter(name, self.runtime)

    def boot(self) -> None:
        """Start to work."""


P = TypeVar("P", bound=Process)


class Machine(ABC, Generic[P]):
    """Starts, stops and kills the process of one node."""

    def __init__(self, site: Site, name: str, storage: Storage) -> None:
        self.site = site
        self.name = name
        self.process: P | None = None
        self._storage = storage
        self._incarnation = 0

    @abstractmethod
    def make_process(self, incarnation: int) -> P:
        """A fresh process, not booted yet."""

    def start(self) -> None:
        """Boot the process, if none runs."""
        if self.process is None:
            self._incarnation += 1
            self.process = self.make_process(self._incarnation)
            self.process.boot()

    def kill(self, power_loss: bool = False) -> None:
        """SIGKILL, or the plug pulled."""
        if self.process is None:
            return
        self.process.runtime.stop()
        self.process = None
        self.site.network.kill(self.name)
        if power_loss:
            self._storage.power_loss()
        else:
            self._storage.crash()

    def pause(self) -> None:
        """SIGSTOP."""
        if self.process:
            self.process.runtime.pause()

    def resume(self) -> None:
        """SIGCONT."""
        if self.process:
            self.process.runtime.resume()
