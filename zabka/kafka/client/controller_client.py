"""Requests that only the controller handles. After a failover, the client sends them again to the new controller.

A controller whose process is paused keeps its connections open, so no connection breaks when another broker is elected.
While a client waits for the controller's reply, it therefore asks the other brokers for the current controller, and
switches to a new controller as soon as there is one. It is then unknown whether the first controller handled the
request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kio.schema.errors import ErrorCode

from zabka.kafka.client.client import RETRY_BACKOFF_MS, KafkaClient
from zabka.kafka.client.client_errors import KafkaFateUnknown, KafkaUnavailable
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage, NeverSent
from zabka.kafka.wire.kafka_schema import ApiKey, request

LOOK_INTERVAL_MS = 300
LOOK_MS_MAX = 500
"""Maximum wait for one broker's reply when the client looks for the current controller."""

_AS_IF_DONE = frozenset(
    {
        ErrorCode.topic_already_exists,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_partitions,
        ErrorCode.no_reassignment_in_progress,
    }
)
"""Errors that are also returned for a repeated request whose earlier attempt succeeded."""


class ControllerClient(KafkaClient):
    """A `KafkaClient` that finds the controller and sends requests to it."""

    async def at_controller(
        self, message: KafkaMessage, errors: Callable[[KafkaMessage], Iterable[int]], timeout_ms: int
    ) -> KafkaMessage:
        """Send a request to the controller. Try again if the broker is not controller, disconnects or does not reply.

        Raises KafkaUnavailable if no controller was reached in time. Raises KafkaFateUnknown if a controller did not
        reply, and no later controller's reply showed whether the request had been executed.
        """
        deadline_ms = self._runtime.now().mono_ms + timeout_ms
        reason, doubt = "there is no controller", ""
        if self.cluster is None:
            await self.refresh()
        while (left_ms := deadline_ms - self._runtime.now().mono_ms) > 0:
            asked = self.controller()
            if asked is not None:
                try:
                    response = await self._ask(asked, message, left_ms)
                except NeverSent as broken:
                    reason = str(broken)
                except ChannelBroken as broken:
                    reason = doubt = str(broken)
                else:
                    found = set(errors(response))
                    if doubt and found & _AS_IF_DONE:
                        raise KafkaFateUnknown(f"{doubt}; broker {asked.broker_id} says {_names(found)}")
                    if ErrorCode.not_controller not in found:
                        return response
                    reason = f"broker {asked.broker_id} is not the controller"
            await self._runtime.sleep(RETRY_BACKOFF_MS)
            await self._look(asked, LOOK_MS_MAX)
        raise KafkaFateUnknown(doubt) if doubt else KafkaUnavailable(reason)

    def controller(self) -> Endpoint | None:
        """Return the controller's endpoint from the last metadata."""
        return None if self.cluster is None else self.cluster.brokers.get(self.cluster.controller_id)

    async def _ask(self, controller: Endpoint, message: KafkaMessage, timeout_ms: int) -> KafkaMessage:
        answer = self._channel.call(controller, message, timeout_ms)
        watch = self._runtime.spawn(self._leave_when_replaced(controller), "watch the controller")
        try:
            return await answer
        finally:
            watch.cancel()

    async def _leave_when_replaced(self, asked: Endpoint) -> None:
        while True:
            await self._runtime.sleep(LOOK_INTERVAL_MS)
            await self._look(asked, LOOK_MS_MAX)
            found = self.controller()
            if found is not None and found.broker_id != asked.broker_id:
                self._channel.forget(asked.broker_id)
                return

    async def _look(self, besides: Endpoint | None, timeout_ms: int) -> None:
        """Ask a broker for the current controller. If possible, ask a broker other than `besides`."""
        known = [] if self.cluster is None else list(self.cluster.brokers.values())
        others = [broker for broker in known if besides is None or broker.broker_id != besides.broker_id]
        candidates = others or self._bootstrap
        self._next += 1
        asked = request(ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False)
        try:
            answer = await self._channel.call(candidates[self._next % len(candidates)], asked, timeout_ms)
        except ChannelBroken:
            return
        self._learn(answer, whole=False)


def _names(errors: Iterable[int]) -> str:
    return ", ".join(sorted(ErrorCode(error).name.upper() for error in errors))
