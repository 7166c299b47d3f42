"""Whether unclean elections are allowed: the topic's override in /config/topics/T, else the broker's default."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from controller.config import ControllerConfig
from controller.coordination import Zk
from controller.znodes import config_path, decode_config
from ensemble.errors import ErrorCode

UNCLEAN = "unclean.leader.election.enable"


class TopicConfigs:
    """Reads topic configurations when an election needs them (KafkaZkClient.getLogConfigs)."""

    def __init__(self, zk: Zk, config: ControllerConfig) -> None:
        self._zk = zk
        self._config = config

    async def unclean_enabled(self, topics: Sequence[str]) -> dict[str, bool | str]:
        """For each topic the permission, or what is wrong with its configuration."""
        service = self._zk.service
        outcomes = await self._zk.batch([partial(service.get, config_path("topics", t)) for t in topics])
        found: dict[str, bool | str] = {}
        for topic, outcome in zip(topics, outcomes, strict=True):
            if outcome.value is not None:
                found[topic] = self._permission(outcome.value[0])
            elif outcome.error is ErrorCode.NO_NODE:
                found[topic] = self._config.unclean_leader_election_enable
            else:
                found[topic] = outcome.error.name
        return found

    def _permission(self, data: bytes) -> bool | str:
        overrides = decode_config(data)
        if overrides is None:
            return "not readable"
        value = overrides.get(UNCLEAN)
        if value is None:
            return self._config.unclean_leader_election_enable
        # Kafka's ConfigDef takes booleans in any case, and refuses everything else.
        word = value.strip().lower()
        return word == "true" if word in ("true", "false") else f"{UNCLEAN}={value}"
