"""The id of a broker that is configured without one: broker.id.generation.enable (shell).

As Kafka does, a broker goes on with the id in its log directory; only a new one asks the ensemble for the next.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
from zabka.broker_sim.logs.meta_properties import stored_broker_id
from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.client import Client
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.registration import create_persistent_paths, next_broker_id


async def identified(config: KafkaConfig) -> KafkaConfig:
    """The configuration with the broker's own id in it.  Raises ZooKeeperError."""
    broker_id = stored_broker_id(FileLogDirectory(Path(config.log_dir)))
    return config.identified(await _next_id(config) if broker_id is None else broker_id)


async def _next_id(config: KafkaConfig) -> int:
    runtime = AsyncioRuntime(asyncio.get_running_loop())
    client = Client(
        config.zookeeper_connect,
        AsyncioConnector(),
        runtime,
        session_timeout_ms=config.session_timeout_ms,
        name="a new broker",
    )
    try:
        await client.start()
        zk = Zk(client, runtime)
        await create_persistent_paths(zk)
        return await next_broker_id(zk, config.number("reserved.broker.max.id"))
    finally:
        await client.close()
        await runtime.cancel_all()
