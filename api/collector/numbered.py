"""The collector's own files: the numbered events, and the position up to which each node's journal was collected.

The file names, `<first seq, 12 digits>.collected`, differ from the names of node journals. Each file begins with a
checkpoint line: the last assigned event number, each node's highest node_seq, where each node's journal started, the
history's identifier, and the collector's folded state at that point (`standing`). So the newest file is enough to
resume, and older files are read only on request. If old files are removed, the later folded states still include their
events.
"""

from __future__ import annotations

import contextlib
import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import msgspec

from zabka.api.collector.begun import Begun
from zabka.journal.events import SCHEMA_VERSION, Entry
from zabka.journal.reader import decode_line, schema_of, split_lines

FILE_BYTES_MAX = 8 * 1024 * 1024
KEPT_BYTES_MAX = 512 * 1024 * 1024
"""Maximum total size of the stored events in bytes.

This is about a million events, or two days of three peers and three brokers under a light load.
"""

MARK_EVERY = 256
"""The in-memory index contains the file offset of one in every 256 events."""

_encode = msgspec.json.Encoder().encode


class NewerHistory(Exception):
    """The collected history was written by a newer version of zabka. The message is for the user."""


class Numbered(NamedTuple):
    """An event in the form sent to clients: its number and its JSON."""

    seq: int
    json: bytes


class _Seq(msgspec.Struct):
    seq: int


_seq_of = msgspec.json.Decoder(_Seq).decode


class _Head(msgspec.Struct):
    """The first line of a file. `schema` is the schema version of the file's events.

    Files written by earlier versions have no values for the fields after `node_seqs`.
    """

    checkpoint: int
    node_seqs: dict[str, int]
    standing: msgspec.Raw = msgspec.Raw(b"")
    begun: dict[str, Begun] = {}
    history: str = ""
    schema: int = SCHEMA_VERSION


_head_of = msgspec.json.Decoder(_Head).decode


class _KeptFile:
    """One file, with the offsets of some of its events and of the lines that are not events.

    The file is scanned only on request and only as far as needed, because a full scan takes a tenth of a second and
    blocks the event loop.
    """

    __slots__ = ("_count", "_gap_at", "_gaps", "_known", "_looked_through", "_offsets", "_seqs", "path")

    def __init__(self, path: Path, *, known: bool = False) -> None:
        self.path = path
        self._known = known
        self._looked_through = 0
        self._seqs: list[int] = []
        self._offsets: list[int] = []
        self._count = 0
        self._gaps: dict[int, int] = {}
        """Ranges of consecutive lines that are not events, as a map from a range's start offset to its end offset."""
        self._gap_at = -1

    @property
    def name_seq(self) -> int:
        """The number intended for the file's first event, from the file name."""
        return int(self.path.stem)

    def first_seq(self) -> int | None:
        """Return the number of the file's first event, or None if the file has no event."""
        if not self._seqs:
            self._look(0)
        return self._seqs[0] if self._seqs else None

    def check_schema(self) -> None:
        """Raise NewerHistory if the file's events have a newer schema than this version reads."""
        with contextlib.suppress(OSError), self.path.open("rb") as file:
            if (schema := schema_of(file.readline())) > SCHEMA_VERSION:
                raise NewerHistory(
                    f"{self.path} holds events of schema {schema}, and this zabka reads schemas up to "
                    f"{SCHEMA_VERSION}. Start the newer zabka again, or move {self.path.parent} away."
                )

    def head(self) -> _Head | None:
        """Return the file's first line, or None if the file is missing or the line is unreadable."""
        try:
            with self.path.open("rb") as file:
                return _head_of(file.readline())
        except (OSError, msgspec.MsgspecError):
            return None

    def entries(self) -> Iterator[tuple[Entry, bytes]]:
        """Yield every event with its line, and index the file. Raises OSError."""
        self._known = True
        offset = 0
        # An incomplete last line was never sent to a client, so its event number can be reused.
        for line in split_lines(self.path.read_bytes()):
            if (entry := _entry(line)) is not None:
                self.note(entry.seq, offset)
                yield entry, line
            else:
                self.pass_over(offset, offset + len(line) + 1)
            offset += len(line) + 1

    def _look(self, beyond: int) -> None:
        """Index the file up to the first event with a number above `beyond`."""
        if self._known:
            return
        with contextlib.suppress(OSError), self.path.open("rb") as file:
            file.seek(self._looked_through)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                begin, self._looked_through = self._looked_through, self._looked_through + len(line)
                if (entry := _entry(line[:-1])) is None:
                    self.pass_over(begin, self._looked_through)
                    continue
                self.note(entry.seq, begin)
                if entry.seq > beyond:
                    return
        self._known = True

    def note(self, seq: int, offset: int) -> None:
        """Record in the index that event `seq` begins at `offset`. Called for every event, in order."""
        if self._count % MARK_EVERY == 0:
            self._seqs.append(seq)
            self._offsets.append(offset)
        self._count += 1

    def pass_over(self, offset: int, end: int) -> None:
        """Record that the bytes from `offset` to `end` are not an event.

        If they were an event once, that event's number may now belong to another event.
        """
        if self._gaps.get(self._gap_at) != offset:
            self._gap_at = offset
        self._gaps[self._gap_at] = end

    def read(self, seq: int, limit: int) -> list[Numbered]:
        """Return up to `limit` events starting with `seq`; none if the file is missing or cannot be read."""
        first = self.first_seq()
        if first is None:
            return []
        beyond = max(seq, first) + limit
        self._look(beyond)
        while len(found := self._read_known(seq, limit)) < limit and not self._known:
            # Some event numbers are unused, so fewer events than `limit` were found. Search a longer range.
            beyond += limit
            self._look(beyond)
        return found

    def _read_known(self, seq: int, limit: int) -> list[Numbered]:
        mark = max(0, bisect_right(self._seqs, seq) - 1)
        found: list[Numbered] = []
        try:
            with self.path.open("rb") as file:
                offset = gap_end = self._offsets[mark]
                file.seek(offset)
                for line in file:
                    begin, offset = offset, offset + len(line)
                    gap_end = self._gaps.get(begin, gap_end)
                    if begin < gap_end:
                        continue
                    if not line.endswith(b"\n") or not (self._known or begin < self._looked_through):
                        break
                    line = line[:-1]
                    try:
                        number = _seq_of(line).seq
                    except msgspec.MsgspecError:
                        continue
                    if number >= seq:
                        found.append(Numbered(number, line))
                        if len(found) == limit:
                            break
        except OSError:
            return []
        return found


def _entry(line: bytes) -> Entry | None:
    try:
        return decode_line(line)
    except ValueError:
        return None


def _nothing() -> bytes:
    return b"{}"


class NumberedJournal:
    """Assigns event numbers and stores the numbered events in files of `file_bytes_max`.

    Removes the oldest files when the total size exceeds `bytes_max`. `standing` returns the folded state as JSON, which
    is stored at the head of each new file.
    """

    def __init__(
        self,
        directory: Path,
        *,
        file_bytes_max: int = FILE_BYTES_MAX,
        bytes_max: int = KEPT_BYTES_MAX,
        standing: Callable[[], bytes] = _nothing,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.last_seq = 0
        self.node_seqs: dict[str, int] = {}
        self.begun: dict[str, Begun] = {}
        self.history = secrets.token_hex(8)
        """Identifier of this history. It distinguishes the history from an earlier one in the same directory, which
        used the same event numbers for other events.
        """
        self._directory = directory
        self._file_bytes_max = file_bytes_max
        self._bytes_max = bytes_max
        self._standing = standing
        self._file: FileIO | None = None
        self._size = 0
        self._kept: list[_KeptFile] = []

    @property
    def oldest_seq(self) -> int:
        """The lowest stored event number; the highest assigned number + 1 if no event is stored."""
        return next((first for each in self._kept if (first := each.first_seq()) is not None), self.last_seq + 1)

    def read(self, seq: int, limit: int) -> list[Numbered]:
        """Return up to `limit` events starting with `seq`, in order."""
        place = max(0, bisect_right(self._kept, seq, key=lambda each: each.name_seq) - 1)
        found: list[Numbered] = []
        for each in self._kept[place:]:
            if len(found) >= limit:
                break
            found += each.read(seq, limit - len(found))
        return found

    def standings(self, seq: int) -> Iterator[bytes]:
        """Yield the states of the cluster that are stored at the beginning of event files, latest first.

        Only files that begin at or before event `seq` + 1 are included.
        """
        for each in reversed(self._kept):
            if each.name_seq - 1 <= seq and (head := each.head()) is not None:
                yield bytes(head.standing)

    def _paths(self) -> list[Path]:
        return sorted(self._directory.glob(f"{'[0-9]' * 12}.collected"))

    def recover(
        self, take_up: Callable[[bytes], bool] = lambda _: False, take_over: Callable[[bytes], bool] = lambda _: False
    ) -> Iterator[tuple[Entry, bytes]]:
        """Yield the stored events after the latest stored state that `take_up` accepts, oldest first.

        If `take_up` accepts no state, call `take_over` with the oldest state and yield all stored events. Event numbers
        then continue from the last one. Raises NewerHistory.
        """
        self._kept = [_KeptFile(path) for path in self._paths() if path.stem.isdecimal()]
        for kept in self._kept:
            # Without this check, events of a newer schema could not be read, and their numbers would be assigned again.
            kept.check_schema()
        begin = 0
        for place in range(len(self._kept) - 1, -1, -1):
            head = self._kept[place].head()
            if head is not None and take_up(bytes(head.standing)):
                begin = place
                break
        else:
            if self._kept and (head := self._kept[0].head()) is not None:
                take_over(bytes(head.standing))
        for kept in self._kept[begin:]:
            if (head := kept.head()) is not None:
                self.last_seq = max(self.last_seq, head.checkpoint)
                self._note_nodes(head.node_seqs)
                self.begun.update(head.begun)
                self.history = head.history or self.history
            for entry, line in kept.entries():
                self.last_seq = entry.seq
                self._note_nodes({entry.node: entry.node_seq})
                self.begun[entry.node] = self.begun_of(entry.node).seen(entry)
                yield entry, line

    def _note_nodes(self, node_seqs: dict[str, int]) -> None:
        for node, node_seq in node_seqs.items():
            self.node_seqs[node] = max(self.node_seqs.get(node, 0), node_seq)

    def begun_of(self, node: str) -> Begun:
        """Return the start of the journal that a node currently writes."""
        return self.begun.get(node, Begun())

    def restart_journal(self, node: str, base: int) -> None:
        """Record that the node's next entries are those of a new journal.

        File heads contain the start of each journal, so the next event begins a new file.
        """
        self.begun[node] = Begun(base)
        self.close()

    def append(self, entries: list[Entry]) -> list[tuple[Entry, bytes]]:
        """Assign event numbers to these entries and write them to the file before returning.

        Raises OSError if the entries cannot be written, for example on a full disk. In that case no number is assigned,
        and the caller can retry.
        """
        self._open()
        numbered = []
        for seq, entry in enumerate(entries, self.last_seq + 1):
            entry = msgspec.structs.replace(entry, seq=seq)
            numbered.append((entry, _encode(entry.to_dict())))
        offset, kept = self._size, self._kept[-1]
        self._write(b"".join(line + b"\n" for _, line in numbered))
        for entry, line in numbered:
            kept.note(entry.seq, offset)
            offset += len(line) + 1
            self._note_nodes({entry.node: entry.node_seq})
        self.last_seq += len(entries)
        if self._size >= self._file_bytes_max:
            self.close()
        return numbered

    def _open(self) -> None:
        # Each start of the collector begins a new file, so a line torn by a crash can only be the last one of a file.
        if self._file is None:
            path = self._directory / f"{self.last_seq + 1:012d}.collected"
            self._file, self._size = path.open("wb", buffering=0), 0
            try:
                head = _Head(self.last_seq, self.node_seqs, msgspec.Raw(self._standing()), self.begun, self.history)
                self._write(_encode(head) + b"\n")
            except OSError:
                self.close()
                raise
            # The new file may have overwritten a file of the same name that contains no event. List that name only
            # once.
            self._kept = [each for each in self._kept if each.path != path]
            self._kept.append(_KeptFile(path, known=True))
            self._thin_out()

    def _write(self, data: bytes) -> None:
        """Write all of `data` or nothing. Raises OSError."""
        assert self._file is not None
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            # Clients have not received these lines, so a restarted collector must not find them.
            self._file.truncate(self._size)
            self._file.seek(self._size)
            raise
        self._size += len(data)

    def _thin_out(self) -> None:
        *older, newest = self._paths()
        total = newest.stat().st_size
        for path in reversed(older):
            total += path.stat().st_size
            if total > self._bytes_max:
                path.unlink(missing_ok=True)
                self._kept = [each for each in self._kept if each.path != path]

    def close(self) -> None:
        """Close the file. The next entries begin a new file."""
        if self._file is not None:
            self._file.close()
            self._file = None
