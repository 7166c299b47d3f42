"""The collector's own files: the numbered history, and with it the knowledge of what was collected already.

`<first seq, 12 digits>.collected`: a name that nobody takes for a node's journal.  Each file begins with a checkpoint
line (the last number given and each node's highest node_seq before it), so that the newest file alone tells where
collecting stood.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from journal.events import Entry, entry_from_dict
from journal.reader import split_lines

FILE_BYTES_MAX = 8 * 1024 * 1024
FILES_MAX = 4

MARK_EVERY = 256
"""Of every so many events it is known where they begin in their file."""

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(dict[str, Any])


class Numbered(NamedTuple):
    """One event as it is served: its number and its JSON."""

    seq: int
    json: bytes


class _Seq(msgspec.Struct):
    seq: int


_seq_of = msgspec.json.Decoder(_Seq).decode


class _KeptFile:
    """One file: where some of its events begin, and what in it is none."""

    __slots__ = ("_count", "_gap_at", "_gaps", "_offsets", "_seqs", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seqs: list[int] = []
        self._offsets: list[int] = []
        self._count = 0
        self._gaps: dict[int, int] = {}
        """Where lines are that are no events, one behind the other, and where the next event begins."""
        self._gap_at = -1

    @property
    def first_seq(self) -> int | None:
        """The number of its first event; None while it has none."""
        return self._seqs[0] if self._seqs else None

    def note(self, seq: int, offset: int) -> None:
        """An event of that number begins there; told in order, of every event."""
        if self._count % MARK_EVERY == 0:
            self._seqs.append(seq)
            self._offsets.append(offset)
        self._count += 1

    def pass_over(self, offset: int, end: int) -> None:
        """What lies there is no event, whatever number it bears: that may have been given again."""
        if self._gaps.get(self._gap_at) != offset:
            self._gap_at = offset
        self._gaps[self._gap_at] = end

    def read(self, seq: int, limit: int) -> list[Numbered]:
        """Up to `limit` events from `seq` on; none where the file is gone or cannot be read."""
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
                    if not line.endswith(b"\n"):
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


class NumberedJournal:
    """Gives numbers and keeps what was numbered; bounded by `files_max` files of `file_bytes_max`."""

    def __init__(self, directory: Path, *, file_bytes_max: int = FILE_BYTES_MAX, files_max: int = FILES_MAX) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.last_seq = 0
        self.node_seqs: dict[str, int] = {}
        self._directory = directory
        self._file_bytes_max = file_bytes_max
        self._files_max = files_max
        self._file: FileIO | None = None
        self._size = 0
        self._kept: list[_KeptFile] = []

    @property
    def oldest_seq(self) -> int:
        """The lowest number that is kept; one above the last where nothing is."""
        return next((first for each in self._kept if (first := each.first_seq) is not None), self.last_seq + 1)

    def read(self, seq: int, limit: int) -> list[Numbered]:
        """Up to `limit` events from `seq` on, in order."""
        begun = [each for each in self._kept if each.first_seq is not None]
        place = max(0, bisect_right(begun, seq, key=lambda each: each.first_seq or 0) - 1)
        found: list[Numbered] = []
        for each in begun[place:]:
            if len(found) >= limit:
                break
            found += each.read(seq, limit - len(found))
        return found

    def _paths(self) -> list[Path]:
        return sorted(self._directory.glob("????????????.collected"))

    def recover(self) -> Iterator[tuple[Entry, bytes]]:
        """Everything kept, oldest first; afterwards numbering goes on where it stood."""
        for path in self._paths():
            kept, offset = _KeptFile(path), 0
            self._kept.append(kept)
            # An unfinished last line was never served: its number is free.
            for line in split_lines(path.read_bytes()):
                if (found := self._recovered(line)) is not None:
                    kept.note(found[0].seq, offset)
                    yield found
                else:
                    kept.pass_over(offset, offset + len(line) + 1)
                offset += len(line) + 1

    def _recovered(self, line: bytes) -> tuple[Entry, bytes] | None:
        try:
            raw = _decoder.decode(line)
            if "checkpoint" in raw:
                self.last_seq = max(self.last_seq, int(raw["checkpoint"]))
                for node, node_seq in raw["node_seqs"].items():
                    self.node_seqs[node] = max(self.node_seqs.get(node, 0), int(node_seq))
                return None
            entry = entry_from_dict(raw)
        except (msgspec.MsgspecError, KeyError, ValueError, TypeError, AttributeError, RecursionError):
            return None
        self.last_seq = entry.seq
        self.node_seqs[entry.node] = max(self.node_seqs.get(entry.node, 0), entry.node_seq)
        return entry, line

    def append(self, entries: list[Entry]) -> list[tuple[Entry, bytes]]:
        """Number these entries and write them; in the file when this returns.

        Raises OSError where they cannot be written (a full disk): nothing was numbered then, and they may be given
        again.
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
        self.last_seq += len(entries)
        for entry in entries:
            self.node_seqs[entry.node] = max(self.node_seqs.get(entry.node, 0), entry.node_seq)
        if self._size >= self._file_bytes_max:
            self.close()
        return numbered

    def _open(self) -> None:
        # Every run begins a file of its own: a torn line stays where it is, at the end of an older one.
        if self._file is None:
            path = self._directory / f"{self.last_seq + 1:012d}.collected"
            self._file, self._size = path.open("wb", buffering=0), 0
            try:
                self._write(_encode({"checkpoint": self.last_seq, "node_seqs": self.node_seqs}) + b"\n")
            except OSError:
                self.close()
                raise
            self._kept.append(_KeptFile(path))
            self._thin_out()

    def _write(self, data: bytes) -> None:
        """All of it, or nothing.  Raises OSError."""
        assert self._file is not None
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            # Lines that nobody was served must not be found after a restart.
            self._file.truncate(self._size)
            self._file.seek(self._size)
            raise
        self._size += len(data)

    def _thin_out(self) -> None:
        paths = self._paths()
        total = 0
        for path in reversed(paths):
            total += path.stat().st_size
            if total > self._file_bytes_max * self._files_max:
                path.unlink(missing_ok=True)
                self._kept = [each for each in self._kept if each.path != path]

    def close(self) -> None:
        """Close the file; the next entries begin a new one."""
        if self._file is not None:
            self._file.close()
            self._file = None
