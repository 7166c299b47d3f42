"""Background snapshots: the event loop encodes them piece by piece, and a separate thread writes them.

A tree of a million znodes is neither copied nor traversed in one step. Its blocks come from the tree's `Capture` when
the thread requests them. Blocks without changes since the previous snapshot are copied from the previous snapshot's
file. They are checked against the checksums that were computed when they were written, so a corrupt file is not copied
further.

A finished snapshot gets its final name only when the peer reports that its log is durable up to the snapshot's zxid. A
slow leader may have committed a transaction that is not yet durable in its own log. If the log then lacked this
transaction but contained later ones, it would have a gap, which would corrupt the tree if an older snapshot had to be
used.
"""

from __future__ import annotations

import errno
import gc
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple
from weakref import ref
from zlib import adler32

from zabka.ensemble.records import ACL
from zabka.ensemble.runtime.files import Files
from zabka.ensemble.runtime.workers import GO_ON, THREADS, WAIT, Job, Work, Workers
from zabka.ensemble.tree.blocks import Blocks
from zabka.ensemble.tree.capture import Capture, Piece
from zabka.ensemble.tree.shared_nodes import SharedNodes
from zabka.ensemble.tree.stored import AclTable
from zabka.ensemble.tree_snapshot import TreeSnapshot
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.files import forget_pages, sync_directory, unlink
from zabka.ensemble.txnlog.snapshot_format import ROOT_END, encode_head, encode_tree
from zabka.ensemble.txnlog.snapshots import SNAPSHOT_HEADER, STAGING_NAME, WrittenSnapshot, snapshot_path, staging

STEP_BLOCKS = 2
"""Number of blocks that the event loop encodes before it processes other events.

Encoding them takes half a millisecond.
"""
WRITE_BYTES = 1 << 20
TAKEN_BYTES_MAX = 4 << 20
"""Maximum size of a block that is copied from the previous snapshot.

To copy a block, the whole block is read. For blocks with larger znodes, encoding the znodes again costs little more
than reading the block.
"""
ACLS_TAKEN = 1000
"""Maximum number of ACLs copied from the previous snapshot, in addition to one per block; some may be unused now."""
_ADLER = 65521


def adler32_of_both(one: int, other: int, other_bytes: int) -> int:
    """Return the Adler32 of two concatenated byte strings, given their checksums and the second one's length."""
    low = (one & 0xFFFF) - 1
    sum_low = (low + (other & 0xFFFF)) % _ADLER
    sum_high = ((one >> 16) + (other >> 16) + other_bytes * low) % _ADLER
    return sum_high << 16 | sum_low


class Place(NamedTuple):
    """Position, size and Adler32 of a block in a snapshot's file."""

    offset: int
    size: int
    checksum: int


class _TakeOver(NamedTuple):
    """Data with which the next snapshot can copy blocks from this snapshot's file.

    It contains the file's path, the tree, the snapshot's number, its ACLs, and the positions of its blocks.
    """

    path: Path
    tree: ref[Blocks]
    turn: int
    acls: dict[tuple[ACL, ...], int]
    places: dict[int, Place]

    def is_of(self, tree: Blocks) -> bool:
        """Return whether a snapshot of this tree can copy blocks of the file.

        Return False if the file has too many ACLs.
        """
        return self.tree() is tree and len(self.acls) <= ACLS_TAKEN + len(self.places)


class _Cancelled(Exception):
    """The snapshot was cancelled while it was written."""


class _Spoiled(Exception):
    """The content of the previous snapshot's file is not what was written."""


class _Run:
    """Adjacent blocks in the previous snapshot's file, which are read together."""

    def __init__(self, file: IO[bytes] | None, files: Files) -> None:
        self._file = file
        self._files = files
        self._offset = self._size = 0
        self._checksum = adler32(b"")

    def joins(self, place: Place) -> bool:
        """Return whether this block is adjacent to the run, so that they can be read together."""
        return not self._size or (self._size < WRITE_BYTES and self._offset + self._size == place.offset)

    def add(self, place: Place) -> None:
        """Add a block, which is adjacent to the blocks that this run already contains."""
        if not self._size:
            self._offset = place.offset
        self._size += place.size
        self._checksum = adler32_of_both(self._checksum, place.checksum, place.size)

    def read(self) -> bytes:
        """Read the blocks of the run, check them, and start an empty run. Raises _Spoiled."""
        if not self._size:
            return b""
        assert self._file is not None, "nothing is taken over where there is no file"
        try:
            data = self._files.pread(self._file.fileno(), self._size, self._offset)
        except OSError:
            raise _Spoiled from None
        if len(data) != self._size or adler32(data) != self._checksum:
            raise _Spoiled
        forget_pages(self._file.fileno(), self._offset, self._offset + self._size, self._files)
        self._size = 0
        self._checksum = adler32(b"")
        return data


class _Writing:
    """A snapshot that is being written."""

    def __init__(self, number: int, post: Callable[..., object], files: Files) -> None:
        self.number = number
        self.may_count = False
        """Whether the log is durable up to the snapshot's zxid, so that the snapshot can get its final name."""
        self.work: Work | None = None
        self.ended = False
        """Whether the job has ended, except for its report to the event loop."""
        self._came: deque[Piece] = deque()
        self._post = post
        self._files = files
        self._cancelled = False

    @property
    def goes_on(self) -> bool:
        """Whether the snapshot is still being written, so that its temporary file is in use."""
        return not self.ended and self.work is not None and self.work.is_under_way()

    def put(self, piece: Piece) -> None:
        """Pass the encoded records of a block from the event loop to the job."""
        self._came.append(piece)
        self._wake()

    def publish(self) -> None:
        """Allow the job to rename the snapshot to its final name."""
        self.may_count = True
        self._wake()

    def cancel(self) -> None:
        """Cancel the snapshot, and wait until its job has ended."""
        self._cancelled = True
        self._wake()
        self.wait()

    def wait(self) -> None:
        """Block until the snapshot is written or cancelled."""
        if self.work is not None:
            self.work.join()

    def _wake(self) -> None:
        if self.work is not None:
            self.work.wake()

    def check(self) -> None:
        """Raise _Cancelled if the snapshot was cancelled."""
        if self._cancelled:
            raise _Cancelled

    def tree(self, head: bytes, capture: Capture, before: _TakeOver | None, now: _TakeOver) -> Iterator[bytes]:
        """Yield the serialised sessions and tree; record the positions of the blocks in `now`.

        After an empty chunk, the caller must wait until the job is woken.
        """
        yield head
        try:
            yield from _in_chunks(self._blocks(len(SNAPSHOT_HEADER) + len(head), capture, before, now))
        finally:
            with suppress(RuntimeError):
                self._post(capture.stop_capture)
        yield ROOT_END

    def _blocks(
        self, offset: int, capture: Capture, before: _TakeOver | None, now: _TakeOver
    ) -> Iterator[bytes | memoryview | None]:
        came: dict[int, Piece] = {}
        with _open(before, self._files) as file:
            run = _Run(file, self._files)
            for number in capture.order:
                if before is None or number in capture.pieces:
                    yield run.read()
                    piece = yield from self._piece(capture, number, came)
                    yield from piece.parts
                    place = Place(offset, piece.size, piece.checksum)
                else:
                    taken = before.places[number]
                    if not run.joins(taken):
                        yield run.read()
                    run.add(taken)
                    place = taken._replace(offset=offset)
                offset += place.size
                if place.size <= TAKEN_BYTES_MAX:
                    now.places[number] = place
            yield run.read()

    def _piece(self, capture: Capture, number: int, came: dict[int, Piece]) -> Generator[None, None, Piece]:
        """Return a block's records when the event loop has encoded them; until then, yield None."""
        while number not in came:
            if not self._came:
                try:
                    self._post(capture.step, STEP_BLOCKS)
                except RuntimeError:
                    # The event loop is closed, so there is no capture to stop.
                    raise _Cancelled from None
            while not self._came:
                yield None
                self.check()
            piece = self._came.popleft()
            came[piece.number] = piece
        return came.pop(number)


def _in_chunks(records: Iterator[bytes | memoryview | None]) -> Iterator[bytes]:
    """Join records into chunks of about a megabyte; yield an empty chunk for each None among them."""
    out = bytearray()
    for record in records:
        if record is None:
            yield b""
            continue
        if not out and len(record) >= WRITE_BYTES:
            yield bytes(record)
            continue
        out += record
        if len(out) >= WRITE_BYTES:
            yield bytes(out)
            out.clear()
    if out:
        yield bytes(out)


class SnapshotWriter:
    """Writes snapshots in a thread, one at a time.

    `post` passes a callback to the event loop that owns the tree. The job calls `done` with the written snapshot, or
    `failed` with the error number of a disk error. `spoiled` is called if a new snapshot has to be taken, because the
    file of the previous one does not contain what was written.
    """

    def __init__(
        self,
        directories: Directories,
        suffix: str,
        post: Callable[..., object],
        done: Callable[[WrittenSnapshot], None],
        failed: Callable[[int], None],
        spoiled: Callable[[], None],
        *,
        workers: Workers = THREADS,
    ) -> None:
        self._directory = directories.data
        self._files = directories.files
        self._workers = workers
        self._suffix = suffix
        self._post = post
        self._done = done
        self._failed = failed
        self._spoiled = spoiled
        self._writing: _Writing | None = None
        self._before: _TakeOver | None = None
        self.taken = 0
        """Number of snapshots begun so far, which is also the number of the latest one."""

    def start_snapshot(self, snapshot: TreeSnapshot) -> bool:
        """Begin to write this snapshot of a tree that has not changed since the snapshot was taken.

        Return False if the previous snapshot is still being written, or if no thread is available. The snapshot gets
        its final name when it is written and `publish` was called, in either order. The caller drops its reference to
        `snapshot` before the tree changes, so that nothing has to be copied for it.
        """
        if self._writing is not None and self._writing.goes_on:
            return False
        began_s = self._workers.now_s()
        # Exclude all existing objects from garbage collection, because they are needed permanently: examining a million
        # of them would free nothing.
        gc.freeze()
        self.taken += 1
        writing = _Writing(self.taken, self._post, self._files)
        path = snapshot_path(self._directory, snapshot.zxid, self._suffix)
        nodes, now = snapshot.nodes, None
        if isinstance(nodes, SharedNodes):
            encoded, now = self._capture(writing, path, snapshot, nodes)
            snapshot = TreeSnapshot(snapshot.zxid, snapshot.sessions, (), snapshot.digest)
        else:
            encoded = encode_tree(snapshot)
        try:
            writing.work = self._workers.start(self._run(writing, path, snapshot, encoded, now, began_s), "snapshot")
        except RuntimeError:
            # The snapshot is not written, because no thread is available.
            if isinstance(nodes, SharedNodes):
                nodes.tree.keeper = None
            return False
        self._writing = writing
        return True

    def publish(self, number: int) -> None:
        """Allow snapshot `number` to get its final name, because the log is durable up to its zxid.

        If another snapshot was begun since, do nothing.
        """
        if self._writing is not None and number == self._writing.number:
            self._writing.publish()

    def wait(self) -> None:
        """Block until no snapshot is being written."""
        if self._writing is not None:
            self._writing.wait()

    def cancel(self) -> None:
        """Cancel the snapshot that is being written, if any, and wait until its job has ended."""
        if self._writing is not None:
            self._writing.cancel()

    def _capture(
        self, writing: _Writing, path: Path, snapshot: TreeSnapshot, nodes: SharedNodes
    ) -> tuple[Iterator[bytes], _TakeOver]:
        before = self._before if self._before is not None and self._before.is_of(nodes.tree) else None
        known, since, acls = ({}, 0, None) if before is None else (before.places, before.turn, before.acls.copy())
        table = AclTable(acls)
        capture = nodes.capture(known, since, table, writing.put)
        now = _TakeOver(path, ref(nodes.tree), nodes.turn, table.rows, {})
        return writing.tree(bytes(encode_head(snapshot.sessions, table)), capture, before, now), now

    def _run(
        self,
        writing: _Writing,
        path: Path,
        snapshot: TreeSnapshot,
        encoded: Iterator[bytes],
        now: _TakeOver | None,
        began_s: float,
    ) -> Job:
        """Job of the thread: write the snapshot, wait for `publish`, and rename it to its final name."""
        staged, files = path.with_name(STAGING_NAME), self._files
        try:
            yield from self._stage(writing, staging(staged, snapshot, encoded, self._suffix, files))
            while not writing.may_count:
                writing.check()
                yield WAIT
            writing.check()
            files.rename(staged, path)
            sync_directory(path.parent, files)
            size = files.stat(path).st_size
        except _Cancelled:
            self._end(writing, staged)
        except _Spoiled:
            self._before = None
            self._end(writing, staged)
            self._spoiled()
        except OSError as failed:
            self._end(writing, staged)
            self._failed(failed.errno or errno.EIO)
        else:
            self._before = None if self._suffix else now
            self._end(writing, staged)
            self._done(WrittenSnapshot(snapshot.zxid, size, int((self._workers.now_s() - began_s) * 1000)))

    def _stage(self, writing: _Writing, steps: Generator[int, None, None]) -> Job:
        """Write the snapshot under its temporary name, which recovery ignores."""
        with closing(steps):
            for size in steps:
                writing.check()
                yield GO_ON if size else WAIT

    def _end(self, writing: _Writing, staged: Path) -> None:
        """Remove the temporary file; after this, the next snapshot can begin."""
        with suppress(OSError):
            unlink(staged, self._files)
        writing.ended = True


@contextmanager
def _open(before: _TakeOver | None, files: Files) -> Iterator[IO[bytes] | None]:
    """Open the previous snapshot's file, if blocks are copied from it, otherwise yield None. Raises _Spoiled."""
    if before is None:
        yield None
        return
    try:
        file = files.stream(before.path, "rb")
    except OSError:
        raise _Spoiled from None
    with file:
        yield file
