"""A simulated file system from the point of view of one process; implements `zabka.ensemble.runtime.files.Files`."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from zabka.simulation.filesystem.inode import BLOCK_BYTES, DirectoryNode, FileNode, Node
from zabka.simulation.filesystem.volume import Volume, trouble

SECTORS_OF_A_BLOCK = BLOCK_BYTES // 512
BUFFER_BYTES = 8192
FIRST_DESCRIPTOR = 1 << 20
"""Simulated descriptors are larger than those of the host, because a program can use both."""
ROOM_BYTES = 1 << 40
"""Free space in bytes that is reported if the disk has no limit."""


class SimStat(NamedTuple):
    """Those fields of a stat(2) result that production code uses."""

    st_mode: int
    st_size: int
    st_blocks: int
    st_mtime: float


class _Open(NamedTuple):
    node: Node
    path: str
    writes: bool
    reads: bool


class ProcessFiles:
    """File operations of one process. `took_us` is their total time in µs since it was last set to 0.

    After the process is killed, its operations have no effect, even if its code still unwinds.
    """

    def __init__(self, volume: Volume) -> None:
        self.took_us = 0
        self.is_alive = True
        self.volume = volume
        self._open: dict[int, _Open] = {}
        self._next = FIRST_DESCRIPTOR
        volume.attach(self.kill)

    def kill(self) -> None:
        """Handle SIGKILL: close the descriptors and release the locks; written data remains readable."""
        for descriptor in list(self._open):
            self.close(descriptor)
        self.is_alive = False

    def has(self, descriptor: int) -> bool:
        """Return whether that descriptor is open."""
        return descriptor in self._open

    # -- descriptors -------------------------------------------------------------------------------------------------

    def open(self, path: Path, flags: int, mode: int = 0o777, /) -> int:
        """Open a file (open(2)). The supported flags are O_CREAT, O_EXCL, O_TRUNC, O_DIRECTORY and the access mode."""
        self._begin("open", str(path))
        volume = self.volume
        writes = flags & os.O_ACCMODE != os.O_RDONLY
        directory = volume.parent(path)
        node = directory.entries.get(path.name) if path.name else volume.find(path)
        if node is None:
            if not flags & os.O_CREAT:
                raise trouble(errno.ENOENT, path)
            node = FileNode(self._now_s())
            volume.change(directory, {path.name: node})
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise trouble(errno.EEXIST, path)
        elif isinstance(node, DirectoryNode):
            if writes or flags & os.O_CREAT:
                raise trouble(errno.EISDIR, path)
        elif flags & os.O_DIRECTORY:
            raise trouble(errno.ENOTDIR, path)
        elif flags & os.O_TRUNC:
            self._truncate(node, 0)
        if isinstance(node, FileNode):
            node.opened += 1
        self._next += 1
        self._open[self._next] = _Open(node, str(path), writes, flags & os.O_ACCMODE != os.O_WRONLY)
        return self._next

    def close(self, descriptor: int, /) -> None:
        """Close a descriptor (close(2))."""
        if not self.is_alive:
            return
        node = self._at(descriptor).node
        del self._open[descriptor]
        if isinstance(node, FileNode):
            if self.volume.locks.get(node) == (self, descriptor):
                del self.volume.locks[node]
            node.opened -= 1
            self.volume.free(node)

    def pread(self, descriptor: int, size: int, position: int, /) -> bytes:
        """Read up to `size` bytes at a position (pread(2))."""
        node = self._file("read", descriptor)
        return node.read(position, size)

    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, position: int, /) -> int:
        """Write at a position (pwrite(2)).  If the disk becomes full, write only a part of the data."""
        if not self.is_alive:
            return len(data)
        node = self._file("write", descriptor, writes=True)
        if not data:
            return 0
        written = bytes(data)
        new = node.new_blocks(position, len(written))
        room = self.volume.allocate(len(new) * BLOCK_BYTES) // BLOCK_BYTES
        if room < len(new):
            written = written[: max(new[room] * BLOCK_BYTES - position, 0)]
            if not written:
                self.volume.faults_met += 1
                raise trouble(errno.ENOSPC, self._at(descriptor).path)
        node.write(position, written)
        node.mtime_s = self._now_s()
        return len(written)

    def ftruncate(self, descriptor: int, size: int, /) -> None:
        """Truncate or extend a file (ftruncate(2))."""
        if self.is_alive:
            self._truncate(self._file("truncate", descriptor, writes=True), size)

    def fsync(self, descriptor: int, /) -> None:
        """Sync a file or directory (fsync(2))."""
        if not self.is_alive:
            return
        volume, opened = self.volume, self._at(descriptor)
        self.took_us += volume.sync_us()
        try:
            self._begin("sync", opened.path)
        except OSError:
            volume.failed_syncs += 1
            if isinstance(opened.node, FileNode):
                volume.fail_to_sync(opened.node)
            raise
        volume.sync(opened.node)

    def node_at(self, descriptor: int) -> Node:
        """Return the file or directory that the descriptor refers to."""
        return self._at(descriptor).node

    def fdatasync(self, descriptor: int, /) -> None:
        """Sync a file's data and its size (fdatasync(2)): without the size, the data could not be read."""
        self.fsync(descriptor)

    def fstat(self, descriptor: int, /) -> SimStat:
        """Return the status of an open file (fstat(2))."""
        return _stat_of(self._at(descriptor).node)

    def lseek(self, descriptor: int, position: int, whence: int, /) -> int:
        """Return the next position with data or in a hole (lseek(2)).

        Supports only SEEK_DATA and SEEK_HOLE, because simulated descriptors have no position.
        """
        node = self._file("seek", descriptor)
        if whence not in (os.SEEK_DATA, os.SEEK_HOLE):
            raise trouble(errno.EINVAL)
        found = node.next_data(position) if whence == os.SEEK_DATA else node.next_hole(position)
        if found is None or position >= node.size:
            raise trouble(errno.ENXIO)
        return found

    def posix_fadvise(self, descriptor: int, start: int, length: int, advice: int, /) -> None:
        """Apply posix_fadvise(2): POSIX_FADV_DONTNEED drops clean pages from the page cache."""
        if self.is_alive and advice == os.POSIX_FADV_DONTNEED:
            self._file("advise", descriptor).evict(start, length)

    def flock(self, descriptor: int, operation: int, /) -> None:
        """Lock a file (flock(2)).  Raises OSError instead of waiting if the file is locked."""
        self._begin("lock", self._at(descriptor).path)
        locks, key = self.volume.locks, self._at(descriptor).node
        if operation & fcntl.LOCK_UN:
            locks.pop(key, None)
        elif locks.setdefault(key, (self, descriptor)) != (self, descriptor):
            raise trouble(errno.EWOULDBLOCK)

    def stream(self, path: Path, mode: str, /) -> IO[bytes]:
        """Open a file as a stream, in one of the binary modes of the built-in `open`."""
        if "+" in mode or mode[0] in "ax":
            return self._stream_of_updates(path, mode)
        if mode == "rb":
            raw = _Raw(self, self.open(path, os.O_RDONLY), path)
            if isinstance(self._at(raw.fileno()).node, DirectoryNode):
                raise trouble(errno.EISDIR, path)
            return cast(IO[bytes], io.BufferedReader(raw, BUFFER_BYTES))
        assert mode == "wb", mode
        descriptor = self.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        return cast(IO[bytes], io.BufferedWriter(_Raw(self, descriptor, path), BUFFER_BYTES))

    def _stream_of_updates(self, path: Path, mode: str) -> IO[bytes]:
        """Open a file as a stream for appending, for exclusive creation, or for both reading and writing."""
        flags = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "a": os.O_CREAT, "x": os.O_CREAT | os.O_EXCL}[mode[0]]
        reads = "+" in mode
        raw = _Raw(self, self.open(path, flags | (os.O_RDWR if reads else os.O_WRONLY), 0o666), path)
        if mode[0] == "a":
            raw.seek(0, os.SEEK_END)
        made = io.BufferedRandom(raw, BUFFER_BYTES) if reads else io.BufferedWriter(raw, BUFFER_BYTES)
        return cast(IO[bytes], made)

    # -- file and directory names ------------------------------------------------------------------------------------

    def stat(self, path: Path, /) -> SimStat:
        """Return the status of a file (stat(2))."""
        self._begin("stat", str(path))
        return _stat_of(self.volume.find(path))

    def listdir(self, path: Path, /) -> list[str]:
        """Return the names in a directory in random order."""
        self._begin("list", str(path))
        node = self.volume.find(path)
        if not isinstance(node, DirectoryNode):
            raise trouble(errno.ENOTDIR, path)
        names = list(node.entries)
        self.volume.random.shuffle(names)
        return names

    def rename(self, path: Path, to: Path, /) -> None:
        """Rename a file (rename(2)).  Both names must be in the same directory."""
        if not self.is_alive:
            return
        self._begin("rename", str(path))
        volume = self.volume
        directory, target = volume.parent(path), volume.parent(to)
        if directory is not target:
            raise trouble(errno.EXDEV, path)
        node, replaced = directory.entries.get(path.name), directory.entries.get(to.name)
        if node is None:
            raise trouble(errno.ENOENT, path)
        if node is replaced:
            return
        if isinstance(replaced, DirectoryNode) and isinstance(node, FileNode):
            raise trouble(errno.EISDIR, to)
        if isinstance(node, DirectoryNode) and isinstance(replaced, FileNode):
            raise trouble(errno.ENOTDIR, to)
        if isinstance(replaced, DirectoryNode) and replaced.entries:
            raise trouble(errno.ENOTEMPTY, to)
        volume.change(directory, {path.name: None, to.name: node})

    def unlink(self, path: Path, /) -> None:
        """Remove a file (unlink(2))."""
        if not self.is_alive:
            return
        self._begin("unlink", str(path))
        if isinstance(self.volume.find(path), DirectoryNode):
            raise trouble(errno.EISDIR, path)
        self.volume.change(self.volume.parent(path), {path.name: None})

    def mkdir(self, path: Path, /) -> None:
        """Create a directory (mkdir(2))."""
        if not self.is_alive:
            return
        self._begin("mkdir", str(path))
        directory = self.volume.parent(path)
        if path.name in directory.entries or not path.name:
            raise trouble(errno.EEXIST, path)
        self.volume.change(directory, {path.name: DirectoryNode(self._now_s())})

    def rmdir(self, path: Path, /) -> None:
        """Remove an empty directory (rmdir(2))."""
        if not self.is_alive:
            return
        self._begin("rmdir", str(path))
        node = self.volume.find(path)
        if not isinstance(node, DirectoryNode):
            raise trouble(errno.ENOTDIR, path)
        if node.entries:
            raise trouble(errno.ENOTEMPTY, path)
        self.volume.change(self.volume.parent(path), {path.name: None})

    def resolve(self, path: Path, /) -> Path:
        """Return the path unchanged, because there are no symbolic links."""
        return path

    def room(self, path: Path, /) -> int:
        """Return the free space in bytes."""
        return ROOM_BYTES if self.volume.room_bytes is None else self.volume.room_bytes

    def capacity(self, path: Path, /) -> int:
        """Return the size of the whole volume in bytes: its free space plus the blocks of its files."""
        used = sum(len(node.blocks) for _, node in self.volume.files()) * BLOCK_BYTES
        return self.room(path) + used

    # -- other operations --------------------------------------------------------------------------------------------

    def _now_s(self) -> float:
        return self.volume.now_us() / 1e6

    def _begin(self, operation: str, path: str) -> None:
        if not self.is_alive:
            raise trouble(errno.EIO, path)
        self.took_us += self.volume.begin_operation(operation, path)

    def _at(self, descriptor: int) -> _Open:
        if descriptor not in self._open:
            raise trouble(errno.EBADF)
        return self._open[descriptor]

    def _file(self, operation: str, descriptor: int, *, writes: bool = False) -> FileNode:
        opened = self._at(descriptor)
        self._begin(operation, opened.path)
        if (operation == "read" and not opened.reads) or (operation == "write" and not opened.writes):
            raise trouble(errno.EBADF, opened.path)
        if writes and not opened.writes:
            raise trouble(errno.EINVAL, opened.path)
        if not isinstance(opened.node, FileNode):
            raise trouble(errno.EISDIR, opened.path)
        return opened.node

    def _truncate(self, node: FileNode, size: int) -> None:
        blocks = len(node.blocks)
        node.truncate(size)
        node.mtime_s = self._now_s()
        if self.volume.room_bytes is not None:
            self.volume.room_bytes += (blocks - len(node.blocks)) * BLOCK_BYTES


def _stat_of(node: Node) -> SimStat:
    if isinstance(node, DirectoryNode):
        return SimStat(stat.S_IFDIR | 0o755, BLOCK_BYTES, SECTORS_OF_A_BLOCK, node.mtime_s)
    return SimStat(stat.S_IFREG | 0o644, node.size, len(node.blocks) * SECTORS_OF_A_BLOCK, node.mtime_s)


class _Raw(io.RawIOBase):
    """The unbuffered file under a buffered stream."""

    def __init__(self, files: ProcessFiles, descriptor: int, path: Path) -> None:
        self._files = files
        self._descriptor = descriptor
        self._position = 0
        self.name = str(path)

    def fileno(self) -> int:
        return self._descriptor

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._files.pread(self._descriptor, len(buffer), self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def write(self, data: Any, /) -> int:
        written = self._files.pwrite(self._descriptor, data, self._position)
        self._position += written
        return written

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        self._position = offset + (self._files.fstat(self._descriptor).st_size if base is None else base)
        return self._position

    def truncate(self, size: int | None = None, /) -> int:
        size = self._position if size is None else size
        self._files.ftruncate(self._descriptor, size)
        return size

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._files.close(self._descriptor)
