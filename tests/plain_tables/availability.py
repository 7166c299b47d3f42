"""The table `availability`: how long each partition was in each state, summed over the times between journal lines."""

from __future__ import annotations

from tests.plain_tables.journals import Row
from tests.plain_tables.partitions import deletions, end_of, writes_of_lives

STATES = ("offline", "leader_down", "under_min_isr", "isr_stalled", "planned", "unseen")


class Cluster:
    """State of a cluster after some journal lines.

    It contains which brokers run, which links are partitioned, and each topic's min.insync.replicas.
    """

    def __init__(self) -> None:
        self.stopped: dict[int, str] = {}
        """Reason why a broker does not run: leader_down or planned. Running brokers have no entry."""
        self.cuts: dict[str, Row] = {}
        self._minimum: dict[str, int] = {}
        self._default = 1

    def take(self, line: Row) -> None:
        match line["type"]:
            case "process_changed" if line["target"].startswith("broker-"):
                self._process(int(line["target"][7:]), line)
            case "node_stopped" if line["node"].startswith("broker-"):
                self.stopped[int(line["node"][7:])] = "planned"
            case "node_started" if line.get("role") == "broker":
                self._default = int(line["config"].get("min.insync.replicas", 1))
            case "fault_injected" if line["kind"] == "cut":
                self.cuts[line["fault_id"]] = line
            case "fault_removed":
                self.cuts.pop(line["fault_id"], None)
            case "config_changed" if line["entity"].startswith("topics/"):
                config = line["config"]
                self._minimum[line["entity"][7:]] = int(config.get("min.insync.replicas", self._default))

    def _process(self, broker: int, line: Row) -> None:
        if line["process"] == "running":
            self.stopped.pop(broker, None)
        else:
            planned = line["action"] in ("stop", "restart") or self.stopped.get(broker) == "planned"
            self.stopped[broker] = "planned" if planned else "leader_down"

    def minimum(self, topic: str) -> int:
        return self._minimum.get(topic, self._default)

    def is_cut(self, leader: int, member: int) -> bool:
        """Return whether the link between two brokers is partitioned in at least one direction.

        In a fault, * means all other nodes.
        """
        names = (f"broker-{leader}", f"broker-{member}")
        return leader != member and any(
            (each["source"] in names and each["target"] in (*names, "*"))
            or (each["source"] == "*" and each["target"] in names)
            for each in self.cuts.values()
        )

    def state(self, write: Row) -> str | None:
        """Return the name of the state that prevents writes with acks=all to the partition, or None."""
        leader, isr = write["leader"], write["isr"]
        if leader < 0:
            return "offline"
        if leader in self.stopped:
            return self.stopped[leader]
        if len(isr) < self.minimum(write["topic"]):
            return "under_min_isr"
        if any(each in self.stopped or self.is_cut(leader, each) for each in isr):
            return "isr_stalled"
        return None


def availability(lines: list[Row]) -> list[Row]:
    """Return the rows of the table `availability`: how long each partition was in each state."""
    deleted = deletions(lines)
    rows: dict[tuple[str, int], Row] = {}
    for life, writes in writes_of_lives(lines).items():
        replicas = {line["partition_epoch"]: len(line["replicas"]) for line in writes if "replicas" in line}
        begin, end = writes[0]["mono_us"], (end_of(life, deleted) or lines[-1])["mono_us"]
        row = rows.setdefault(life[:2], {"topic": life[0], "partition": life[1], "elections": 0, "unclean_elections": 0,
                                         **dict.fromkeys((*STATES, "under_replicated", "rest"), 0)})  # fmt: skip
        elections = [line for line in writes if line["type"] == "leader_elected"]
        row["elections"] += len(elections)
        row["unclean_elections"] += sum(line["unclean"] for line in elections)
        _add_up(row, lines, {id(line) for line in writes}, begin, end, replicas)
    return [_finished(row) for row in rows.values()]


def _add_up(row: Row, lines: list[Row], writes: set[int], begin: int, end: int, replicas: dict[int, int]) -> None:
    cluster, write = Cluster(), None
    count = next(iter(replicas.values()))
    for line, following in zip(lines, [*lines[1:], lines[-1]], strict=True):
        cluster.take(line)
        if id(line) in writes and (write is None or line["partition_epoch"] > write["partition_epoch"]):
            write = line
            count = replicas.get(line["partition_epoch"], count)
        length = min(following["mono_us"], end) - max(line["mono_us"], begin)
        if write is None or length <= 0:
            continue
        state = cluster.state(write)
        row[state or "rest"] += length
        if state not in ("planned", "unseen") and len(write["isr"]) < count:
            row["under_replicated"] += length


def _finished(row: Row) -> Row:
    parts = {f"{name}_ms": row[name] // 1000 for name in (*STATES, "under_replicated")}
    observed = sum(row[name] for name in (*STATES, "rest") if name not in ("planned", "unseen")) // 1000
    for_one = observed - parts["offline_ms"] - parts["leader_down_ms"]
    for_all = for_one - parts["under_min_isr_ms"] - parts["isr_stalled_ms"]
    return {
        "topic": row["topic"], "partition": row["partition"], "observed_ms": observed, **parts,
        "available_acks_1_ms": for_one, "availability_acks_1": for_one / observed,
        "available_acks_all_ms": for_all, "availability_acks_all": for_all / observed,
        "elections": row["elections"], "unclean_elections": row["unclean_elections"],
    }  # fmt: skip
