"""A member of a consumer group in a script: it joins, sends heartbeats, reads, and commits when a step requests it."""

from __future__ import annotations

from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.group_client import GroupMember, GroupSettings
from zabka.kafka.ports import ChannelBroken
from zabka.simulation.scenarios.kafka_clients import OK, PATIENCE_MS, UNAVAILABLE

RETRY_MS = 200
HEARTBEATS = 5
"""Number of heartbeats in a session timeout."""
_FAILURES = (KafkaRequestFailed, KafkaUnavailable, ChannelBroken)


class ScriptedMember:
    """A member of a consumer group, which continues from the offset that the group has committed."""

    def __init__(self, admin: AdminClient, runtime: Runtime, settings: GroupSettings) -> None:
        self._admin = admin
        self._runtime = runtime
        self._settings = settings
        self._member = GroupMember(admin, settings)
        self._positions: dict[TopicPartition, int] = {}

    async def join(self) -> str:
        """Join the group, and begin to send heartbeats.  Return `ok`, an error's name, or `unavailable`.

        Retry while the coordinator is being elected or loads its log.
        """
        until_ms = self._runtime.now().mono_ms + PATIENCE_MS
        while True:
            try:
                assigned = await self._member.join()
                committed = await self._member.committed(assigned) if assigned else {}
            except _FAILURES as failure:
                if self._runtime.now().mono_ms >= until_ms:
                    return _name(failure)
                await self._runtime.sleep(RETRY_MS)
                continue
            self._positions = {each: max(0, committed[each]) for each in assigned}
            self._runtime.spawn(self._stay(), f"heartbeats in {self._settings.group_id}")
            return OK

    async def _stay(self) -> None:
        """Send heartbeats until the coordinator requires a rejoin."""
        while self._member.joined:
            await self._runtime.sleep(self._settings.session_timeout_ms // HEARTBEATS)
            try:
                await self._member.heartbeat()
            except _FAILURES:
                continue

    async def read(self, partition: TopicPartition) -> tuple[str, ...]:
        """Return the values of all records from the member's position on.  It has none of a partition of another."""
        if partition not in self._positions:
            return ()
        values: list[str] = []
        while True:
            position = self._positions[partition]
            fetched = await self._admin.fetch(partition, position, max_wait_ms=1, timeout_ms=PATIENCE_MS)
            if fetched.next_offset == position:
                return tuple(values)
            values += [(record.value or b"").decode() for record in fetched.records]
            self._positions[partition] = fetched.next_offset

    async def commit(self) -> str:
        """Commit the member's positions.  Return `ok`, an error's name, or `unavailable`."""
        try:
            await self._member.commit_alone(self._positions)
        except _FAILURES as failure:
            return _name(failure)
        return OK


def _name(failure: Exception) -> str:
    return failure.error.name if isinstance(failure, KafkaRequestFailed) else UNAVAILABLE
