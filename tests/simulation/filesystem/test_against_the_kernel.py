"""The simulated file system, compared with a real directory, and its power losses, compared with a model of POSIX."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zabka.ensemble.runtime.files import HOST, Files
from zabka.simulation.filesystem.inode import SECTOR_BYTES
from zabka.simulation.filesystem.process_files import ProcessFiles
from zabka.simulation.filesystem.volume import Volume

NAMES = ("a", "b", "d", "d/a", "d/b", "missing/a")
FLAGS = (os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT, os.O_RDWR | os.O_CREAT | os.O_TRUNC,
         os.O_WRONLY | os.O_CREAT | os.O_EXCL, os.O_RDONLY | os.O_DIRECTORY)  # fmt: skip
POSITIONS = st.sampled_from([0, 1, 511, 4095, 4096, 9000])
SIZES = st.sampled_from([0, 1, 600, 4096, 8193])
NAME = st.sampled_from(NAMES)
NUMBER = st.integers(0, 3)
OPERATIONS = st.one_of(
    st.tuples(st.just("open"), NAME, st.sampled_from(FLAGS)),
    st.tuples(st.just("close"), NUMBER),
    st.tuples(st.just("pwrite"), NUMBER, POSITIONS, SIZES, st.integers(1, 255)),
    st.tuples(st.just("pread"), NUMBER, POSITIONS, SIZES),
    st.tuples(st.just("ftruncate"), NUMBER, POSITIONS),
    st.tuples(st.just("fsync"), NUMBER),
    st.tuples(st.just("write"), NAME, SIZES, st.integers(1, 255)),
    st.tuples(st.just("rename"), st.sampled_from(["a", "b", "d"]), st.sampled_from(["a", "b", "d"])),
    st.tuples(st.just("unlink"), NAME),
    st.tuples(st.just("mkdir"), st.sampled_from(["d", "a"])),
    st.tuples(st.just("rmdir"), st.sampled_from(["d", "a"])),
    st.tuples(st.just("stat"), NAME),
    st.tuples(st.just("list"), st.sampled_from(["d", "a"])),
)


class Process:
    """Process that runs operations on a directory of some file system, and returns each result or errno."""

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._root = root
        self._open: list[int] = []

    def do(self, operation: tuple[Any, ...]) -> object:
        try:
            return self._do(*operation)
        except OSError as failed:
            return errno.errorcode[failed.errno or 0]

    def _do(self, name: str, *args: Any) -> object:
        files = self._files
        if name in ("close", "pwrite", "pread", "ftruncate", "fsync"):
            if args[0] >= len(self._open):
                return None
            descriptor = self._open.pop(args[0]) if name == "close" else self._open[args[0]]
            return self._with(descriptor, name, *args[1:])
        path = self._root / args[0]
        if name == "open":
            self._open.append(files.open(path, args[1], 0o644))
        elif name == "write":
            with files.stream(path, "wb") as out:
                out.write(bytes([args[2]]) * args[1])
            with files.stream(path, "rb") as back:
                return back.read()
        elif name == "rename":
            files.rename(path, self._root / args[1])
        elif name == "stat":
            found = files.stat(path)
            return stat.S_ISDIR(found.st_mode) or found.st_size
        elif name == "list":
            return sorted(files.listdir(path))
        else:
            {"unlink": files.unlink, "mkdir": files.mkdir, "rmdir": files.rmdir}[name](path)
        return None

    def _with(self, descriptor: int, name: str, *args: Any) -> object:
        files = self._files
        if name == "pwrite":
            return files.pwrite(descriptor, bytes([args[2]]) * args[1], args[0])
        if name == "pread":
            return files.pread(descriptor, args[1], args[0])
        if name == "ftruncate":
            files.ftruncate(descriptor, args[0])
        else:
            {"close": files.close, "fsync": files.fsync}[name](descriptor)
        return None

    def tree(self) -> Iterator[tuple[str, object]]:
        for name in NAMES:
            yield name, self.do(("stat", name))
            yield name, self.do(("list", name)) if name in ("d", "a") else None
            yield name, self._content(name)

    def _content(self, name: str) -> object:
        try:
            with self._files.stream(self._root / name, "rb") as file:
                return file.read()
        except OSError as failed:
            return errno.errorcode[failed.errno or 0]

    def end(self) -> None:
        for descriptor in self._open:
            self._files.close(descriptor)


@contextmanager
def both() -> Iterator[tuple[Process, Process]]:
    """Yield a process of the simulated world and a process of this machine, each in an empty directory."""
    with tempfile.TemporaryDirectory() as real:
        files = ProcessFiles(Volume(Random(1)))
        files.mkdir(Path("/root"))
        processes = Process(files, Path("/root")), Process(HOST, Path(real))
        yield processes
        for process in processes:
            process.end()


def test_read_through_a_write_only_descriptor_is_an_error() -> None:
    with both() as processes:
        for process in processes:
            assert process.do(("open", "a", os.O_WRONLY | os.O_CREAT)) is None
            assert [process.do(("pread", 0, 0, size)) for size in (0, 600)] == ["EBADF", "EBADF"]


def test_ftruncate_of_a_directory_fails() -> None:
    with both() as processes:
        for process in processes:
            assert process.do(("mkdir", "d")) is process.do(("open", "d", os.O_RDONLY)) is None
            assert [process.do(each) for each in (("ftruncate", 0, 0), ("pread", 0, 0, 1))] == ["EINVAL", "EISDIR"]


def test_zero_byte_write_past_the_end_does_not_extend_the_file() -> None:
    with both() as processes:
        for process in processes:
            assert process.do(("open", "a", os.O_RDWR | os.O_CREAT)) is None
            assert [process.do(("pwrite", 0, position, 0, 1)) for position in (0, 9000)] == [0, 0]
            assert process.do(("stat", "a")) == 0


@settings(max_examples=300, deadline=None)
@given(st.lists(OPERATIONS, max_size=30), st.booleans())
def test_simulated_files_behave_like_the_kernel(operations: list[tuple[Any, ...]], journal: bool) -> None:
    volume = Volume(Random(1))
    volume.has_journal = journal
    with tempfile.TemporaryDirectory() as real:
        files = ProcessFiles(volume)
        files.mkdir(Path("/root"))
        ours, kernels = Process(files, Path("/root")), Process(HOST, Path(real))
        for operation in operations:
            assert ours.do(operation) == kernels.do(operation), operation
        assert list(ours.tree()) == list(kernels.tree())
        kernels.end()


# ---- states after a power loss: every state that POSIX allows, enumerated ------------------------------------------

A, B = "a", "b"
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from([A, B])),
        st.tuples(st.just("write"), st.sampled_from([A, B]), st.integers(0, 1), st.integers(1, 9)),
        st.tuples(st.just("cut"), st.sampled_from([A, B])),
        st.tuples(st.just("sync"), st.sampled_from([A, B])),
        st.tuples(st.just("sync names")),
        st.tuples(st.just("rename"), st.sampled_from([A, B])),
        st.tuples(st.just("unlink"), st.sampled_from([A, B])),
    ),
    max_size=6,
)
BLOCK = 4096
Content = tuple[int, tuple[int, int]]
"""A file's size in blocks, and the byte that fills each of its two blocks (0 for a hole)."""
State = frozenset[tuple[str, Content]]
"""Content of each file name."""


class Model:
    """Contents that each file and name can have on disk according to POSIX, independent of the implementation."""

    def __init__(self) -> None:
        self.now: dict[str, int] = {}
        self.operations: list[dict[str, int | None]] = []
        self.durable_names: dict[str, int] = {}
        self.sizes: list[list[int]] = []
        self.blocks: list[list[list[int]]] = []

    def create(self, name: str) -> None:
        if name not in self.now:
            self.sizes.append([0])
            self.blocks.append([[0], [0]])
            self._names({name: len(self.sizes) - 1})

    def _names(self, means: dict[str, int | None]) -> None:
        self.operations.append(means)
        _mean(self.now, means)

    def write(self, name: str, block: int, value: int) -> None:
        if name in self.now:
            file = self.now[name]
            self.blocks[file][block].append(value)
            if self.sizes[file][-1] < block + 1:
                self.sizes[file].append(block + 1)

    def cut(self, name: str) -> None:
        if name in self.now:
            file = self.now[name]
            for versions in self.blocks[file]:
                if versions[-1]:
                    versions.append(0)
            if self.sizes[file][-1]:
                self.sizes[file].append(0)

    def sync(self, name: str) -> None:
        if name in self.now:
            file = self.now[name]
            self.sizes[file] = self.sizes[file][-1:]
            self.blocks[file] = [versions[-1:] for versions in self.blocks[file]]

    def sync_names(self) -> None:
        self.operations.clear()
        self.durable_names = self.now.copy()

    def rename(self, name: str) -> None:
        other = B if name == A else A
        if name in self.now:
            self._names({name: None, other: self.now[name]})

    def unlink(self, name: str) -> None:
        if name in self.now:
            self._names({name: None})

    def names_allowed(self) -> set[tuple[tuple[str, int], ...]]:
        allowed: set[tuple[tuple[str, int], ...]] = set()
        for kept in itertools.product((False, True), repeat=len(self.operations)):
            names = self.durable_names.copy()
            for means, is_kept in zip(self.operations, kept, strict=True):
                if is_kept:
                    _mean(names, means)
            allowed.add(tuple(sorted(names.items())))
        return allowed

    def contents_allowed(self, file: int) -> set[Content]:
        """Return the allowed contents with whole blocks. Torn blocks are tested in `test_power_loss`."""
        first, second = self.blocks[file]
        return {
            (size, (one if size > 0 else 0, other if size > 1 else 0))
            for size, one, other in itertools.product(self.sizes[file], first, second)
        }

    def allowed(self) -> set[State]:
        states: set[State] = set()
        for names in self.names_allowed():
            files = sorted({file for _, file in names})
            for contents in itertools.product(*(sorted(self.contents_allowed(file)) for file in files)):
                held = dict(zip(files, contents, strict=True))
                states.add(frozenset((name, held[file]) for name, file in names))
        return states


def _mean(names: dict[str, int], means: dict[str, int | None]) -> None:
    for name, file in means.items():
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


def carry_out(steps: Sequence[tuple[Any, ...]], files: ProcessFiles) -> None:
    def with_file(name: str, act: Callable[[int], object]) -> None:
        try:
            descriptor = files.open(Path("/") / name, os.O_RDWR)
        except FileNotFoundError:
            return
        act(descriptor)
        files.close(descriptor)

    for step in steps:
        kind, name = step[0], str(step[1]) if len(step) > 1 else ""
        path = Path("/") / name
        if kind == "create":
            files.close(files.open(path, os.O_RDWR | os.O_CREAT))
        elif kind == "write":
            _, _, block, value = step
            with_file(name, partial(_fill, files, block, value))
        elif kind == "cut":
            with_file(name, lambda fd: files.ftruncate(fd, 0))
        elif kind == "sync":
            with_file(name, files.fsync)
        elif kind == "sync names":
            directory = files.open(Path("/"), os.O_RDONLY)
            files.fsync(directory)
            files.close(directory)
        elif kind == "rename" and name in files.listdir(Path("/")):
            files.rename(path, Path("/") / (B if name == A else A))
        elif kind == "unlink" and name in files.listdir(Path("/")):
            files.unlink(path)


def _fill(files: ProcessFiles, block: int, value: int, descriptor: int) -> None:
    files.pwrite(descriptor, bytes([value]) * BLOCK, block * BLOCK)


def state_of(files: ProcessFiles) -> State | None:
    """Return the state of the files, or None if a block is torn."""
    found: list[tuple[str, Content]] = []
    for name in (A, B):
        try:
            with files.stream(Path("/") / name, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            continue
        assert len(data) % BLOCK == 0
        blocks = [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]
        for block in blocks:
            for at in range(0, BLOCK, SECTOR_BYTES):
                assert len(set(block[at : at + SECTOR_BYTES])) == 1, "a sector is whole"
        if any(len(set(block)) > 1 for block in blocks):
            return None
        values = [block[0] for block in blocks] + [0, 0]
        found.append((name, (len(blocks), (values[0], values[1]))))
    return frozenset(found)


def states_after(steps: Sequence[tuple[Any, ...]], seeds: range, *, journal: bool) -> set[State]:
    seen: set[State] = set()
    for seed in seeds:
        volume = Volume(Random(seed))
        volume.has_journal = journal
        files = ProcessFiles(volume)
        carry_out(steps, files)
        volume.lose_power()
        if (state := state_of(ProcessFiles(volume))) is not None:
            seen.add(state)
    return seen


def model_of(steps: Sequence[tuple[Any, ...]]) -> Model:
    model = Model()
    for kind, *args in steps:
        getattr(model, kind.replace(" ", "_"))(*args)
    return model


@settings(max_examples=150, deadline=None)
@given(STEPS, st.booleans(), st.integers(0, 1000))
def test_power_loss_leaves_a_state_that_posix_allows(steps: list[tuple[Any, ...]], journal: bool, seed: int) -> None:
    assert states_after(steps, range(seed, seed + 8), journal=journal) <= model_of(steps).allowed()


CASES: list[list[tuple[Any, ...]]] = [
    [("create", A), ("write", A, 0, 1), ("write", A, 1, 2)],
    [("create", A), ("write", A, 0, 1), ("sync", A), ("rename", A)],
    [("create", A), ("sync names",), ("write", A, 0, 1), ("sync", A), ("write", A, 0, 2), ("write", A, 0, 3)],
    [("create", A), ("write", A, 0, 1), ("sync", A), ("sync names",), ("create", B), ("rename", B)],
    [("create", A), ("create", B), ("sync names",), ("unlink", A), ("unlink", B)],
    [("create", A), ("write", A, 0, 1), ("sync", A), ("sync names",), ("cut", A), ("write", A, 1, 2)],
]


@pytest.mark.long
def test_every_state_that_posix_allows_occurs_for_some_seed() -> None:
    for steps in CASES:
        assert states_after(steps, range(1500), journal=False) == model_of(steps).allowed(), steps
