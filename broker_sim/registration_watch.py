"""Watches a broker's own registration, because another client may overwrite or delete /brokers/ids/N.

Kafka's brokers do not watch it. The next controller ignores a broker with an unreadable registration, and the cluster
considers a broker with a deleted registration dead until its session ends. A zabka broker restores its registration
immediately and logs the incident.
"""

from __future__ import annotations

from collections.abc import Callable

from zabka.ensemble.client.service import WatchEvent
from zabka.ensemble.errors import ErrorCode, SessionExpired, ZooKeeperError
from zabka.ensemble.ports import Future, Runtime
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.znodes import BrokerInfo

LOOK_AGAIN_MS = 1_000
"""Delay before the next check if the registration does not exist yet, or if the ensemble returned an error."""


class RegistrationWatch:
    """Watches the registration of one broker.

    `is_registered` returns whether the broker's current session has registered it; `register` registers it again, with
    a new broker epoch.
    """

    def __init__(
        self,
        zk: Zk,
        runtime: Runtime,
        info: Callable[[], BrokerInfo],
        is_registered: Callable[[], bool],
        register: Callable[[], None],
        log_line: Callable[[str], None],
    ) -> None:
        self._zk = zk
        self._runtime = runtime
        self._info = info
        self._is_registered = is_registered
        self._register = register
        self._log_line = log_line
        self._changed: Future[None] | None = None

    async def follow(self) -> None:
        """Watch the registration and restore it, until cancelled."""
        while True:
            self._changed = changed = self._runtime.future()
            try:
                is_well = self._is_registered() and await self._look()
            except SessionExpired:
                is_well = False
            except ZooKeeperError as refused:
                self._log_line(f"the registration of this broker cannot be looked after: {refused}")
                is_well = False
            if is_well:
                await changed
            else:
                await self._runtime.sleep(LOOK_AGAIN_MS)

    def _on_change(self, event: WatchEvent) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def _look(self) -> bool:
        """Set a watch. Return whether the registration has the content that this broker wrote."""
        service, info = self._zk.service, self._info()
        path, session_id = znodes.broker_path(info.broker_id), service.session_id
        outcome = await self._zk.attempt(lambda: service.get(path, self._on_change))
        if service.session_id != session_id or not self._is_registered():
            return False
        if outcome.error is ErrorCode.NO_NODE:
            self._log_line(f"{path} was deleted by somebody else; registering again")
            self._register()
        if outcome.value is None:
            return False
        data, stat = outcome.value
        if stat.ephemeral_owner != session_id:
            return False
        ours = znodes.encode_broker(info, self._runtime.now().wall_ms)
        if znodes.decode_broker(info.broker_id, data) == znodes.decode_broker(info.broker_id, ours):
            return True
        self._log_line(f"{path} was overwritten by somebody else; writing it again")
        await self._zk.attempt(lambda: service.set(path, ours, stat.version))
        return False
