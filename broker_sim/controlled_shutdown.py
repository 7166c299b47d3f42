"""Controlled shutdown: before a broker stops, the controller moves its leaderships (KafkaServer.controlledShutdown)."""

from __future__ import annotations

from collections.abc import Callable

from kio.schema.errors import ErrorCode

from zabka.broker_sim.broker_ports import BrokerPorts
from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.ensemble.client.service import CoordinationService
from zabka.ensemble.errors import ZooKeeperError
from zabka.ensemble.ports import Future
from zabka.kafka.ports import ChannelBroken
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.kafka.zk import znodes

CONTROLLED_SHUTDOWN_VERSION = 3
LEAVING_POLL_MS = 500
CONTROLLED_SHUTDOWN_ATTEMPT_MS_MAX = 3_000
"""Maximum time for one attempt to wait for the controller, which may not exist."""


class ControlledShutdown:
    """Requests the controller to move this broker's leaderships. `broker_epoch` returns the current broker epoch."""

    def __init__(
        self,
        config: KafkaConfig,
        ports: BrokerPorts,
        coordination: CoordinationService,
        metadata: MetadataCache,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._config = config
        self._runtime = ports.runtime
        self._channel = ports.channel
        self._log_line = ports.log_line
        self._coordination = coordination
        self._metadata = metadata
        self._broker_epoch = broker_epoch
        self.hurried = False
        """Whether the whole cluster is being stopped. If so, the broker stops after one attempt, even a failed one."""

    async def leave(self) -> None:
        """Request a controlled shutdown until this broker leads no partition.

        Retry up to controlled.shutdown.max.retries times.
        """
        for attempts_left in reversed(range(max(1, self._config.number("controlled.shutdown.max.retries")))):
            if await self._ask_to_leave():
                return
            if not attempts_left or not await self._back_off_before_leaving():
                break
        self._log_line("proceeding with an unclean shutdown: not every leadership could be handed over")

    async def _back_off_before_leaving(self) -> bool:
        """Wait before the next attempt.

        Return False immediately if no other broker is left, or if the whole cluster is being stopped.
        """
        left_ms = self._config.number("controlled.shutdown.retry.backoff.ms")
        logged = False
        while left_ms > 0:
            if self.hurried or not await self._others_registered():
                return False
            if not logged:
                logged = True
                self._log_line("retrying controlled shutdown: partitions are still led here, or no controller answered")
            step_ms = min(left_ms, LEAVING_POLL_MS)
            await self._runtime.sleep(step_ms)
            left_ms -= step_ms
        return True

    async def _others_registered(self) -> bool:
        """Return whether another broker is registered; False also if the ensemble does not respond."""
        answer: Future[bool] = self._runtime.future()

        def finish(others: bool) -> None:
            if not answer.done():
                answer.set_result(others)

        async def ask() -> None:
            try:
                registered = await self._coordination.get_children(znodes.BROKER_IDS)
                finish(any(broker_id != str(self._config.broker_id) for broker_id in registered))
            except ZooKeeperError:
                finish(False)

        asking = self._runtime.spawn(ask(), "who is registered")
        timer = self._runtime.call_later(LEAVING_POLL_MS, lambda: finish(False))
        others: bool = await answer
        timer.cancel()
        asking.cancel()
        return others

    async def _ask_to_leave(self) -> bool:
        """Make one attempt of a controlled shutdown. Return whether this broker no longer leads any partition."""
        endpoint = self._metadata.endpoint(self._metadata.controller_id)
        if endpoint is None:
            return False
        leaving = request(
            ApiKey.CONTROLLED_SHUTDOWN,
            CONTROLLED_SHUTDOWN_VERSION,
            broker_id=self._config.broker_id,
            broker_epoch=self._broker_epoch(),
        )
        timeout_ms = min(self._config.number("controller.socket.timeout.ms"), CONTROLLED_SHUTDOWN_ATTEMPT_MS_MAX)
        try:
            answer = await self._channel.call(endpoint, leaving, timeout_ms)
        except ChannelBroken:
            return False
        return answer.error_code == ErrorCode.none and not answer.remaining_partitions
