"""Sends requests from a broker to the active controller (Kafka's NodeToControllerChannelManager)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.ensemble.ports import Runtime
from zabka.kafka.ports import BrokerChannel, ChannelBroken, KafkaMessage

RETRY_BACKOFF_MS = 50


class ControllerGateway:
    """A `ControllerGate` that finds the controller in the metadata cache, and retries if the controller has changed."""

    def __init__(self, runtime: Runtime, metadata: MetadataCache, channel: BrokerChannel) -> None:
        self._runtime = runtime
        self._metadata = metadata
        self._channel = channel

    async def call(self, request: KafkaMessage, timeout_ms: int) -> KafkaMessage:
        """Send a request to the controller and return its response.

        After NOT_CONTROLLER, retry with the controller that is then in the metadata cache. Raises ChannelBroken if no
        controller responds within `timeout_ms`.
        """
        deadline_ms = self._runtime.now().mono_ms + timeout_ms
        reason = "no controller is known"
        while (left_ms := deadline_ms - self._runtime.now().mono_ms) > 0:
            endpoint = self._metadata.controller_endpoint()
            if endpoint is not None:
                try:
                    response = await self._channel.call(endpoint, request, left_ms)
                except ChannelBroken as broken:
                    reason = str(broken)
                else:
                    if getattr(response, "error_code", ErrorCode.none) != ErrorCode.not_controller:
                        return response
                    reason = f"broker {endpoint.broker_id} is not the controller"
            await self._runtime.sleep(RETRY_BACKOFF_MS)
        raise ChannelBroken(reason)
