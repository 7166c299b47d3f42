"""The code of a shop that uses Kafka and ZooKeeper. The recipes test this code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Message, Producer
from kazoo.client import KazooClient, KazooState

FLUSH_S = 30


class Shop:
    """Places orders. `acks` is the acks setting of its producer."""

    def __init__(self, config: dict[str, Any], acks: str = "all") -> None:
        self._producer = Producer({**config, "acks": acks})

    def place(self, order: str) -> None:
        """Place an order; return once it is stored. Raises RuntimeError if it is unknown whether it was stored."""
        failures = []

        def delivered(error: object, _: Message) -> None:
            if error is not None:
                failures.append(error)

        self._producer.produce("orders", order.encode(), on_delivery=delivered)
        if self._producer.flush(FLUSH_S) or failures:
            raise RuntimeError(f"order {order} may not be stored: {failures}")


class Billing:
    """Reads orders as JSON, and bills each once. An order that cannot be decoded is sent to a separate topic."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.billed: dict[int, int] = {}
        self._producer = Producer(config)
        self._consumer = Consumer(
            {**config, "group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        self._consumer.subscribe(["orders"])

    def work(self, timeout_s: float = 0.1) -> bool:
        """Bill the next order. Return False if there is none."""
        message = self._consumer.poll(timeout_s)
        if message is None or message.error():
            return False
        try:
            order = json.loads(message.value() or b"")
            # After a rebalance, a record can be processed twice, so billing the same order number again must not change
            # anything.
            self.billed[order["id"]] = order["euros"]
        except (ValueError, KeyError):
            self._producer.produce("orders.failed", message.value(), headers={"reason": "not an order"})
            self._producer.flush(FLUSH_S)
        self._consumer.commit(message=message, asynchronous=False)
        return True

    def close(self) -> None:
        """Leave the consumer group and close the connections."""
        self._consumer.close()


class Leader:
    """A worker that leads while its ephemeral znode exists. Calls `stop` as soon as the session is suspended or
    lost.
    """

    def __init__(self, client: KazooClient, name: str, stop: Callable[[], None]) -> None:
        self.leads = False
        self._client = client
        self._stop = stop
        client.add_listener(self._on_state)
        client.create("/shop-leader", name.encode(), ephemeral=True)
        self.leads = True

    def _on_state(self, state: str) -> None:
        if self.leads and state in (KazooState.SUSPENDED, KazooState.LOST):
            self.leads = False
            self._stop()
