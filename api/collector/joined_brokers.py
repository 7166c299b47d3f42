"""Reports brokers that joined the ensemble but were not started by zabka, such as Apache Kafka's own brokers.

No agent reads the journals of these brokers. Instead, this process reads their registrations and controller terms from
the ensemble and writes them to its own journal, so that the page, the invariants and Spark's tables include them. The
peers' journals report when a session ends, and thus when a registration or controller term ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zabka.api.views.ensemble_view import EnsembleView, Reading
from zabka.journal.cluster_state import ClusterState
from zabka.journal.events import BrokerRegistered, ControllerElected, Event


class JoinedBrokers:
    """Writes journal events for brokers that write no zabka journal.

    A controller term that begins and ends between two readings of the ensemble is not noticed.
    """

    def __init__(self, own: Sequence[int], emit: Callable[[Event], None], state: ClusterState) -> None:
        """Create the writer of events for these brokers.

        `own` are the brokers that write their own journals and are therefore ignored; `state` is the fold of all events
        so far.
        """
        self._own = frozenset(own)
        self._emit = emit
        self._state = state
        self._registered: dict[int, int] = {}
        self._controller_epoch = 0

    async def run(self, ensemble: EnsembleView) -> None:
        """Watch the ensemble until cancelled."""
        while True:
            fresh = await ensemble.next_look()
            if not fresh.stale:
                self.report_changes(fresh.reading)
                if not self._own.issuperset(fresh.reading.brokers):
                    # Poll more often, so that short controller terms of these brokers are not missed.
                    ensemble.look_often()

    def report_changes(self, reading: Reading) -> None:
        """Write events for the changes since the last reading of the ensemble."""
        for broker_id, found in sorted(reading.brokers.items()):
            if broker_id not in self._own and self._reported_epoch(broker_id) != found.broker_epoch:
                self._registered[broker_id] = found.broker_epoch
                self._emit(BrokerRegistered(broker_id, found.broker_epoch, found.session_id))
        controller = reading.controller
        if controller.broker_id < 0 or controller.broker_id in self._own or not controller.zxid:
            return
        if controller.controller_epoch > max(self._controller_epoch, self._state.controller_epoch):
            self._controller_epoch = controller.controller_epoch
            self._emit(
                ControllerElected(
                    controller.broker_id, controller.controller_epoch, controller.zk_version, controller.zxid
                )
            )

    def _reported_epoch(self, broker_id: int) -> int:
        """Return the broker epoch in the last registration event.

        The fold also includes events that earlier API processes wrote.
        """
        folded = self._state.brokers.get(broker_id)
        return self._registered.get(broker_id, folded.broker_epoch if folded is not None else -1)
