"""Channels to brokers: each is a queue of control requests, with one request in flight.

A request is sent again until it gets a response or the broker is removed. A broker without the listener for control
requests counts as unreachable: its other listeners can have another security protocol. Source:
kafka.controller.ControllerChannelManager and RequestSendThread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode as KafkaError

from zabka.controller.config import REQUESTS_QUEUED_MAX, ControllerConfig
from zabka.ensemble.ports import Future, Runtime, Task
from zabka.kafka.ports import BrokerChannel, ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.zk.znodes import BrokerInfo

OnResponse = Callable[[KafkaMessage], None]


class QueueFull(Exception):
    """More requests wait for one broker than can occur in a healthy cluster."""


class ControllerChannelManager:
    """Request queues for the live and shutting-down brokers during one controller term.

    `refused` is called when a broker's response shows that the broker knows a later controller epoch.
    """

    def __init__(
        self, channel: BrokerChannel, runtime: Runtime, config: ControllerConfig, refused: Callable[[], None]
    ) -> None:
        self._channel = channel
        self._runtime = runtime
        self._config = config
        self._refused = refused
        self._brokers: dict[int, _BrokerQueue] = {}

    def startup(self, brokers: Iterable[BrokerInfo]) -> None:
        """Create a request queue for each of these brokers."""
        for info in brokers:
            self.add_broker(info)

    def shutdown(self) -> None:
        """Close every queue and drop the unsent requests."""
        for queue in self._brokers.values():
            queue.stop()
        self._brokers.clear()

    def add_broker(self, info: BrokerInfo) -> None:
        """Create a request queue for a broker that has registered."""
        if info.broker_id not in self._brokers:
            endpoint = self._control_endpoint(info)
            self._brokers[info.broker_id] = _BrokerQueue(
                self._channel, self._runtime, self._config, info.broker_id, endpoint, self._refused
            )

    def remove_broker(self, broker_id: int) -> None:
        """Drop the request queue and the connection of a broker that failed or restarted as another process."""
        queue = self._brokers.pop(broker_id, None)
        if queue is not None:
            queue.stop()
            self._channel.forget(broker_id)
            queue.pass_marks()

    def update_endpoint(self, info: BrokerInfo) -> None:
        """Use the broker's new listener, also for requests that are already queued."""
        queue = self._brokers.get(info.broker_id)
        if queue is not None:
            queue.endpoint = self._control_endpoint(info)

    def endpoint(self, info: BrokerInfo) -> Endpoint | None:
        """Return the address of that broker for other brokers, or None if it lacks their listener."""
        return _endpoint(info, self._config.inter_broker_listener_name)

    def _control_endpoint(self, info: BrokerInfo) -> Endpoint | None:
        """Return the address for control requests to that broker, or None if it lacks their listener."""
        name = self._config.control_plane_listener_name
        if not name:
            return self.endpoint(info)
        found = _endpoint(info, name)
        return None if found is None else found._replace(listener=name)

    def send(self, broker_id: int, request: KafkaMessage, on_response: OnResponse | None = None) -> None:
        """Queue a request. Do nothing for an unknown broker. Raises QueueFull."""
        queue = self._brokers.get(broker_id)
        if queue is not None:
            queue.put(request, on_response)

    def once_answered(self, done: Callable[[], None]) -> None:
        """Call `done` once every queued request has a response or its broker was removed.

        It is not called if the controller term ends first.
        """
        waiting = {broker_id: None for broker_id, queue in self._brokers.items() if len(queue)}

        def answered(broker_id: int) -> None:
            if broker_id in waiting:
                del waiting[broker_id]
                if not waiting:
                    done()

        for broker_id in list(waiting):
            self._brokers[broker_id].mark(partial(answered, broker_id))
        if not waiting:
            done()

    @property
    def total_queue_size(self) -> int:
        """Number of requests that wait for any broker."""
        return sum(len(queue) for queue in self._brokers.values())

    def queue_size(self, broker_id: int) -> int:
        """Number of requests that wait for that broker, including the one in flight."""
        queue = self._brokers.get(broker_id)
        return len(queue) if queue is not None else 0


def _endpoint(info: BrokerInfo, listener: str) -> Endpoint | None:
    found = next((each for each in info.endpoints if each.listener == listener or not listener), None)
    return None if found is None else Endpoint(info.broker_id, found.host, found.port)


class _BrokerQueue:
    __slots__ = (
        "_broker_id", "_channel", "_config", "_marks", "_queue", "_refused", "_runtime", "_task", "_wake", "endpoint",
    )  # fmt: skip

    def __init__(
        self,
        channel: BrokerChannel,
        runtime: Runtime,
        config: ControllerConfig,
        broker_id: int,
        endpoint: Endpoint | None,
        refused: Callable[[], None],
    ) -> None:
        self.endpoint = endpoint
        self._broker_id = broker_id
        self._refused = refused
        self._channel = channel
        self._runtime = runtime
        self._config = config
        self._queue: deque[tuple[KafkaMessage, OnResponse | None]] = deque()
        self._marks: deque[tuple[int, Callable[[], None]]] = deque()
        """Callbacks, each with the number of responses that must arrive before it is called."""
        self._wake: Future[Any] | None = None
        self._task: Task = runtime.spawn(self._run(), f"controller-to-broker-{broker_id}")

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, request: KafkaMessage, on_response: OnResponse | None) -> None:
        if len(self._queue) >= REQUESTS_QUEUED_MAX:
            raise QueueFull(f"{len(self._queue)} requests wait for broker {self._broker_id}")
        self._queue.append((request, on_response))
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def stop(self) -> None:
        self._task.cancel()

    def mark(self, passed: Callable[[], None]) -> None:
        """Call `passed` once every request that is now queued has a response."""
        self._marks.append((len(self._queue), passed))

    def pass_marks(self) -> None:
        """Call all remaining callbacks, because no further response will arrive."""
        marks, self._marks = self._marks, deque()
        for _, passed in marks:
            passed()

    def _answered(self) -> None:
        self._marks = deque((left - 1, passed) for left, passed in self._marks)
        while self._marks and not self._marks[0][0]:
            self._marks.popleft()[1]()

    async def _run(self) -> None:
        while True:
            while not self._queue:
                self._wake = self._runtime.future()
                await self._wake
            request, on_response = self._queue[0]
            response = await self._deliver(request)
            self._queue.popleft()
            if response.error_code is KafkaError.stale_controller_epoch:
                self._refused()
            if on_response is not None:
                on_response(response)
            if self._marks:
                self._answered()

    async def _deliver(self, request: KafkaMessage) -> KafkaMessage:
        while True:
            if self.endpoint is not None:
                with suppress(ChannelBroken):
                    return await self._channel.call(self.endpoint, request, self._config.controller_socket_timeout_ms)
            await self._runtime.sleep(self._config.request_retry_backoff_ms)
