"""A running peer's interfaces for operators: four-letter words, metrics, the admin server, and clock warnings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from zabka.ensemble.ids import Zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.runtime.asyncio_runtime import instant_now
from zabka.ensemble.server.operator import server_facts
from zabka.ensemble.server.operator.http_port import Failure, HttpPort
from zabka.ensemble.server.operator.metrics import Metrics
from zabka.ensemble.server.operator.running_peer import RunningPeer
from zabka.ensemble.server.operator.words import FourLetterCommands, TraceMask
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txnlog.recovery import Recovery
from zabka.ensemble.txnlog.restoring import restored_zxid
from zabka.journal.events import Event, SnapshotTaken

CLOCK_CHECK_S = 1.0
CLOCK_JUMP_MS = 2000


class ClockWatch:
    """Detects jumps of the wall clock, by comparison with the monotonic clock."""

    def __init__(self, now: Instant) -> None:
        self._skew_ms = now.wall_ms - now.mono_ms

    def check(self, now: Instant) -> str | None:
        """Return a warning if the wall clock jumped after the last check, otherwise None."""
        jump_ms = now.wall_ms - now.mono_ms - self._skew_ms
        # Follow every change, so that gradual adjustments by NTP do not add up to a jump.
        self._skew_ms += jump_ms
        if abs(jump_ms) < CLOCK_JUMP_MS:
            return None
        return (
            f"the wall clock jumped by {jump_ms / 1000:+.1f} s: sessions and timeouts do not depend on it, but times "
            "in znodes and times to live do; check time synchronisation"
        )


class OperatorView:
    """A peer's interfaces for operators: four-letter words, admin server, metrics.

    Call `open` after the peer's other ports are open.
    """

    def __init__(
        self,
        running: RunningPeer,
        log: structlog.BoundLogger,
        *,
        on_failure: Failure,
        restart: Callable[[], None],
        take_snapshot: Callable[[TreeSnapshot], None],
    ) -> None:
        """Create the view.

        `restart` is called to restart the peer from a restored snapshot, `take_snapshot` to write a snapshot of its
        tree.
        """
        trace_mask = TraceMask()
        config, peer = running.config, running.peer
        self.metrics = Metrics(running, lambda: server_facts.mode_of(config, peer), server_facts.version_text())
        self.words = FourLetterCommands(config, peer, running.service, running.clients, self.metrics, trace_mask)
        self._running = running
        self._trace_mask = trace_mask
        self._log = log
        self._on_failure = on_failure
        self._restart = restart
        self._take_snapshot = take_snapshot
        self._ports: list[HttpPort] = []
        self._clock = ClockWatch(instant_now())
        self._clock_check: asyncio.TimerHandle | None = None
        self._snapshots_wanted: list[asyncio.Future[SnapshotTaken]] = []

    def on_loaded(self, took_ms: int, recovery: Recovery) -> None:
        """Record how long it took to load this peer's data from the disk at its start."""
        history = self.metrics.history
        history.load_time_ms.add(took_ms)
        history.snapshot_load_time_ms.add(recovery.snapshot_load_ms)
        history.txns_load_time_ms.add(recovery.txns_load_ms)
        history.txns_loaded.add(len(recovery.recovered.txns))

    async def open(self) -> None:
        """Open the configured ports; the modules for a port are imported only if it is configured.

        Raises PortError.
        """
        config = self._running.config
        if config.admin is not None:
            from zabka.ensemble.server.operator.admin import open_admin_port
            from zabka.ensemble.server.operator.admin_commands import AdminCommands
            from zabka.ensemble.server.operator.on_demand_snapshots import OnDemandSnapshots
            from zabka.ensemble.server.operator.restores import Restores

            storage = self._running.storage
            snapshots = OnDemandSnapshots(
                config,
                self._running.service,
                storage,
                self._snapshots_wanted,
                config.admin.snapshots_interval_ms,
                self.metrics.on_demand,
                take=self._take_snapshot,
            )
            restores = Restores(
                storage.directories.data, self._zxid_after_restore, config.admin.restores_interval_ms,
                self.metrics.on_demand, files=storage.directories.files, workers=storage.workers,
            )  # fmt: skip
            commands = AdminCommands(
                self._running, self.metrics, self._trace_mask, snapshots=snapshots, restores=restores,
                restart=self._restart,
            )  # fmt: skip
            if (
                port := await open_admin_port(config.admin, commands, self._log, self._on_failure, storage)
            ) is not None:
                self._ports.append(port)
        if config.metrics is not None:
            from zabka.ensemble.server.operator.admin import open_metrics_port

            self._ports.append(await open_metrics_port(config.metrics, self.metrics, self._log, self._on_failure))
        self._check_clock()

    def _zxid_after_restore(self, snapshot: Zxid) -> Zxid:
        config, peer = self._running.config, self._running.peer
        return restored_zxid(snapshot, peer.status().accepted_epoch, config.my_id) if config.distributed else snapshot

    async def close(self) -> None:
        """Close the ports opened by `open`."""
        if self._clock_check is not None:
            self._clock_check.cancel()
        for port in self._ports:
            await port.close()

    def on_event(self, event: Event) -> None:
        """Update the metrics with a journal event."""
        self.metrics.on_event(event)
        if isinstance(event, SnapshotTaken):
            for wanted in self._snapshots_wanted:
                if not wanted.done():
                    wanted.set_result(event)
            self._snapshots_wanted.clear()

    def _check_clock(self) -> None:
        line = self._clock.check(instant_now())
        if line is not None:
            self._log.warning(line)
        self._clock_check = asyncio.get_running_loop().call_later(CLOCK_CHECK_S, self._check_clock)
