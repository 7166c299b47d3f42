"""A consumer that commits offsets for a group without being a member of it.

It commits one offset after another for a while.  At the end, when the coordinator may have moved to another broker, it
fetches the committed offset.  It runs on a machine without faults.  It does not retry a failed commit, but commits the
next offset.
"""

from __future__ import annotations

from contextlib import suppress

from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.client.client import KafkaClient
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.client.group_client import GroupMember, GroupSettings
from zabka.simulation.checkers.stored_commits import StoredCommits
from zabka.simulation.cluster.client_machine import RunKafkaClient

GROUP = "keeper"
PAUSE_MS = 200
_FAILURES = (KafkaRequestFailed, KafkaUnavailable)


class Committing:
    """Commits the offsets 1, 2, ... for one partition until `rest()` is called.

    After `ask()`, `verified` becomes True when the coordinator has returned the committed offset.
    """

    def __init__(self, run_client: RunKafkaClient, name: TopicPartition, check: StoredCommits) -> None:
        self.verified = False
        self._name = name
        self._check = check
        self._rests = False
        self._asks = False
        run_client("committer", self._run)

    @property
    def acknowledged(self) -> int:
        """Return the last offset whose commit was acknowledged, or -1 if there is none."""
        return self._check.acknowledged

    def rest(self) -> None:
        """Stop committing."""
        self._rests = True

    def ask(self) -> None:
        """Stop committing, and then fetch the committed offset."""
        self._rests = self._asks = True

    async def _run(self, client: KafkaClient, runtime: Runtime) -> None:
        member = GroupMember(client, GroupSettings(GROUP, (self._name.topic,)))
        offset = 0
        while not self._rests:
            offset += 1
            self._check.asked(offset)
            with suppress(*_FAILURES):
                await member.commit_alone({self._name: offset})
                self._check.was_acknowledged(offset)
            await runtime.sleep(PAUSE_MS)
        while not self._asks:
            await runtime.sleep(PAUSE_MS)
        while not self.verified:
            with suppress(*_FAILURES):
                found = await member.committed([self._name])
                self._check.was_answered(found[self._name])
                self.verified = True
            await runtime.sleep(PAUSE_MS)
