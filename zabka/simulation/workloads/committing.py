"""A consumer that belongs to no group, and keeps its offsets in one: it commits one after the other for a while, and
asks at the end what was kept, when another broker may be the coordinator.

It works from a machine that no fault touches.  An attempt that fails is not made again: the next offset is committed.
"""

from __future__ import annotations

from contextlib import suppress

from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.group_client import GroupMember, GroupSettings
from zabka.simulation.judges.stored_commits import StoredCommits
from zabka.simulation.workloads.producing import RunClient

GROUP = "keeper"
PAUSE_MS = 200
_FAILURES = (KafkaRequestFailed, KafkaUnavailable)


class Committing:
    """Commits offsets 1, 2, ... of one partition until `rest()`; asked with `ask()`, it is `verified` once it was told
    what was kept."""

    def __init__(self, run_client: RunClient, name: TopicPartition, judge: StoredCommits) -> None:
        self.verified = False
        self._name = name
        self._judge = judge
        self._rests = False
        self._asks = False
        run_client("committer", self._run)

    @property
    def acknowledged(self) -> int:
        """The offset that was acknowledged last; -1 before there is one."""
        return self._judge.acknowledged

    def rest(self) -> None:
        """Commit no more."""
        self._rests = True

    def ask(self) -> None:
        """Commit no more, and ask what was kept."""
        self._rests = self._asks = True

    async def _run(self, client: KafkaClient, runtime: Runtime) -> None:
        member = GroupMember(client, GroupSettings(GROUP, (self._name.topic,)))
        offset = 0
        while not self._rests:
            offset += 1
            self._judge.asked(offset)
            with suppress(*_FAILURES):
                await member.commit_alone({self._name: offset})
                self._judge.was_acknowledged(offset)
            await runtime.sleep(PAUSE_MS)
        while not self._asks:
            await runtime.sleep(PAUSE_MS)
        while not self.verified:
            with suppress(*_FAILURES):
                found = await member.committed([self._name])
                self._judge.was_answered(found[self._name])
                self.verified = True
            await runtime.sleep(PAUSE_MS)
