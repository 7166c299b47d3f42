"""Steps of a script about consumer groups.  Each member runs on its own machine, named `client-NAME`."""

from __future__ import annotations

from zabka.kafka.client.group_client import GroupMember, GroupSettings
from zabka.simulation.scenarios.kafka_clients import OK, partition_of
from zabka.simulation.scenarios.kafka_steps import asked
from zabka.simulation.scenarios.stage import Stage
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.scenarios.world_steps import WorldStep


class JoinGroup(WorldStep, frozen=True):
    """Start a member of a consumer group, and wait until it has its partitions.

    This takes until the sessions of members that do not reply have expired.
    """

    member: str
    group: str
    topics: tuple[str, ...]
    session_timeout_ms: int = 10_000

    def play(self, stage: Stage) -> None:
        """Join the group and wait for the assignment."""
        settings = GroupSettings(self.group, self.topics, session_timeout_ms=self.session_timeout_ms)
        member, machine = stage.add_member(self.member, settings)
        answer = stage.finish(machine, member.join(), f"{self.member} to join {self.group}")
        if answer != OK:
            raise StepFailed(f"{self.member} joins {self.group}: {answer}")


class Consume(WorldStep, frozen=True):
    """Check that a member reads exactly these values from a partition, from its position to the high watermark."""

    member: str
    partition: str
    expect: tuple[str, ...]

    def play(self, stage: Stage) -> None:
        """Read all records, without committing the new position."""
        member, machine = stage.member(self.member)
        what = f"records for {self.member}"
        found = asked(stage, member.read(partition_of(self.partition)), what, machine)
        if found != self.expect:
            raise StepFailed(f"{self.member} reads {', '.join(found) or 'no record'}, not {', '.join(self.expect)}")


class CommitOffsets(WorldStep, frozen=True):
    """Make a member commit its positions. The result must be in `expect`."""

    member: str
    expect: tuple[str, ...] = (OK,)

    def play(self, stage: Stage) -> None:
        """Send OffsetCommit and wait for the reply."""
        member, machine = stage.member(self.member)
        answer = stage.finish(machine, member.commit(), f"the commit of {self.member}")
        if answer not in self.expect:
            raise StepFailed(f"the commit of {self.member} came to {answer}, not {self.expect}")


class PauseMember(WorldStep, frozen=True):
    """Pause a member's process, as a long garbage collection does: it sends no heartbeats."""

    member: str

    def play(self, stage: Stage) -> None:
        """Pause the process, and write an event for this to the journal."""
        _, machine = stage.member(self.member)
        stage.world.announce("pause", machine.name)
        machine.pause()


class ResumeMember(WorldStep, frozen=True):
    """Resume the process of a paused member."""

    member: str

    def play(self, stage: Stage) -> None:
        """Resume the process."""
        _, machine = stage.member(self.member)
        machine.resume()


class Committed(WorldStep, frozen=True):
    """Check the offset that a group has committed for a partition."""

    group: str
    partition: str
    offset: int

    def play(self, stage: Stage) -> None:
        """Ask the coordinator for the offset."""
        partition = partition_of(self.partition)
        reader = GroupMember(stage.kafka.admin, GroupSettings(self.group, (partition.topic,)))
        found = asked(stage, reader.committed([partition]), f"the offset of {self.group}")[partition]
        if found != self.offset:
            raise StepFailed(f"{self.group} has committed offset {found} of {self.partition}, not {self.offset}")


GroupSteps = JoinGroup | Consume | CommitOffsets | PauseMember | ResumeMember | Committed
