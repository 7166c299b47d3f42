"""Kafka requests between simulated brokers: ordered connections, a lane for each kind that would block others."""

from __future__ import annotations

from collections import deque
from typing import Any

from zabka.broker_sim.broker import Broker
from zabka.broker_sim.request_context import RequestContext, RequestRefused
from zabka.kafka.ports import ChannelBroken, Endpoint, KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of
from zabka.kafka.wire.request_lanes import lane_of
from zabka.simulation.kernel.futures import SimFuture
from zabka.simulation.kernel.runtime import SimRuntime
from zabka.simulation.kernel.scheduler import Call
from zabka.simulation.network import network


def wants_no_answer(request: KafkaMessage) -> bool:
    """Produce with acks=0."""
    return api_key_of(request) == ApiKey.PRODUCE and request.acks == 0


class SimChannel:
    """`zabka.kafka.ports.BrokerChannel` over the simulated network, for one process."""

    def __init__(self, net: network.Network, host: network.Host, runtime: SimRuntime) -> None:
        self._network = net
        self._host = host
        self._runtime = runtime
        self._lanes: dict[tuple[int, int], _Lane] = {}

    def call(self, to: Endpoint, request: KafkaMessage, timeout_ms: int) -> SimFuture:
        """Send now; the response when awaited."""
        key = (to.broker_id, lane_of(request))
        lane = self._lanes.get(key)
        if lane is None or lane.closed or lane.to != to:
            if lane is not None:
                lane.close("the broker listens elsewhere now")
            lane = self._lanes[key] = _Lane(self._network, self._host, self._runtime, to)
        return lane.call(request, timeout_ms)

    def forget(self, broker_id: int) -> None:
        """Close every connection to that broker; calls in flight raise ChannelBroken."""
        for key in [key for key in self._lanes if key[0] == broker_id]:
            self._lanes.pop(key).close("disconnected")


class _Pending:
    __slots__ = ("answer", "request", "timer")

    def __init__(self, request: KafkaMessage, answer: SimFuture) -> None:
        self.request = request
        self.answer = answer
        self.timer: Call | None = None


class _Lane:
    """One connection: requests out in order, responses back in order."""

    def __init__(self, net: network.Network, host: network.Host, runtime: SimRuntime, to: Endpoint) -> None:
        self.to = to
        self.closed = False
        self._runtime = runtime
        self._endpoint: network.Endpoint | None = None
        self._unsent: list[KafkaMessage] = []
        self._pending: deque[_Pending] = deque()
        net.dial(host, f"{to.host}:{to.port}", self._up, self._failed)

    def call(self, request: KafkaMessage, timeout_ms: int) -> SimFuture:
        """Send one request."""
        answer = self._runtime.future()
        if wants_no_answer(request):
            self._send(request)
            answer.set_result(None)
            return answer
        pending = _Pending(request, answer)
        pending.timer = self._runtime.call_later(timeout_ms, lambda: self.close("timed out"))
        self._pending.append(pending)
        self._send(request)
        return answer

    def _send(self, request: KafkaMessage) -> None:
        if self._endpoint is None:
            self._unsent.append(request)
        else:
            self._endpoint.send(request)

    def _up(self, endpoint: network.Endpoint) -> None:
        if self.closed:
            endpoint.close()
            return
        self._endpoint = endpoint
        endpoint.on_item = self._answered
        endpoint.on_close = lambda: self.close("closed by the broker")
        for request in self._unsent:
            endpoint.send(request)
        self._unsent.clear()

    def _failed(self, reason: str) -> None:
        self.close(reason)

    def _answered(self, response: Any) -> None:
        pending = self._pending.popleft()
        if pending.timer is not None:
            pending.timer.cancel()
        pending.answer.set_result(response)

    def close(self, reason: str) -> None:
        """End the connection; what is in flight fails."""
        if self.closed:
            return
        self.closed = True
        if self._endpoint is not None:
            self._endpoint.close()
        pending, self._pending = self._pending, deque()
        for call in pending:
            if call.timer is not None:
                call.timer.cancel()
            call.answer.set_exception(ChannelBroken(f"broker {self.to.broker_id}: {reason}"))


class Served:
    """One accepted connection on a broker: its requests are handled one after the other."""

    def __init__(self, broker: Broker, runtime: SimRuntime, endpoint: network.Endpoint) -> None:
        self._broker = broker
        self._runtime = runtime
        self._endpoint = endpoint
        self._number = broker.connections.number()
        self._waiting: deque[KafkaMessage] = deque()
        self._busy = False
        endpoint.on_item = self._take

    def _take(self, request: KafkaMessage) -> None:
        self._waiting.append(request)
        if not self._busy:
            self._busy = True
            self._runtime.start(self._serve(), "serve")

    async def _serve(self) -> None:
        try:
            while self._waiting:
                request = self._waiting.popleft()
                context = RequestContext("simulated", "PLAINTEXT", connection=self._number)
                response = await self._broker.serve(request, context)
                if response is not None:
                    self._endpoint.send(response)
                    if context.muted_ms:
                        await self._runtime.sleep(context.muted_ms)
        except RequestRefused:
            self._endpoint.close()
        finally:
            self._busy = False
