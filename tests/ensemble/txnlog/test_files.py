"""Small file operations: names of log and snapshot files, reading sparse files, and writing in chunks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zabka.ensemble.runtime.files import HOST
from zabka.ensemble.txnlog import files
from zabka.ensemble.txnlog.files import (
    LOG_PREFIX,
    SNAPSHOT_PREFIX,
    by_zxid,
    exists,
    forget_pages,
    is_directory,
    make_directories,
    read_text,
    read_used,
    remove_all,
    remove_tree,
    unlink,
    write_again,
    write_bytes,
    zxid_of,
)


@pytest.mark.parametrize(
    ("name", "prefix", "zxid"),
    [
        ("log.1a", LOG_PREFIX, 0x1A),
        ("log.0", LOG_PREFIX, 0),
        ("snapshot.10000000f", SNAPSHOT_PREFIX, 0x10000000F),
        ("snapshot.1a.gz", SNAPSHOT_PREFIX, 0x1A),
        ("snapshot.1a.snappy", SNAPSHOT_PREFIX, 0x1A),
        ("snapshot.1a", LOG_PREFIX, None),
        ("log", LOG_PREFIX, None),
        ("log.", LOG_PREFIX, None),
        ("log.old", LOG_PREFIX, None),
        ("logs.1a", LOG_PREFIX, None),
        ("snapshot.1a.bz2", SNAPSHOT_PREFIX, None),
    ],
)
def test_file_name_contains_its_zxid_in_hexadecimal(name: str, prefix: str, zxid: int | None) -> None:
    """A file name contains its zxid in hexadecimal, as in FileTxnLog and SnapStream (Util.getZxidFromName)."""
    assert zxid_of(Path("/data") / name, prefix) == zxid


def test_files_are_sorted_by_zxid_and_other_files_are_skipped(tmp_path: Path) -> None:
    for name in ("log.f", "log.10", "log.2", "logs", "log.", "snapshot.1", "damaged-log.1"):
        (tmp_path / name).write_bytes(b"")
    assert [(zxid, path.name) for zxid, path in by_zxid(tmp_path, LOG_PREFIX)] == [
        (0x2, "log.2"),
        (0xF, "log.f"),
        (0x10, "log.10"),
    ]


def test_exists_and_is_directory_return_false_for_missing_paths(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert exists(tmp_path / "file") and exists(tmp_path)
    assert not exists(tmp_path / "missing") and not exists(tmp_path / "file" / "below")
    assert is_directory(tmp_path) and not is_directory(tmp_path / "file") and not is_directory(tmp_path / "missing")


def test_parents_of_new_directories_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parents of all new directories are synced, because a directory's name is stored in its parent."""
    synced: list[Path] = []
    monkeypatch.setattr(HOST, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink()))
    make_directories(tmp_path / "a" / "b" / "c")
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"] and is_directory(tmp_path / "a" / "b" / "c")
    make_directories(tmp_path / "a" / "b" / "c")
    assert len(synced) == 3


def test_text_files_are_read_with_universal_newlines(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes("ä\r\nb\rc\n".encode())
    assert read_text(tmp_path / "text") == "ä\nb\nc\n"


@pytest.mark.parametrize("written", [b"x", b"x" * 5000])
def test_file_with_a_hole_at_its_end_is_read_up_to_its_data(tmp_path: Path, written: bytes) -> None:
    path = tmp_path / "log.1"
    with path.open("wb") as file:
        file.write(written)
        file.truncate(1 << 24)
    got = read_used(path)
    assert got[: len(written)] == written
    # A file system stores data in blocks, so a few zeros can follow the data, but not megabytes of them.
    assert not got[len(written) :].strip(b"\0") and len(got) < len(written) + (1 << 17)


def test_file_with_inner_holes_is_read_up_to_its_last_data(tmp_path: Path) -> None:
    path = tmp_path / "log.1"
    with path.open("wb") as file:
        for at in (0, 1 << 20, 5 << 20):
            file.seek(at)
            file.write(b"here")
        file.truncate(1 << 24)
    got = read_used(path)
    assert got[5 << 20 :].rstrip(b"\0") == b"here" and got[: 1 << 20].rstrip(b"\0") == b"here"
    assert got[1 << 20 : (1 << 20) + 4] == b"here" and len(got) < 6 << 20


@pytest.mark.parametrize(
    ("answers", "read"),
    [
        pytest.param([], b"abc\0\0", id="it keeps no map: EINVAL"),
        pytest.param([0, 3], b"abc", id="behind the data is a hole: ENXIO"),
        pytest.param([0, 8], b"abc\0\0", id="it has grown meanwhile"),
    ],
)
def test_file_is_read_up_to_its_last_hole_or_completely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: list[int], read: bytes
) -> None:
    (tmp_path / "log.1").write_bytes(b"abc\0\0")
    left = iter(answers)

    def lseek(descriptor: int, position: int, whence: int) -> int:
        if (answer := next(left, None)) is None:
            raise OSError(22, "Invalid argument")
        return answer

    monkeypatch.setattr(HOST, "lseek", lseek)
    assert read_used(tmp_path / "log.1") == read


def test_file_is_rewritten_in_chunks_at_their_offsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(1, 251))
    (tmp_path / "log.1").write_bytes(content)
    monkeypatch.setattr(files, "WRITE_BYTES_MAX", 100)
    written: list[tuple[int, bytes]] = []
    synced: list[int] = []

    def pwrite(descriptor: int, data: bytes, at: int) -> int:
        # Let `write` accept fewer bytes than requested, as the kernel may do.
        written.append((at, bytes(data[:70])))
        return os.pwrite(descriptor, data[:70], at)

    monkeypatch.setattr(HOST, "pwrite", pwrite)
    monkeypatch.setattr(HOST, "fsync", synced.append)
    write_again(tmp_path / "log.1")
    assert [at for at, _ in written] == [0, 70, 140, 210] and len(synced) == 1
    assert b"".join(part for _, part in written) == content == (tmp_path / "log.1").read_bytes()


def test_page_cache_drop_covers_a_file_range_and_ignores_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []

    def refuse(*arguments: int) -> None:
        asked.append(arguments)
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(HOST, "posix_fadvise", refuse)
    forget_pages(7, 100, 350)
    assert asked == [(7, 100, 250, os.POSIX_FADV_DONTNEED)]


def test_file_removal_is_durable_and_skips_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    paths = [tmp_path / "one", tmp_path / "a" / "two", tmp_path / "gone"]
    for path in paths[:2]:
        write_bytes(path, b"x")
    synced: list[Path] = []
    monkeypatch.setattr(HOST, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink()))
    remove_all(paths)
    assert not any(map(exists, paths)) and synced == [tmp_path, tmp_path / "a"]
    unlink(paths[0])


def test_directory_tree_is_removed_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    for name in ("a/one", "a/b/two", "a/b/c/three"):
        write_bytes(tmp_path / name, b"x")
    remove_tree(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
    remove_tree(tmp_path / "a")
