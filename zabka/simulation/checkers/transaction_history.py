"""The history of transactional clients: their requests and replies, and the records that consumers read.

Producers record every transaction before they send it, and every reply.  Consumers with isolation.level=read_committed
record every record that they receive.  The rules, by the names of their violations:

READ      a record is read only if its producer has asked to commit its transaction, and no abort was acknowledged
          (Adya's G1a for aborted and G1b for unfinished transactions)
WHOLE     in the end, all or none of a transaction's records can be read, each once
KEPT      ... and all of them if the commit was acknowledged
ONCE      each input of a read-process-write loop is counted once in the output
TOGETHER  the inputs in the output are those before the group's committed offsets; a committed offset that is
          returned belongs to a transaction whose producer has asked to commit it
FENCED    a producer gets no acknowledgement for a request that it sent after a newer producer with the same
          transactional id had started

If a partition lost records as Kafka allows (`ReplicationAudit.forgiven`), the transactions that depend on it are not
checked: those with a record in it, and those whose coordinator or group stores its state in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from zabka.journal.events import TopicPartition

READ = "read_committed returns committed records only"
WHOLE = "transactions are all or nothing"
KEPT = "acknowledged commits of transactions are kept"
ONCE = "each input is counted once"
TOGETHER = "offsets and output move together"
FENCED = "fenced producers are not answered"

IsExcused = Callable[[Iterable[TopicPartition], str], bool]
"""Returns whether one of these partitions, or a transactional id's state partition, lost records as allowed."""


class Outcome(StrEnum):
    """The outcome of a transaction, as far as its producer knows it."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(slots=True, eq=False)
class Attempt:
    """One transaction as its producer sees it.  No other transaction writes the same values."""

    number: int
    transactional_id: str
    records: dict[str, TopicPartition] = field(default_factory=dict)
    """The sent values, with their partitions.  A value may be stored even if there was no reply."""
    inputs: dict[str, None] = field(default_factory=dict)
    """The input values whose output this transaction contains."""
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    kept_in: TopicPartition | None = None
    """The partition that stores the committed offsets of the inputs."""
    is_commit_asked: bool = False
    outcome: Outcome = Outcome.OPEN

    @property
    def partitions(self) -> list[TopicPartition]:
        """All partitions of the transaction."""
        found = list(dict.fromkeys(self.records.values()))
        return found if self.kept_in is None else [*found, self.kept_in]

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.transactional_id}"


class TransactionHistory:
    """All transactions and reads of a run.  `violations` is final once everything was read to the end."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.checked: Counter[str] = Counter()
        """How often each rule was checked."""
        self.read_back: dict[TopicPartition, dict[int, str]] = {}
        """The values found by the last complete read, by partition and offset."""
        self.group_offsets: dict[TopicPartition, int] = {}
        """The committed offsets of the read-process-write loop's group at the end."""
        self._by_value: dict[str, Attempt] = {}
        self._newest: dict[str, tuple[int, int]] = {}
        self._wrong: list[tuple[str, str, Attempt]] = []

    # ---- notes of producers -----------------------------------------------------------------------------------------

    def begin(self, transactional_id: str) -> Attempt:
        """Record the begin of a new transaction."""
        attempt = Attempt(len(self.attempts), transactional_id)
        self.attempts.append(attempt)
        return attempt

    def sending(self, attempt: Attempt, partition: TopicPartition, value: str) -> None:
        """Record a record before it is sent."""
        attempt.records[value] = partition
        self._by_value[value] = attempt

    def started(self, transactional_id: str, producer: tuple[int, int]) -> None:
        """Record that a producer got its producer id and epoch."""
        known = self._newest.get(transactional_id, producer)
        # If two producers start at the same time, their replies can arrive in any order, so keep the higher epoch.
        self._newest[transactional_id] = max(known, producer) if known[0] == producer[0] else producer

    def newest(self, transactional_id: str) -> tuple[int, int]:
        """Return the id and epoch of the newest producer of a transactional id; -1 for both before the first."""
        return self._newest.get(transactional_id, (-1, -1))

    def acknowledged(self, attempt: Attempt, producer: tuple[int, int], newest: tuple[int, int], what: str) -> None:
        """Check the acknowledgement of a producer's request; `newest` is the newest producer when it was sent."""
        self.checked[FENCED] += 1
        if producer[0] == newest[0] and producer[1] < newest[1]:
            self._wrong.append((FENCED, f"{what} of producer {producer} succeeds after {newest} has started", attempt))

    # ---- notes of consumers -----------------------------------------------------------------------------------------

    def read(self, partition: TopicPartition, offset: int, value: str) -> None:
        """Check a record that a read_committed consumer has just received."""
        self.checked[READ] += 1
        attempt = self._by_value.get(value)
        if attempt is None:
            nobody = Attempt(-1, "no producer", {value: partition})
            self._wrong.append((READ, f"{partition} offset {offset} is {value}, which was never sent", nobody))
        elif not attempt.is_commit_asked or attempt.outcome is Outcome.ABORTED:
            state = attempt.outcome if attempt.is_commit_asked else f"{attempt.outcome}, and no commit was requested"
            self._wrong.append((READ, f"{partition} offset {offset} is {value}: {attempt} is {state}", attempt))

    def offset_returned(self, partition: TopicPartition, offset: int, number: int) -> None:
        """Check a committed offset of the group that was just returned, with the number of its transaction."""
        self.checked[TOGETHER] += 1
        attempt = self.attempts[number]
        if not attempt.is_commit_asked or attempt.outcome is Outcome.ABORTED:
            detail = f"the group is at offset {offset} of {partition}: {attempt} is {attempt.outcome}"
            self._wrong.append((TOGETHER, f"{detail}, commit requested: {attempt.is_commit_asked}", attempt))

    # ---- the verdict -----------------------------------------------------------------------------------------------

    def violations(self, is_excused: IsExcused) -> list[str]:
        """Return all violations, except violations by transactions that `is_excused` exempts."""
        found = [(rule, detail, attempt) for rule, detail, attempt in self._wrong]
        found += self._not_whole()
        told = [
            f"{rule}: {detail}"
            for rule, detail, attempt in found
            if not is_excused(attempt.partitions, attempt.transactional_id)
        ]
        return told + list(self._miscounted(is_excused))

    def _not_whole(self) -> Iterator[tuple[str, str, Attempt]]:
        times = Counter(value for found in self.read_back.values() for value in found.values())
        for attempt in self.attempts:
            if not self.read_back or not attempt.is_commit_asked:
                continue
            counts = {value: times[value] for value in attempt.records}
            repeated = [value for value, count in counts.items() if count > 1]
            missing = [value for value, count in counts.items() if not count]
            self.checked[WHOLE] += 1
            if repeated:
                yield WHOLE, f"{repeated} of {attempt} are stored more than once", attempt
            if missing and len(missing) < len(counts):
                yield WHOLE, f"{missing} of {attempt} ({attempt.outcome}) are not stored, the others are", attempt
            if attempt.outcome is Outcome.COMMITTED:
                self.checked[KEPT] += 1
                if missing:
                    yield KEPT, f"{missing} of {attempt} are lost", attempt

    def _miscounted(self, is_excused: IsExcused) -> Iterator[str]:
        """Compare the inputs with the output, unless `is_excused` exempts a loop: its group may repeat or skip
        inputs.
        """
        loops = [attempt for attempt in self.attempts if attempt.inputs]
        inputs = self._inputs(loops)
        sources = [*self.group_offsets, *self.read_back]
        if not inputs or any(is_excused([*sources, *each.partitions], each.transactional_id) for each in loops):
            return
        stored = {value for found in self.read_back.values() for value in found.values()}
        counted = Counter(source for each in loops if each.records.keys() <= stored for source in each.inputs)
        for value, (partition, offset) in inputs.items():
            self.checked[ONCE] += 1
            is_done = offset < self.group_offsets.get(partition, 0)
            if counted[value] > 1:
                yield f"{ONCE}: {value} at {partition} offset {offset} is counted {counted[value]} times"
            elif is_done != bool(counted[value]):
                yield (
                    f"{TOGETHER}: {value} at {partition} offset {offset} is counted {counted[value]} times; "
                    f"the group is at {self.group_offsets.get(partition, 0)}"
                )

    def _inputs(self, loops: Iterable[Attempt]) -> Mapping[str, tuple[TopicPartition, int]]:
        """Return the committed inputs of the loops by value: all values in the partitions that the loops have read."""
        sources = dict.fromkeys(partition for attempt in loops for partition in attempt.offsets)
        return {
            value: (partition, offset)
            for partition in sources
            for offset, value in self.read_back.get(partition, {}).items()
        }
