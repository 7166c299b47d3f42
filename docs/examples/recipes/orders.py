"""The code of a shop that uses Kafka and ZooKeeper, which the recipes test."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Message, Producer
from kazoo.client import KazooClient, KazooState

FLUSH_S = 30


class Shop:
    """Places orders; `acks` is the producer's setting of that name."""

    def __init__(self, config: dict[str, Any], acks: str = "all") -> None:
        self._producer = Producer({**config, "acks": acks})

    def place(self, order: str) -> None:
        """Place an order; return once it is stored. Raises RuntimeError if this is not known."""
        failures = []

        def delivered(error: object, _: Message) -> None:
            if error is not None:
                failures.append(error)

        self._producer.produce("orders", order.encode(), on_delivery=delivered)
        if self._producer.flush(FLUSH_S) or failures:
            raise RuntimeError(f"order {order} may not be stored: {failures}")


class Billing:
    """Reads orders as JSON, and bills each once; an order that cannot be read goes to a separate topic."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.billed: dict[int, int] = {}
        self._producer = Producer(config)
        self._consumer = Consumer(
            {**config, "group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        self._consumer.subscribe(["orders"])

    def work(self, timeout_s: float = 0.1) -> bool:
        """Bill the next order, if there is one."""
        message = self._consumer.poll(timeout_s)
        if message is None or message.error():
            return False
        try:
            order = json.loads(message.value() or b"")
            # A record can be processed twice after a rebalance, so billing the same number again must not change
            # anything.
            self.billed[order["id"]] = order["euros"]
        except (ValueError, KeyError):
            self._producer.produce("orders.failed", message.value(), headers={"reason": "not an order"})
            self._producer.flush(FLUSH_S)
        self._consumer.commit(message=message, asynchronous=False)
        return True

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


class Leader:
    """Leads while its ephemeral znode exists, and calls `stop` as soon as the session is suspended or lost."""

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
