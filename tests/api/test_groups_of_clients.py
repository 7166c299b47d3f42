"""GET /groups on a live cluster with a consumer of another project: aiokafka."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer

from zabka.testing.live.cluster import LiveCluster


async def consume_and_commit(config: dict[str, Any], records: int) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(
        "orders", group_id="payments/eu", client_id="billing", auto_offset_reset="earliest", **config
    )
    await consumer.start()
    for _ in range(records):
        await consumer.getone()
    await consumer.commit()
    return consumer


def test_group_of_another_projects_client_shows_its_lag(zabka_cluster: LiveCluster) -> None:
    cluster = zabka_cluster
    cluster.topics.create("orders", partitions=1)
    cluster.produce("orders", ["a", "b", "c"])

    def is_first_generation() -> bool:
        # The generation comes from the coordinator's journal, which arrives later.
        return bool(cluster.get("/api/v1/groups/payments/eu")["generation"] == 1)

    async def scenario() -> None:
        config = cluster.client_config("aiokafka")
        consumer = await consume_and_commit(config, 3)
        await asyncio.to_thread(cluster.produce, "orders", ["d", "e"])
        # The consumer commits no further offset before it stops.
        found = await asyncio.to_thread(cluster.get, "/api/v1/groups/payments/eu")
        (member,) = found["members"]
        assert (found["state"], found["protocol_type"], found["lag"]) == ("Stable", "consumer", 2)
        assert (member["client_id"], member["partitions"]) == ("billing", ["orders-0"])
        assert found["coordinator"] == (await asyncio.to_thread(cluster.coordinator, "payments/eu")).id
        (offset,) = found["offsets"]
        assert (offset["committed"], offset["end"], offset["member_id"]) == (3, 5, member["member_id"])
        await asyncio.to_thread(cluster.until, is_first_generation, 30, "the event of the first generation")
        await consumer.stop()

    asyncio.run(scenario())
    cluster.until(lambda: cluster.get("/api/v1/groups/payments/eu")["state"] == "Empty", 30, "an empty group")
    assert [group["id"] for group in cluster.get("/api/v1/groups")["groups"]] == ["payments/eu"]
