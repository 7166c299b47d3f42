"""Topic configurations for the controller: the override in /config/topics/T, otherwise the brokers' default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from zabka.controller.config import ControllerConfig
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ports import Runtime
from zabka.ensemble.records import Stat
from zabka.kafka.zk.coordination import Outcome, Zk
from zabka.kafka.zk.znodes import DEFAULT_ENTITY, INT32_MAX, config_path, decode_config, plain_number

UNCLEAN = "unclean.leader.election.enable"
MINIMUM = "min.insync.replicas"


class MinimumInSync(NamedTuple):
    """min.insync.replicas of a topic, and the last transaction that wrote the znodes from which it was read."""

    size: int
    zxid: int


_Config = tuple[bytes, Stat]


class TopicConfigs:
    """Reads topic configurations when the controller needs them for an election (KafkaZkClient.getLogConfigs)."""

    def __init__(self, zk: Zk, runtime: Runtime, config: ControllerConfig) -> None:
        self._zk = zk
        self._runtime = runtime
        self._config = config
        self._minimums: dict[str, MinimumInSync] = {}

    async def unclean_enabled(self, topics: Sequence[str]) -> dict[str, bool | str]:
        """Return for each topic whether unclean leader election is enabled, or the error if its configuration is
        invalid.
        """
        found: dict[str, bool | str] = {}
        for topic, outcome in zip(topics, await self._read(config_path("topics", t) for t in topics), strict=True):
            if outcome.value is not None:
                found[topic] = self._permission(outcome.value[0])
            elif outcome.error is ErrorCode.NO_NODE:
                found[topic] = self._config.unclean_leader_election_enable
            else:
                found[topic] = outcome.error.name
        return found

    async def _read(self, paths: Iterable[str]) -> Sequence[Outcome[_Config]]:
        return await self._zk.batch([partial(self._zk.service.get, path) for path in paths])

    def _permission(self, data: bytes) -> bool | str:
        overrides = decode_config(data)
        if overrides is None:
            return "not readable"
        value = overrides.get(UNCLEAN)
        if value is None:
            return self._config.unclean_leader_election_enable
        # Kafka's ConfigDef accepts booleans in any case, and rejects everything else.
        flag = value.strip().lower()
        return flag == "true" if flag in ("true", "false") else f"{UNCLEAN}={value}"

    # -- min.insync.replicas

    async def minimums(self, topics: Sequence[str]) -> dict[str, MinimumInSync]:
        """Return min.insync.replicas of these topics, all as of the same time.

        Omit a topic if its configuration is not readable, or if its leader may not have received the last change yet. A
        leader has a session, so it has received everything that was written more than one session timeout ago.
        """
        unknown = [topic for topic in topics if topic not in self._minimums]
        if unknown:
            every, *outcomes = await self._read(
                [config_path("brokers", DEFAULT_ENTITY), *(config_path("topics", topic) for topic in unknown)]
            )
            for topic, outcome in zip(unknown, outcomes, strict=True):
                minimum = self._minimum(every, outcome)
                if minimum is not None:
                    self._minimums[topic] = minimum
        return {topic: self._minimums[topic] for topic in topics if topic in self._minimums}

    def forget_minimums(self, topics: Iterable[str]) -> None:
        """Drop the cached min.insync.replicas of these topics, so that the next use reads them again."""
        for topic in topics:
            self._minimums.pop(topic, None)

    def _minimum(self, every: Outcome[_Config], own: Outcome[_Config]) -> MinimumInSync | None:
        """Return min.insync.replicas from the topic's own configuration or else from the brokers' default."""
        now_ms = self._runtime.now().wall_ms
        text, zxid = str(self._config.min_insync_replicas), 0
        for outcome in (every, own):
            if outcome.value is None:
                if outcome.error is ErrorCode.NO_NODE:
                    continue
                return None
            data, stat = outcome.value
            overrides = decode_config(data)
            # Version 0 of a topic's config znode is not a change, because the znode is created before the topic has a
            # leader. The znode of the brokers' default is created only when the default is first set, so any version of
            # it is a change.
            is_change = stat.version > 0 or outcome is every
            is_fresh = is_change and now_ms - stat.mtime < 2 * self._config.session_timeout_ms
            if overrides is None or is_fresh:
                return None
            text, zxid = overrides.get(MINIMUM, text), max(zxid, stat.mzxid)
        size = plain_number(text, INT32_MAX)
        return None if size is None else MinimumInSync(size, zxid)
