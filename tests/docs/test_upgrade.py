"""Each row of the table in docs/how-to/upgrade.md, tested with files as an older or newer zabka would write them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from zlib import adler32

import msgspec
import pytest
from typer.testing import CliRunner

from tests.api.api_server import FakeAgent, settings
from tests.broker_sim.logs.small_log import append
from tests.broker_sim.replication.replication_cluster import TP, batch
from tests.docs.documents import DOCS, ROOT
from tests.ensemble.server.process.test_errors import config_of
from tests.ensemble.txnlog.test_formats import a_txn
from tests.ensemble.txnlog.test_recovery import EPOCH_1, counters, directories_with
from tests.kafka.produced import headers_of
from zabka.agent.protocol import NEWER_STATE, JournalAnswer, JournalChunk, Position
from zabka.api.collector.agents import Agents
from zabka.api.collector.collector import Collector
from zabka.api.runs.catalogue import LIVE, Runs
from zabka.api.runs.intake import NoHistory, read_history
from zabka.api.runs.kept import JOURNAL, KeptRuns
from zabka.api.runs.messages import RunMessages, Window
from zabka.api.runs.run_models import Run
from zabka.broker_sim.logs import checkpoints, meta_properties, producer_snapshots
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
from zabka.broker_sim.logs.meta_properties import InconsistentMetaProperties, claim_log_directory
from zabka.broker_sim.logs.partition_log import PartitionLog
from zabka.cli.pipeline import jobs_of_spark
from zabka.compose.plan import Requested, plan
from zabka.compose.topology import LAYOUT_VERSION, BadTopology, load, save
from zabka.ensemble.server.process.ownership import claim
from zabka.ensemble.txnlog import snapshots
from zabka.ensemble.txnlog.epochs import ACCEPTED, CURRENT, read_epoch, write_epoch
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.records import END_OF_RECORD, HEADER, LOG_MAGIC, LOG_VERSION, RECORD_HEAD
from zabka.ensemble.txnlog.recovery import recover
from zabka.ensemble.txnlog.snapshots import SNAPSHOT_HEADER, SNAPSHOT_MAGIC
from zabka.journal import events as e
from zabka.journal import message_log
from zabka.journal.events import SCHEMA_VERSION, Entry
from zabka.journal.reader import BadLine, read_directory
from zabka.journal.sightings import Sighting, sighting_line
from zabka.journal.writer import encode_line
from zabka.kafka.record_batch import MAGIC
from zabka.pipeline import jobs, stream
from zabka.pipeline.audits.histories import histories
from zabka.pipeline.campaign import ledger
from zabka.pipeline.entries import Refused, check_line
from zabka.pipeline.lake import commits
from zabka.pipeline.lake.commits import Commit, Lines, NewerLake

PAGE = (DOCS / "how-to" / "upgrade.md").read_text()
SNAPSHOT_VERSION: int = HEADER.unpack(SNAPSHOT_HEADER)[1]
NONE_EXISTS = "none exists"
VERSIONS: dict[str, int | None] = {
    "journal": SCHEMA_VERSION,
    "messages": None,
    "collected history": SCHEMA_VERSION,
    "kept run": SCHEMA_VERSION,
    "topology": LAYOUT_VERSION,
    "lake": commits.FORMAT,
    "campaign": None,
    "transaction log": LOG_VERSION,
    "snapshot": SNAPSHOT_VERSION,
    "epoch files, `.owner`": None,
    "`meta.properties`": meta_properties.VERSION,
    "segment": MAGIC,
    "checkpoint": int(checkpoints._VERSION),
    "producer snapshot": producer_snapshots._VERSION,
    "`partition.metadata`": int(checkpoints._partition_metadata("x").split("\n")[0].removeprefix("version: ")),
}
"""Format versions that the code writes, keyed by the format's name in docs/how-to/upgrade.md."""

Show = Callable[[Path], str]
OLDER: dict[str, Show] = {}
NEWER: dict[str, Show] = {}
"""For each file format, a check of how a newer file is handled.

Each check returns the text that the table in the upgrade page must contain.
"""


def older(name: str) -> Callable[[Show], Show]:
    return lambda show: OLDER.setdefault(name, show)


def newer(name: str) -> Callable[[Show], Show]:
    return lambda show: NEWER.setdefault(name, show)


def rows() -> dict[str, tuple[str, str, str]]:
    """Return the page's table: for each format, its version and how older and newer files are handled."""
    table = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
    return {name: (version, old, new) for name, version, old, new in table if name not in ("format", "---")}


CELLS = [
    (name, direction, cell)
    for name, (_, old, new) in rows().items()
    for direction, cell in (("older", old), ("newer", new))
    if cell != NONE_EXISTS
]


@pytest.mark.parametrize(("name", "direction", "cell"), CELLS, ids=[f"{name} {way}" for name, way, _ in CELLS])
def test_file_of_another_version_is_handled_as_documented(name: str, direction: str, cell: str, tmp_path: Path) -> None:
    assert (OLDER if direction == "older" else NEWER)[name](tmp_path) == cell


def test_upgrade_table_has_exactly_one_case_per_cell() -> None:
    cases = {(name, "older") for name in OLDER} | {(name, "newer") for name in NEWER}
    assert cases == {(name, direction) for name, direction, _ in CELLS}


def test_versions_in_the_upgrade_table_equal_those_in_the_code() -> None:
    found = {name: re.findall(r"\d+", version) for name, (version, _, _) in rows().items()}
    assert found == {name: [] if number is None else [str(number)] for name, number in VERSIONS.items()}


def test_release_on_the_upgrade_page_matches_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert PAGE.split("\n")[2].startswith(f"zabka {version} is the first release")
    assert re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE) == [version]


def test_figures_on_the_upgrade_page_equal_those_in_the_code() -> None:
    assert f"exit code {NEWER_STATE};" in " ".join(PAGE.split())
    assert f"newest {message_log.FILE_LINES * message_log.FILES_MAX:,} messages" in " ".join(PAGE.split())
    assert [LOG_MAGIC.to_bytes(4, "big"), SNAPSHOT_MAGIC.to_bytes(4, "big")] == [b"ZKLG", b"ZKSN"]
    assert "`ZKLG`" in PAGE and "`ZKSN`" in PAGE


# ---- journals and the API's data -----------------------------------------------------------------------------------

FAULT = e.FaultInjected("f1", "cut", "peer-1", "peer-2", both_ways=True)
STARTED = e.NodeStarted("peer", 1, {})


def edited(line: bytes, *dropped: str, **changed: Any) -> bytes:
    """Return a JSON line with some fields dropped and others changed."""
    fields = {name: value for name, value in json.loads(line).items() if name not in dropped}
    return json.dumps({**fields, **changed}, separators=(",", ":")).encode() + b"\n"


def journal(directory: Path, *lines: bytes) -> Path:
    path = directory / "peer-1.000000000001.jsonl"
    path.write_bytes(b"".join(lines))
    return path


@older("journal")
def read_journal_without_newer_fields(tmp_path: Path) -> str:
    assert FAULT.delay_ms == 0
    journal(tmp_path, edited(encode_line("peer-1", 1, 1, 1, FAULT), "schema", "delay_ms"))
    assert [entry.event for entry in read_directory(tmp_path)] == [FAULT]
    return "read"


@newer("journal")
def set_newer_line_of_a_journal_aside(tmp_path: Path) -> str:
    """A journal entry with a newer schema is set aside as invalid. The reported reason is its schema, not its unknown
    type.
    """
    line = edited(encode_line("peer-1", 2, 1, 1, FAULT), schema=SCHEMA_VERSION + 1, type="weather_changed")
    path = journal(tmp_path, encode_line("peer-1", 1, 1, 1, STARTED), line, encode_line("peer-1", 3, 1, 1, STARTED))
    bad: list[BadLine] = []
    assert [entry.node_seq for entry in read_directory(tmp_path, bad)] == [1, 3]
    reason = f"schema {SCHEMA_VERSION + 1} is newer than {SCHEMA_VERSION}, the newest that is known here"
    assert bad == [BadLine(path.name, 2, reason)]
    assert check_line(line.rstrip(b"\n")) == Refused(reason)
    return "line quarantined"


def test_unknown_fields_of_a_journal_are_ignored(tmp_path: Path) -> None:
    line = edited(encode_line("peer-1", 1, 1, 1, FAULT), weather="rain")
    journal(tmp_path, line)
    assert [entry.event for entry in read_directory(tmp_path)] == [FAULT]
    assert not isinstance(check_line(line.rstrip(b"\n")), Refused)


def test_upload_with_a_line_of_a_newer_version_is_rejected() -> None:
    lines = [encode_line("peer-1", number, 1, 1, STARTED) for number in (1, 2)]
    with pytest.raises(NoHistory, match=f"line 2: schema {SCHEMA_VERSION + 1} is newer"):
        read_history(lines[0] + edited(lines[1], schema=SCHEMA_VERSION + 1))


SENT = Sighting(
    n=1, node="peer-1", us=1_000, way="sent", line="x|y", key="1", group="election", kind="Notification", subject={}
)


class _Talking(FakeAgent):
    """Agent whose node peer-1 has recorded these messages, as lines."""

    lines = b""

    async def read_messages(self, positions: dict[str, Position]) -> JournalAnswer:
        lines, self.lines = self.lines, b""
        return JournalAnswer([JournalChunk("peer-1", lines, Position("f", 1))] if lines else [])


def sent_us(tmp_path: Path, *lines: bytes) -> list[int]:
    """Return the send times of the messages that the API can read from these lines."""

    async def select() -> list[int]:
        agent = _Talking(settings(tmp_path).agents[0])
        agent.lines = b"".join(lines)
        messages = RunMessages(Agents([agent]), Runs(Collector(tmp_path / "c"), KeptRuns(tmp_path / "runs")))
        found = await messages.select(LIVE, Window(0, 9_000, frozenset(), 10))
        return [message.sent_us for message in found.messages]

    return asyncio.run(select())


@older("messages")
def read_messages_without_newer_fields(tmp_path: Path) -> str:
    line = sighting_line(msgspec.structs.replace(SENT, opened=5, missed=2))
    assert sent_us(tmp_path, edited(line, "opened", "missed")) == [1_000]
    return "read"


@newer("messages")
def leave_unreadable_message_out(tmp_path: Path) -> str:
    unreadable = edited(sighting_line(SENT), "kind", n=2, us=2_000)
    unknown_field = edited(sighting_line(SENT), n=3, us=3_000, key="3", weather="rain")
    assert sent_us(tmp_path, sighting_line(SENT), unreadable, unknown_field) == [1_000, 3_000]
    return "line left out, if it cannot be read"


def collected(directory: Path) -> Path:
    """Collect one event into a history on disk, and return the history's file."""
    collector = Collector(directory)
    collector.accept_chunk(JournalChunk("peer-1", encode_line("peer-1", 1, 1, 1, STARTED), Position()))
    collector.number_due(everything=True)
    collector.close()
    (file,) = directory.glob("*.collected")
    return file


def change_first_line(file: Path, *dropped: str, **changed: Any) -> None:
    first, _, rest = file.read_bytes().partition(b"\n")
    file.write_bytes(edited(first, *dropped, **changed) + rest)


@older("collected history")
def read_collected_history_without_newer_fields(tmp_path: Path) -> str:
    change_first_line(collected(tmp_path), "schema", "history", "begun", "standing")
    again = Collector(tmp_path)
    assert (again.last_seq, again.position("peer-1").after) == (1, 1)
    return "read"


@newer("collected history")
def refuse_newer_collected_history(tmp_path: Path) -> str:
    """The API process rejects a newer collected history: it exits with one line on standard error and changes no
    file.
    """
    mine = settings(tmp_path, port=0)
    mine.agent_token_file.write_text("token")
    file = collected(mine.data / "collected")
    change_first_line(file, "node_seqs", schema=SCHEMA_VERSION + 1)
    before = files_below(tmp_path)
    config = tmp_path / "api.json"
    config.write_text(mine.model_dump_json())
    code = (
        "import sys; from pathlib import Path; from zabka.api.main import main; sys.exit(main(Path(sys.argv[1]), []))"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code, config],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.stderr == (
        f"zabka: the API cannot start: {file} holds events of schema {SCHEMA_VERSION + 1}, and this zabka reads "
        f"schemas up to {SCHEMA_VERSION}. Start the newer zabka again, or move {file.parent} away.\n"
    )
    config.unlink()
    assert files_below(tmp_path) == before
    return f"refused, exit code {ended.returncode}"


@pytest.mark.timeout(120)
def test_up_command_reports_why_the_api_does_not_start(tmp_path: Path) -> None:
    file = collected(tmp_path / "api" / "collected")
    change_first_line(file, schema=SCHEMA_VERSION + 1)
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "zabka", "up", "--data", tmp_path, "--peers", "1", "--brokers", "0",
         "--port", "0", "--zk-port", "0", "--kafka-port", "0"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    output = " ".join((ended.stdout + ended.stderr).split())
    assert ended.returncode == 1
    assert f"api ended with exit code {NEWER_STATE}" in output
    assert f"events of schema {SCHEMA_VERSION + 1}" in output
    assert output.count("the API cannot start") == 1, "the API was started again"
    assert "Traceback" not in output


RUN = Run(
    id="r00000001", kind="upload", title="a run", first_seq=1, last_seq=1, first_us=1, last_us=1, events=1, created_ms=1
)


def kept_run(directory: Path) -> Path:
    """Store a run, and return the path of its journal."""
    kept = KeptRuns(directory)
    kept.keep(RUN, [Entry("peer-1", 1, 1, 1, STARTED)])
    return directory / RUN.id / JOURNAL


@older("kept run")
def list_kept_run_without_schema(tmp_path: Path) -> str:
    change_first_line(kept_run(tmp_path), "schema")
    assert [run.id for run in KeptRuns(tmp_path).all()] == [RUN.id]
    return "read"


@newer("kept run")
def leave_newer_kept_run_where_it_is(tmp_path: Path) -> str:
    path = kept_run(tmp_path)
    change_first_line(path, schema=SCHEMA_VERSION + 1)
    before = files_below(tmp_path)
    assert KeptRuns(tmp_path).all() == []
    assert files_below(tmp_path) == before
    return "not listed"


# ---- topology, lake, campaigns --------------------------------------------------------------------------------------


def files_below(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


@older("topology")
def read_topology_without_newer_fields(tmp_path: Path) -> str:
    topology = plan(Requested(api_port=0, zk_port=0, kafka_port=0), None)
    path = save(topology, tmp_path)
    path.write_bytes(edited(path.read_bytes(), "layout", "platform", "token_directory"))
    assert load(tmp_path) == topology
    return "read"


@newer("topology")
def refuse_newer_topology(tmp_path: Path) -> str:
    path = save(plan(Requested(api_port=0, zk_port=0, kafka_port=0), None), tmp_path)
    path.write_bytes(edited(path.read_bytes(), layout=LAYOUT_VERSION + 1, peers="elsewhere", brokers={}))
    before = files_below(tmp_path)
    with pytest.raises(BadTopology, match=f"has layout {LAYOUT_VERSION + 1}, and this zabka reads {LAYOUT_VERSION}"):
        load(tmp_path)
    assert files_below(tmp_path) == before
    return "refused"


def test_unknown_fields_of_a_topology_are_ignored(tmp_path: Path) -> None:
    topology = plan(Requested(api_port=0, zk_port=0, kafka_port=0), None)
    path = save(topology, tmp_path)
    path.write_bytes(edited(path.read_bytes(), weather="rain"))
    assert load(tmp_path) == topology


def lake(directory: Path) -> tuple[Commit, Path]:
    """Create a lake with one commit. Return the commit and its file."""
    made = Commit(batch=0, files={}, lines=[Lines(".", "peer-1", 1, 3)], quarantined=0, latest_us=1)
    commits.write(directory, made)
    return made, commits.path_of(directory, 0)


@older("lake")
def read_lake_without_format(tmp_path: Path) -> str:
    commit, path = lake(tmp_path)
    path.write_bytes(edited(path.read_bytes(), "format"))
    assert list(commits.read(tmp_path)) == [commit]
    return "read"


@newer("lake")
def refuse_newer_lake(tmp_path: Path) -> str:
    """`audit`, `tables`, `stream` and `vacuum` reject a newer lake, the first three before they use Spark."""
    _, path = lake(tmp_path)
    path.write_bytes(edited(path.read_bytes(), "lines", format=commits.FORMAT + 1, files=[]))
    before, no_spark = files_below(tmp_path), cast(Any, None)
    reason = f"of a lake of format {commits.FORMAT + 1}, and this zabka reads formats up to {commits.FORMAT}"
    for read in (
        lambda: list(commits.read(tmp_path)),
        lambda: histories(tmp_path),
        lambda: jobs.write_tables(no_spark, tmp_path),
        lambda: stream.start(no_spark, tmp_path, tmp_path, follow=False),
    ):
        with pytest.raises(NewerLake, match=reason):
            read()
    vacuumed = CliRunner().invoke(jobs_of_spark, ["vacuum", "--out", str(tmp_path), "--older-than-s", "0"])
    assert vacuumed.exit_code == 2
    assert reason in " ".join(vacuumed.output.split())
    (tmp_path / "_lock").unlink()
    assert files_below(tmp_path) == before
    return "refused"


def campaign_of(directory: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "code_digest", lambda: code)
    with ledger.opened(directory, "question"):
        pass


@older("campaign")
@newer("campaign")
def refuse_campaign_of_other_code(tmp_path: Path) -> str:
    with pytest.MonkeyPatch.context() as patched:
        campaign_of(tmp_path, "one", patched)
        campaign_of(tmp_path, "one", patched)
        with pytest.raises(ledger.NotThisCampaign, match="another version of zabka"):
            campaign_of(tmp_path, "two", patched)
    return "refused"


# ---- data directories of peers --------------------------------------------------------------------------------------


def header(path: Path, magic: int, version: int) -> None:
    raw = path.read_bytes()
    path.write_bytes(HEADER.pack(magic, version, HEADER.unpack_from(raw)[2]) + raw[HEADER.size :])


@older("transaction log")
def read_log_with_an_older_version(tmp_path: Path) -> str:
    directories = directories_with(tmp_path, range(1, 4))
    header(tmp_path / "log.100000001", LOG_MAGIC, LOG_VERSION - 1)
    assert counters(directories) == [1, 2, 3]
    return "read"


@newer("transaction log")
def read_log_with_a_newer_version(tmp_path: Path) -> str:
    directories = directories_with(tmp_path, range(1, 4))
    path = tmp_path / "log.100000001"
    header(path, LOG_MAGIC, LOG_VERSION + 1)
    assert counters(directories) == [1, 2, 3]
    known = a_txn(EPOCH_1 + 4).encoded()
    # Replace the transaction type, which follows the session id, cxid, zxid and time in the TxnHeader.
    unknown = known[:28] + (999).to_bytes(4, "big") + known[32:]
    record = RECORD_HEAD.pack(adler32(unknown), len(unknown)) + unknown + END_OF_RECORD
    path.write_bytes(path.read_bytes().rstrip(b"\0") + record + bytes(100))
    before = files_below(tmp_path)
    with pytest.raises(DataDirectoryError, match="start a version that can read this transaction"):
        recover(directories)
    assert files_below(tmp_path) == before
    return "read; an unknown transaction is refused"


def test_log_with_another_magic_number_is_rejected(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 4))
    header(tmp_path / "log.100000001", LOG_MAGIC + 1, LOG_VERSION)
    with pytest.raises(DataDirectoryError, match="is not a ZooKeeper transaction log"):
        recover(directories)


def read_snapshot_of(tmp_path: Path, version: int) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(snapshots, "SNAPSHOT_HEADER", HEADER.pack(SNAPSHOT_MAGIC, version, -1))
        directories = directories_with(tmp_path, range(1, 4), snapshots=(EPOCH_1 + 2,))
    assert HEADER.unpack_from((tmp_path / "snapshot.100000002").read_bytes())[1] == version
    assert counters(directories) == [3]
    return "read"


@older("snapshot")
def read_snapshot_with_an_older_version(tmp_path: Path) -> str:
    return read_snapshot_of(tmp_path, SNAPSHOT_VERSION - 1)


@newer("snapshot")
def read_snapshot_with_a_newer_version(tmp_path: Path) -> str:
    return read_snapshot_of(tmp_path, SNAPSHOT_VERSION + 1)


def test_snapshot_with_another_magic_number_is_skipped(tmp_path: Path) -> None:
    directories = directories_with(tmp_path, range(1, 4), snapshots=(0, EPOCH_1 + 2))
    header(tmp_path / "snapshot.100000002", SNAPSHOT_MAGIC + 1, SNAPSHOT_VERSION)
    recovered = recover(directories).recovered
    assert recovered.snapshot is not None and recovered.snapshot.zxid == 0
    assert counters(directories) == [1, 2, 3]


@older("epoch files, `.owner`")
def read_owner_without_newer_fields(tmp_path: Path) -> str:
    config = config_of(tmp_path, 1)
    claim(config)
    (owner,) = tmp_path.glob("version-2/.owner")
    assert "earlier" not in json.loads(owner.read_bytes())
    claim(config)
    return "read"


@newer("epoch files, `.owner`")
def read_owner_with_unknown_fields(tmp_path: Path) -> str:
    config = config_of(tmp_path, 1)
    claim(config)
    (owner,) = tmp_path.glob("version-2/.owner")
    owner.write_bytes(edited(owner.read_bytes(), weather="rain"))
    claim(config)
    with pytest.raises(DataDirectoryError, match="is the data of server 1"):
        claim(config_of(tmp_path, 2))
    return "read"


def test_epoch_files_contain_decimal_numbers(tmp_path: Path) -> None:
    for name in (ACCEPTED, CURRENT):
        write_epoch(tmp_path, name, 17)
        assert (tmp_path / name).read_text() == "17"
        (tmp_path / name).write_text("18\n")
        assert read_epoch(tmp_path, name) == 18


# ---- data directories of brokers ------------------------------------------------------------------------------------


def properties(directory: Path, *lines: str) -> FileLogDirectory:
    (directory / "meta.properties").write_text("".join(f"{line}\n" for line in ("#", *lines)))
    return FileLogDirectory(directory)


@older("`meta.properties`")
def read_meta_properties_without_version(tmp_path: Path) -> str:
    claim_log_directory(properties(tmp_path, "cluster.id=c", "broker.id=1"), "c", 1)
    return "read"


@newer("`meta.properties`")
def refuse_newer_meta_properties(tmp_path: Path) -> str:
    """A broker rejects newer meta.properties with the error message of Kafka's MetaPropertiesVersion.

    Version 1 is KRaft's.
    """
    for version, message in (("1", "Unknown meta.properties version number 1"), ("2", "number 2"),
                           ("x", "Invalid meta.properties version string 'x'")):  # fmt: skip
        directory = properties(tmp_path, "cluster.id=c", f"version={version}", "node.id=1", "broker.id=1")
        before = files_below(tmp_path)
        with pytest.raises(InconsistentMetaProperties, match=message):
            claim_log_directory(directory, "c", 1)
        assert files_below(tmp_path) == before
    return "refused"


def test_broker_writes_the_meta_properties_version_it_reads(tmp_path: Path) -> None:
    directory = FileLogDirectory(tmp_path)
    claim_log_directory(directory, "c", 1)
    assert f"version={meta_properties.VERSION}" in (tmp_path / "meta.properties").read_text().split("\n")
    claim_log_directory(directory, "c", 1)


def a_log(directory: Path, segment_bytes: int = 1 << 20) -> PartitionLog:
    return PartitionLog(FileLogDirectory(directory), TP, segment_bytes=segment_bytes)


def truncated_at_magic(directory: Path, magic: int) -> str:
    """Check that a log is truncated before a batch with another magic value. Return the string `truncated`."""
    log = a_log(directory)
    append(log, ("a", "1"))
    (segment,) = (directory / "orders-0").glob("*.log")
    first = segment.stat().st_size
    append(log, ("b", "2"))
    log.close()
    raw = bytearray(segment.read_bytes())
    # The magic byte follows the base offset, length and leader epoch (DefaultRecordBatch).
    assert raw[first + 16] == MAGIC
    raw[first + 16] = magic
    segment.write_bytes(raw)
    again = a_log(directory)
    assert (again.end_offset, segment.stat().st_size, len(again.damage)) == (1, first, 1)
    return "truncated"


@older("segment")
def truncate_segment_at_an_older_magic(tmp_path: Path) -> str:
    return truncated_at_magic(tmp_path, MAGIC - 1)


@newer("segment")
def truncate_segment_at_a_newer_magic(tmp_path: Path) -> str:
    return truncated_at_magic(tmp_path, MAGIC + 1)


@newer("checkpoint")
def build_newer_checkpoint_again(tmp_path: Path) -> str:
    """A newer checkpoint is ignored. Its offsets count as missing, and leader epochs are rebuilt from the batches."""
    directory = FileLogDirectory(tmp_path)
    checkpoints.write_offsets(directory, checkpoints.REPLICATION_OFFSETS, {TP: 7})
    assert checkpoints.read_offsets(directory, checkpoints.REPLICATION_OFFSETS) == {TP: 7}
    log = a_log(tmp_path)
    log.epochs.assign(3, 0)
    data = batch("a")
    log.append_as_leader(data, headers_of(data), 3)
    log.close()
    epochs = tmp_path / "orders-0" / checkpoints.LEADER_EPOCHS
    assert checkpoints.read_leader_epochs(directory, "orders-0") == [(3, 0)]
    for path in (epochs, tmp_path / checkpoints.REPLICATION_OFFSETS):
        version, _, rest = path.read_text().partition("\n")
        path.write_text(f"{int(version) + 1}\n{rest}")
    assert checkpoints.read_offsets(directory, checkpoints.REPLICATION_OFFSETS) == {}
    assert checkpoints.read_leader_epochs(directory, "orders-0") is None
    assert a_log(tmp_path).epochs.latest == 3
    return "built again"


@newer("producer snapshot")
def build_newer_producer_snapshot_again(tmp_path: Path) -> str:
    log = a_log(tmp_path, segment_bytes=100)
    for sequence in range(3):
        append(log, ("a", "1"), producer_id=5, producer_epoch=0, base_sequence=sequence)
    known = log.producers.entries()
    log.close()
    snapshots_there = sorted((tmp_path / "orders-0").glob(f"*{producer_snapshots.SUFFIX}"))
    assert snapshots_there and [each.producer_id for each in known] == [5]
    for path in snapshots_there:
        raw = path.read_bytes()
        path.write_bytes((producer_snapshots._VERSION + 1).to_bytes(2, "big") + raw[2:])
    assert a_log(tmp_path, segment_bytes=100).producers.entries() == known
    return "built again"


@newer("`partition.metadata`")
def read_newer_partition_metadata(tmp_path: Path) -> str:
    directory, topic_id = FileLogDirectory(tmp_path), "AAAAAAAAAAAAAAAAAAAABw"
    directory.create_partition("orders-0")
    checkpoints.write_topic_id(directory, "orders-0", topic_id)
    path = tmp_path / "orders-0" / checkpoints.PARTITION_METADATA
    path.write_text(path.read_text().replace("version: 0", "version: 1"))
    assert checkpoints.read_topic_id(directory, "orders-0") == topic_id
    return "read"


def test_clean_shutdown_file_of_another_version_is_ignored() -> None:
    mark = checkpoints.alive(7, "boot")
    assert checkpoints.broker_epoch_alive(mark, "boot") == 7
    assert checkpoints.broker_epoch_alive(mark.replace('"version":0', '"version":1'), "boot") == -1
