"""Brokers that joined the ensemble without being started here, Apache Kafka's own among them.

Nobody's agent reads a journal of theirs.  What the ensemble shows of their registrations and reigns is journalled in
their place, in this process's journal, so that the page, the invariants and Spark's tables hear of it; that a
registration or a reign is over, the peers tell by the session's end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zabka.api.views.ensemble_view import EnsembleView, Reading
from zabka.journal.cluster_state import ClusterState
from zabka.journal.events import BrokerRegistered, ControllerElected, Event


class JoinedBrokers:
    """Journals for those who do not.  A reign shorter than the time between two looks is missed."""

    def __init__(self, own: Sequence[int], emit: Callable[[Event], None], state: ClusterState) -> None:
        """`own` brokers journal for themselves; `state` is the fold of what has been told so far."""
        self._own = frozenset(own)
        self._emit = emit
        self._state = state
        self._registered: dict[int, int] = {}
        self._reign = 0

    async def run(self, ensemble: EnsembleView) -> None:
        """Look on until cancelled."""
        while True:
            fresh = await ensemble.next_look()
            if not fresh.stale:
                self.report_changes(fresh.reading)
                if not self._own.issuperset(fresh.reading.brokers):
                    # Their reigns may be short.
                    ensemble.look_often()

    def report_changes(self, reading: Reading) -> None:
        """Tell what is new since the last look."""
        for broker_id, found in sorted(reading.brokers.items()):
            if broker_id not in self._own and self._told(broker_id) != found.broker_epoch:
                self._registered[broker_id] = found.broker_epoch
                self._emit(BrokerRegistered(broker_id, found.broker_epoch, found.session_id))
        controller = reading.controller
        if controller.broker_id < 0 or controller.broker_id in self._own or not controller.zxid:
            return
        if controller.controller_epoch > max(self._reign, self._state.controller_epoch):
            self._reign = controller.controller_epoch
            self._emit(
                ControllerElected(
                    controller.broker_id, controller.controller_epoch, controller.zk_version, controller.zxid
                )
            )

    def _told(self, broker_id: int) -> int:
        """The broker epoch that was told last; the fold knows what an earlier process of ours told."""
        folded = self._state.brokers.get(broker_id)
        return self._registered.get(broker_id, folded.broker_epoch if folded is not None else -1)
