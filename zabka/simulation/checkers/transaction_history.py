"""Check the history of transactional clients: requests and replies of producers, and the records that consumers read.

Producers record every transaction before they send it, and every reply.  Consumers with isolation.level=read_committed
record every record that they receive.  The rules, by the names of their violations:

READ      a record is read only if its producer has asked to commit its transaction, and no abort was acknowledged
          (Adya's G1a for aborted and G1b for unfinished transactions)
WHOLE     in the end, all or none of a transaction's records can be read, each once
KEPT      ... and all of them if the commit was acknowledged
ONCE      each input of a read-process-write loop is counted once in the output
TOGETHER  the inputs counted in the output are exactly those before the group's committed offsets; a committed
          offset that a broker returns comes from a transaction whose producer has asked to commit it
FENCED    a producer's request is not acknowledged if it was sent after a newer producer with the same transactional id
          had started
ANOMALIES the dependencies between transactions, and the consumers' reads, show no anomaly that Kafka forbids: see
          `transaction_anomalies`

If a partition lost records in a way that Kafka allows (`ReplicationAudit.forgiven`), transactions that depend on it are
not checked: those with a record in it, and those whose coordinator or group stores its state in it.  The same holds for
transactions whose end was acknowledged by a former coordinator (see `transaction_logs`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count

from zabka.journal.events import TopicPartition
from zabka.simulation.checkers.transaction_anomalies import History, Read, Transaction, analyse

READ = "read_committed returns committed records only"
WHOLE = "transactions are all or nothing"
KEPT = "acknowledged commits of transactions are kept"
ONCE = "each input is counted once"
TOGETHER = "offsets and output move together"
FENCED = "fenced producers are not answered"
ANOMALIES = "transactions show no forbidden anomaly"

IsExcused = Callable[[Iterable[TopicPartition], str], bool]
"""Returns whether one of these partitions, or the state partition of the id, lost records in a way that Kafka
allows.
"""


class Outcome(StrEnum):
    """The outcome of a transaction, as far as the transaction's producer knows it."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(slots=True, eq=False)
class Attempt:
    """One transaction from its producer's point of view.  Every record value is unique to one transaction."""

    number: int
    transactional_id: str
    records: dict[str, TopicPartition] = field(default_factory=dict)
    """Partition of each record value that the producer sent.

    A value can be in the log even if the producer got no reply.
    """
    inputs: dict[str, tuple[TopicPartition, int]] = field(default_factory=dict)
    """Inputs of a read-process-write loop whose outputs are in this transaction.

    Each record value is mapped to the partition and offset from which it was read.
    """
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    kept_in: TopicPartition | None = None
    """Partition of `__consumer_offsets` that stores the committed input offsets, or None if there are none."""
    is_commit_asked: bool = False
    outcome: Outcome = Outcome.OPEN
    is_unproven: bool = False
    """Whether a former coordinator acknowledged the end: the transaction may still be open."""
    began: int = 0
    """Position of the transaction's start in this history's sequence of observations.

    The next two fields are positions in the same sequence.
    """
    asked: int = 0
    ended: int | None = None

    @property
    def partitions(self) -> list[TopicPartition]:
        """All partitions to which the transaction writes, including the partition of its committed offsets."""
        found = list(dict.fromkeys(self.records.values()))
        return found if self.kept_in is None else [*found, self.kept_in]

    @property
    def reads(self) -> list[Read]:
        """Inputs of a read-process-write loop by partition, up to the offsets that the transaction commits."""
        found: dict[TopicPartition, dict[int, str]] = {}
        for value, (partition, offset) in self.inputs.items():
            found.setdefault(partition, {})[offset] = value
        return [Read(name, min(rows), rows, self.offsets.get(name), self.began) for name, rows in found.items()]

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.transactional_id}"


class TransactionHistory:
    """All transactions of producers and all reads of consumers in a run.

    `violations` is final after all partitions have been read to the end.
    """

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.checked: Counter[str] = Counter()
        """How often each rule was checked."""
        self.read_back: dict[TopicPartition, dict[int, str]] = {}
        """Record values that the last complete read found, by partition and offset."""
        self.group_offsets: dict[TopicPartition, int] = {}
        """The committed offsets of the read-process-write loop's group at the end."""
        self.reads: list[Read] = []
        """Reads of consumers outside of transactions."""
        self._places = count(1)
        self._by_value: dict[str, Attempt] = {}
        self._newest: dict[str, tuple[int, int]] = {}
        self._wrong: list[tuple[str, str, Attempt]] = []

    # ---- records of what producers did ------------------------------------------------------------------------------

    def begin(self, transactional_id: str) -> Attempt:
        """Record that a new transaction begins."""
        attempt = Attempt(len(self.attempts), transactional_id, began=next(self._places))
        self.attempts.append(attempt)
        return attempt

    def ending(self, attempt: Attempt, *, commit: bool) -> None:
        """Record that the producer is about to request the end of a transaction."""
        attempt.is_commit_asked, attempt.asked, attempt.outcome = commit, next(self._places), Outcome.UNKNOWN

    def unproven(self, attempt: Attempt) -> None:
        """Record that a former coordinator acknowledged the end of the transaction."""
        attempt.is_unproven = True

    def ended(self, attempt: Attempt) -> None:
        """Record that the coordinator acknowledged the end of the transaction that the producer requested."""
        attempt.outcome = Outcome.COMMITTED if attempt.is_commit_asked else Outcome.ABORTED
        attempt.ended = next(self._places)

    def sending(self, attempt: Attempt, partition: TopicPartition, value: str) -> None:
        """Note the value and partition of a record that the producer is about to send."""
        attempt.records[value] = partition
        self._by_value[value] = attempt

    def started(self, transactional_id: str, producer: tuple[int, int]) -> None:
        """Note the producer id and epoch that a producer got from InitProducerId."""
        known = self._newest.get(transactional_id, producer)
        # If two producers start at the same time, their replies can arrive in any order, so keep the higher epoch.
        self._newest[transactional_id] = max(known, producer) if known[0] == producer[0] else producer

    def newest(self, transactional_id: str) -> tuple[int, int]:
        """Return id and epoch of the newest producer with a transactional id, or (-1, -1) if none has started."""
        return self._newest.get(transactional_id, (-1, -1))

    def acknowledged(self, attempt: Attempt, producer: tuple[int, int], newest: tuple[int, int], what: str) -> None:
        """Check an acknowledged request: its producer must not have been fenced already when it sent the request.

        `newest` is the id and epoch of the newest producer with this transactional id at that time.
        """
        self.checked[FENCED] += 1
        if producer[0] == newest[0] and producer[1] < newest[1]:
            self._wrong.append((FENCED, f"{what} of producer {producer} succeeds after {newest} has started", attempt))

    # ---- checks of what consumers read ------------------------------------------------------------------------------

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

    def polled(self, partition: TopicPartition, start: int, end: int, records: Mapping[int, str]) -> None:
        """Check the records that a read_committed consumer has just received between two positions.

        `records` contains the records' values, keyed by offset.
        """
        for offset, value in records.items():
            self.read(partition, offset, value)
        if start < end:
            self.reads.append(Read(partition, start, records, end, next(self._places)))

    def offset_returned(self, partition: TopicPartition, offset: int, number: int) -> None:
        """Check that a committed offset of the group comes from a transaction that can have been committed.

        `number` is the number of that transaction in `attempts`, taken from the offset's metadata.
        """
        self.checked[TOGETHER] += 1
        attempt = self.attempts[number]
        if not attempt.is_commit_asked or attempt.outcome is Outcome.ABORTED:
            detail = f"the group is at offset {offset} of {partition}: {attempt} is {attempt.outcome}"
            self._wrong.append((TOGETHER, f"{detail}, commit requested: {attempt.is_commit_asked}", attempt))

    # ---- final checks ----------------------------------------------------------------------------------------------

    def violations(self, is_excused: IsExcused) -> list[str]:
        """Return all violations, except those of transactions that cannot be checked.

        These depend on a partition that `is_excused` exempts, or their end is unproven.
        """
        found = [(rule, detail, attempt) for rule, detail, attempt in self._wrong]
        found += self._not_whole()
        told = [
            f"{rule}: {detail}"
            for rule, detail, attempt in found
            if not attempt.is_unproven and not is_excused(attempt.partitions, attempt.transactional_id)
        ]
        return told + list(self._miscounted(is_excused)) + list(self._anomalies(is_excused))

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
        """Yield inputs that the output does not count exactly once, or that contradict the group's committed offsets.

        Check nothing if one transaction of a loop cannot be checked: such a loop can repeat or skip inputs.
        """
        loops = [attempt for attempt in self.attempts if attempt.inputs]
        inputs = self._inputs(loops)
        sources = [*self.group_offsets, *self.read_back]
        if not inputs or any(
            each.is_unproven or is_excused([*sources, *each.partitions], each.transactional_id) for each in loops
        ):
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

    def _anomalies(self, is_excused: IsExcused) -> Iterator[str]:
        """Yield the forbidden anomalies. Yield nothing until the partitions have been read to the end."""
        if self.read_back:
            analysis = analyse(self.as_appends(is_excused))
            self.checked[ANOMALIES] += analysis.checked
            yield from (f"{ANOMALIES}: {kind}: {detail}" for kind, detail in analysis.forbidden)

    def as_appends(self, is_excused: IsExcused) -> History:
        """Return the history in the form for the search for anomalies: appends to lists, and reads of these lists."""
        transactions = [
            Transaction(
                str(each), each.records, each.reads, each.began,
                each.asked if each.is_commit_asked else None, each.ended if each.is_commit_asked else None,
                is_aborted=each.outcome is Outcome.ABORTED,
                is_excused=each.is_unproven or is_excused(each.partitions, each.transactional_id),
            )
            for each in self.attempts
        ]  # fmt: skip
        return History(transactions, self.reads, self.read_back)

    def _inputs(self, loops: Iterable[Attempt]) -> Mapping[str, tuple[TopicPartition, int]]:
        """Return partition and offset of each input value, from the last complete read of the input partitions."""
        sources = dict.fromkeys(partition for attempt in loops for partition in attempt.offsets)
        return {
            value: (partition, offset)
            for partition in sources
            for offset, value in self.read_back.get(partition, {}).items()
        }
