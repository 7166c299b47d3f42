"""The bytes of a snapshot: errors and limits of the decoder, and the meaning of each part of the file."""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import IO
from zlib import adler32

import pytest

from tests.ensemble.txnlog.test_formats import REAL, node, some_snapshot
from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.records import ACL, OPEN_ACL
from zabka.ensemble.runtime.files import HOST
from zabka.ensemble.tree_snapshot import NodeImage, TreeSnapshot
from zabka.ensemble.txnlog import snapshot_format, snapshots
from zabka.ensemble.txnlog.snapshot_format import TreeDecoder, encode_digest, encode_tree, in_chunks, seal, signed
from zabka.ensemble.txnlog.snapshots import (
    SNAPSHOT_HEADER,
    SYNC_BYTES,
    SnapshotDamaged,
    read_snapshot,
    read_stream,
    stage_snapshot,
    write_snapshot,
)

INT, LONG = struct.Struct(">i"), struct.Struct(">q")
NO_SESSIONS_NO_LISTS = bytes(8)
STAT = bytes(60)
ROOT_NODE = INT.pack(0) + INT.pack(-1) + LONG.pack(-1) + STAT
END = INT.pack(1) + b"/"


def a_node(path: bytes, data: bytes = b"", acl: int = -1, data_size: int | None = None) -> bytes:
    size = len(data) if data_size is None else data_size
    return INT.pack(len(path)) + path + INT.pack(size) + data + LONG.pack(acl) + STAT


def decoded(data: bytes) -> TreeDecoder:
    decoder = TreeDecoder()
    decoder.feed(data)
    return decoder


# -- the tree --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 7, 64, 1000, 1 << 20])
def test_size_of_tree_data_is_independent_of_chunk_sizes(step: int) -> None:
    nodes = [node(""), node("/none", None), node("/empty", b""), node("/a", b"x" * 100), node("/a/b", b"y" * 31)]
    raw = b"".join(encode_tree(TreeSnapshot(Zxid(1), {}, nodes, 0)))
    decoder = TreeDecoder()
    for at in range(0, len(raw), step):
        decoder.feed(raw[at : at + step])
    assert decoder.done and decoder.nodes.data_bytes == 131
    assert list(decoder.nodes) == nodes


def test_snapshot_parts_of_these_tests_form_a_readable_tree() -> None:
    """The parts from which these tests build snapshots are valid: the decoder for ZooKeeper's own files reads them as a
    tree.
    """
    decoder = decoded(NO_SESSIONS_NO_LISTS + ROOT_NODE + a_node(b"/a", b"hello") + END + b"behind")
    assert decoder.done and decoder.rest == b"behind"
    assert [(image.path, image.data) for image in decoder.nodes] == [("", None), ("/a", b"hello")]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(INT.pack(-2), id="fewer than no sessions"),
        pytest.param(INT.pack(50_000_001), id="more sessions than can be"),
        pytest.param(INT.pack(0) + INT.pack(-2), id="fewer than no ACL lists"),
        pytest.param(INT.pack(0) + INT.pack(50_000_001), id="more ACL lists than can be"),
        pytest.param(NO_SESSIONS_NO_LISTS + a_node(b"/a"), id="it does not begin with its root"),
        pytest.param(NO_SESSIONS_NO_LISTS + END, id="it has no root"),
        pytest.param(NO_SESSIONS_NO_LISTS + ROOT_NODE + ROOT_NODE, id="two roots"),
        pytest.param(NO_SESSIONS_NO_LISTS + ROOT_NODE + a_node(b"a"), id="a path of one letter"),
        pytest.param(NO_SESSIONS_NO_LISTS + ROOT_NODE + a_node(b"ab"), id="a path without its slash"),
        pytest.param(NO_SESSIONS_NO_LISTS + ROOT_NODE + INT.pack(-1) + a_node(b"/a"), id="a path of length -1"),
        pytest.param(NO_SESSIONS_NO_LISTS + ROOT_NODE + a_node(b"/\xff"), id="a path that is not UTF-8"),
        pytest.param(NO_SESSIONS_NO_LISTS + ROOT_NODE + a_node(b"/a", acl=7), id="an unknown ACL list"),
        pytest.param(NO_SESSIONS_NO_LISTS + ROOT_NODE + a_node(b"/a", data_size=-2), id="data of length -2"),
        pytest.param(
            NO_SESSIONS_NO_LISTS + ROOT_NODE + a_node(b"/a", data_size=(256 << 20) + 1), id="data that is too large"
        ),
        pytest.param(NO_SESSIONS_NO_LISTS + ROOT_NODE + INT.pack((256 << 20) + 1), id="a path that is too large"),
    ],
)
def test_malformed_snapshot_bytes_are_rejected_immediately(data: bytes) -> None:
    with pytest.raises(MalformedRecord):
        decoded(data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing yet"),
        pytest.param(INT.pack(50_000_000), id="as many sessions as can be"),
        pytest.param(INT.pack(0) + INT.pack(50_000_000), id="as many ACL lists as can be"),
        pytest.param(NO_SESSIONS_NO_LISTS + ROOT_NODE + INT.pack(256 << 20), id="a path as large as can be"),
        pytest.param(NO_SESSIONS_NO_LISTS + ROOT_NODE + a_node(b"/a", data_size=256 << 20), id="data as large"),
        pytest.param(NO_SESSIONS_NO_LISTS + ROOT_NODE + END[:-1], id="all but the last byte"),
    ],
)
def test_prefix_of_a_snapshot_is_incomplete(data: bytes) -> None:
    assert not decoded(data).done


def test_vector_count_of_minus_one_is_read_as_empty() -> None:
    """A count of -1 is read as an empty vector, as in SerializeUtils, which counts down to zero."""
    assert decoded(INT.pack(-1) + INT.pack(-1) + ROOT_NODE + END).done


def test_acl_list_length_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_format, "ACL_ROW_BYTES_MAX", 100)
    row = INT.pack(0) + INT.pack(1) + LONG.pack(0) + INT.pack(1 << 20)
    decoder = decoded(row + bytes(100 - 12))
    assert not decoder.done
    with pytest.raises(MalformedRecord):
        decoder.feed(b"\0")


def test_sessions_and_acl_lists_survive_a_round_trip(tmp_path: Path) -> None:
    lists = [(ACL(31, "digest", f"u{n}:x"),) for n in range(3)]
    nodes = [node(""), *(node(f"/{n}", b"", acl) for n, acl in enumerate([*lists, OPEN_ACL, lists[0]]))]
    sessions = {SessionId(-(1 << 63)): 0, SessionId((1 << 63) - 1): (1 << 31) - 1}
    read = decoded(b"".join(encode_tree(TreeSnapshot(Zxid(1), sessions, nodes, 0))))
    assert read.sessions == sessions
    assert [image.acl for image in read.nodes] == [OPEN_ACL, *lists, OPEN_ACL, lists[0]]
    assert list(read.nodes) == nodes, "with a list of their own, and empty data, too"


def test_acl_lists_are_numbered_from_one_except_the_open_acl() -> None:
    """ACL lists are numbered from 1, and the open ACL has number -1 (ReferenceCountedACLCache)."""
    secret = (ACL(31, "digest", "u:x"),)
    raw = b"".join(encode_tree(TreeSnapshot(Zxid(1), {}, [node("", acl=secret), node("/a")], 0)))
    count, index = struct.unpack_from(">iq", raw, 4)
    assert (count, index) == (1, 1)
    assert raw.count(LONG.pack(-1)) == 1, "of /a alone"


@pytest.mark.parametrize(
    ("sizes", "chunks"),
    [
        ([], []),
        ([4], [4]),
        ([5, 5, 5, 5, 3], [10, 10, 3]),
        ([10], [10]),
        ([9, 9], [18]),
        ([3, 10], [13]),
        ([12, 3], [12, 3]),
    ],
)
def test_snapshot_records_are_joined_up_to_the_chunk_size(sizes: list[int], chunks: list[int]) -> None:
    assert [len(chunk) for chunk in in_chunks((b"x" * size for size in sizes), 10)] == chunks


@pytest.mark.parametrize(
    ("digest", "as_signed"),
    [(0, 0), (1, 1), ((1 << 63) - 1, (1 << 63) - 1), (1 << 63, -(1 << 63)), ((1 << 64) - 1, -1), (1 << 64, 0)],
)
def test_tree_digest_is_encoded_as_a_signed_long(digest: int, as_signed: int) -> None:
    assert signed(digest) == as_signed


# -- the parts after the tree ----------------------------------------------------------------------------------------


def parts_of(zxid: int, digest_zxid: int | None, last: int | None, digest: int = 7) -> bytes:
    """Return a snapshot file with an empty tree and correct checksums.

    The digest and the last zxid follow the tree if they are given.
    """
    snapshot = TreeSnapshot(Zxid(zxid), {}, [node("")], digest)
    out = SNAPSHOT_HEADER + b"".join(encode_tree(snapshot))
    out += seal(adler32(out))
    if digest_zxid is not None:
        out += encode_digest(TreeSnapshot(Zxid(digest_zxid), {}, [], digest))
        out += seal(adler32(out))
    if last is not None:
        out += LONG.pack(last)
        out += seal(adler32(out))
    return out


@pytest.mark.parametrize(
    ("digest_zxid", "last", "digest"),
    [(5, 5, 7), (5, None, 7), (None, None, 0), (4, 5, 0), (6, 5, 0)],
)
def test_tree_digest_is_used_only_for_the_zxid_of_its_file(
    tmp_path: Path, digest_zxid: int | None, last: int | None, digest: int
) -> None:
    """The digest in a snapshot is used only if its zxid is the zxid of the file.

    The digest of a fuzzy snapshot has a later zxid, and does not describe the tree at the file's zxid.
    """
    (tmp_path / "snapshot.5").write_bytes(parts_of(5, digest_zxid, last))
    read = read_snapshot(tmp_path / "snapshot.5")
    assert (read.zxid, read.digest) == (5, digest)


def test_zxid_missing_in_the_file_name_is_read_from_the_file_end() -> None:
    assert read_stream(io.BytesIO(parts_of(5, 5, 5))).zxid == 5
    with pytest.raises(SnapshotDamaged, match="does not say its zxid"):
        read_stream(io.BytesIO(parts_of(5, 5, None)))


def test_snapshot_of_zookeeper_without_digests_is_complete(tmp_path: Path) -> None:
    """A snapshot that ZooKeeper wrote with digest.enabled=false is accepted.

    ZooKeeper 3.9.5 then writes only the zxid after the tree. Before the fix, such a file was rejected as damaged.
    """
    (tmp_path / "snapshot.5").write_bytes(parts_of(5, None, 5))
    read = read_snapshot(tmp_path / "snapshot.5")
    assert (read.zxid, read.digest) == (5, 0)
    assert read_stream(io.BytesIO(parts_of(5, None, 5))).zxid == 5
    (tmp_path / "snapshot.6").write_bytes(parts_of(5, None, 5))
    with pytest.raises(SnapshotDamaged, match="it ends at 0x5"):
        read_snapshot(tmp_path / "snapshot.6")


def test_snapshot_file_contains_its_parts_in_zookeepers_order(tmp_path: Path) -> None:
    write_snapshot(tmp_path, TreeSnapshot(Zxid(5), {}, [node("")], 7))
    assert (tmp_path / "snapshot.5").read_bytes() == parts_of(5, 5, 5)
    assert b"ZKSN" + INT.pack(2) + LONG.pack(-1) == SNAPSHOT_HEADER


def damage(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


@pytest.mark.parametrize(
    ("change", "offset"),
    [
        pytest.param(lambda raw: b"", 0, id="empty"),
        pytest.param(lambda raw: raw[:15], 0, id="cut in its header"),
        pytest.param(lambda raw: damage(raw, 0), 0, id="another magic number"),
        pytest.param(lambda raw: raw[:16], 16, id="cut behind its header"),
        pytest.param(lambda raw: raw[:-63], len(parts_of(5, 5, 5)) - 67, id="cut in its first seal"),
        pytest.param(lambda raw: damage(raw, len(raw) - 60), len(parts_of(5, 5, 5)) - 67, id="the first seal"),
        pytest.param(lambda raw: raw[:-50], len(parts_of(5, 5, 5)) - 54, id="cut in its digest"),
        pytest.param(lambda raw: damage(raw, len(raw) - 50), len(parts_of(5, 5, 5)) - 34, id="the digest"),
        pytest.param(lambda raw: raw[:-20], len(parts_of(5, 5, 5)) - 21, id="cut in its zxid"),
        pytest.param(lambda raw: damage(raw, len(raw) - 1), len(parts_of(5, 5, 5)) - 13, id="the last byte"),
    ],
)
def test_snapshot_damage_is_reported_with_its_position(
    tmp_path: Path, change: Callable[[bytes], bytes], offset: int
) -> None:
    (tmp_path / "snapshot.5").write_bytes(change(parts_of(5, 5, 5)))
    with pytest.raises(SnapshotDamaged) as error:
        read_snapshot(tmp_path / "snapshot.5")
    assert error.value.offset == offset and f"at offset {offset}" in str(error.value)


def files_opened(monkeypatch: pytest.MonkeyPatch) -> list[IO[bytes]]:
    """Return a list to which every file that is opened from now on is added."""
    opened: list[IO[bytes]] = []
    stream = HOST.stream

    def note(path: Path, mode: str) -> IO[bytes]:
        opened.append(stream(path, mode))
        return opened[-1]

    monkeypatch.setattr(HOST, "stream", note)
    return opened


@pytest.mark.parametrize("suffix", [".gz", ".snappy"])
def test_damaged_compression_is_reported_at_the_file_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    opened = files_opened(monkeypatch)
    path = tmp_path / f"snapshot.5{suffix}"
    stage_snapshot(path, TreeSnapshot(Zxid(5), {}, [node("")], 7), suffix)
    whole = path.read_bytes()
    assert read_snapshot(path).digest == 7
    for raw in (whole[:5], whole[: len(whole) // 2], b"", damage(whole, 0)):
        path.write_bytes(raw)
        with pytest.raises(SnapshotDamaged) as error:
            read_snapshot(path)
        assert error.value.offset == 0
    assert all(file.closed for file in opened)


def test_snapshot_tree_is_read_with_any_read_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read_snapshot(REAL / "snapshot.10000001f")
    for piece in (1, 10, 333):
        monkeypatch.setattr(snapshots, "PIECE_BYTES", piece)
        assert read_snapshot(REAL / "snapshot.10000001f") == expected


def test_compressed_stream_is_closed_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = files_opened(monkeypatch)
    for suffix in ("", ".gz", ".snappy"):
        path = tmp_path / f"snapshot.5{suffix}"
        stage_snapshot(path, TreeSnapshot(Zxid(5), {}, [node("")], 7), suffix)
        read_snapshot(path)
    assert len(opened) == 6 and all(file.closed for file in opened)
    assert gzip.decompress((tmp_path / "snapshot.5.gz").read_bytes()) == (tmp_path / "snapshot.5").read_bytes()


def test_large_snapshot_is_synced_and_uncached_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, int]] = []
    path = tmp_path / "staged"

    def size() -> int:
        return path.stat().st_size

    monkeypatch.setattr(HOST, "fdatasync", lambda descriptor: done.append(("part", size())))
    monkeypatch.setattr(HOST, "fsync", lambda descriptor: done.append(("whole", size())))
    monkeypatch.setattr(
        HOST, "posix_fadvise", lambda descriptor, start, length, advice: done.append((f"dropped from {start}", length))
    )
    data = b"x" * (SYNC_BYTES // 2 - 200)
    images: list[NodeImage] = [node(""), *(node(f"/{n}", data) for n in range(6))]
    stage_snapshot(path, TreeSnapshot(Zxid(5), {}, images, 7))
    synced = [at for what, at in done if what == "part"]
    assert len(synced) in (2, 3) and done[-2:] == [("whole", size()), ("dropped from 0", size())]
    assert all(
        SYNC_BYTES <= later - before < 2 * SYNC_BYTES for before, later in zip([0, *synced], synced, strict=False)
    )
    assert done == [each for at in synced for each in (("part", at), ("dropped from 0", at))] + done[-2:]


def test_snapshot_is_synced_before_and_after_its_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    rename = HOST.rename
    monkeypatch.setattr(
        HOST, "fsync", lambda descriptor: done.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
    )
    monkeypatch.setattr(HOST, "rename", lambda path, to: (done.append("rename"), rename(path, to)))
    written = write_snapshot(tmp_path, some_snapshot())
    assert done == [".snapshot.tmp", "rename", tmp_path.name]
    assert written.size_bytes == (tmp_path / "snapshot.100000005").stat().st_size
    assert 0 <= written.duration_ms < 60_000
