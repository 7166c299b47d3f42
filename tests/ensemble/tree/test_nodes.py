"""A znode stored as bytes, and the table of znodes keyed by path. Fields are read back as they were written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zabka.ensemble.records import ACL, OPEN_ACL
from zabka.ensemble.tree.nodes import Nodes
from zabka.ensemble.tree.znode import (
    FLAGS_AT,
    HEAD_BYTES,
    UNCOUNTED,
    block_of,
    data_of,
    digest_seed,
    image_of,
    made,
    owner_of,
    restated,
    rewritten,
    sealed,
    stat_fields,
)

SECRET = (ACL(31, "digest", "u:x"),)
LONGS, INTS = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)
COUNTERS = st.tuples(LONGS, LONGS, LONGS, LONGS, LONGS, INTS, INTS, INTS, LONGS)
ONE = (1, 2, 3, 4, 5, 6, 7, 8, 0)


def value(path: str = "/a", data: bytes | None = b"data", block: int = 9, listed: bool = False) -> bytes:
    return made(path, ONE, data, block=block, listed=listed)


def table(*paths: str) -> Nodes:
    nodes = Nodes()
    for path in ("/", *paths):
        nodes.put(path, value(path))
    return nodes


@given(COUNTERS, st.one_of(st.none(), st.binary(max_size=40)), st.integers(0, 2**32 - 1))
def test_every_field_of_a_znode_is_read_as_it_was_written(
    counters: tuple[int, ...], data: bytes | None, block: int
) -> None:
    packed = made("/a", counters, data, block=block, listed=False)
    image = image_of("/a", packed, OPEN_ACL)
    assert (
        image.czxid, image.mzxid, image.pzxid, image.ctime, image.mtime, image.version, image.cversion,
        image.aversion, image.ephemeral_owner,
    ) == counters  # fmt: skip
    assert (data_of(packed), block_of(packed), owner_of(packed)) == (data, block, counters[8])


def test_null_data_differs_from_empty_data() -> None:
    assert data_of(value(data=None)) is None and data_of(value(data=b"")) == b""
    assert len(value(data=None)) == HEAD_BYTES


def test_updated_znode_has_the_digest_of_an_equal_new_znode() -> None:
    changed, by = restated("/a", value(), pzxid=30, cversion=70, aversion=80)
    rebuilt = made("/a", (1, 2, 30, 4, 5, 6, 70, 80, 0), b"data", block=9, listed=False)
    assert changed == rebuilt
    assert by == sealed("/a", rebuilt)[1] - sealed("/a", value())[1]


def test_digest_excludes_znodes_below_the_zookeeper_znode() -> None:
    packed = value("/zookeeper/config")
    assert packed[FLAGS_AT] & UNCOUNTED and sealed("/zookeeper/config", packed) == (-1, 0)
    assert restated("/zookeeper/config", packed, pzxid=30)[1] == 0


def test_rewritten_znode_keeps_counters_without_new_values() -> None:
    packed = value("/zookeeper/config", None)
    again = image_of("/x", rewritten(packed, b"new"), OPEN_ACL)
    assert (again.data, again.mzxid, again.version) == (b"new", 2, 6)
    again = image_of("/x", rewritten(packed, b"new", 20, 50), OPEN_ACL)
    assert (again.mzxid, again.mtime, again.version, again.czxid) == (20, 50, -1, 1)


def test_stat_cversion_counts_created_and_deleted_children() -> None:
    assert stat_fields(value(), 3) == (1, 2, 4, 5, 6, 2 * 7 - 3, 8, 0, 4, 3, 3)


@pytest.mark.parametrize("path", ["/b", "/a/c", "a", "", "//", "/a/", "/a/b/c", "x/y"])
def test_znode_at_a_missing_path_is_not_found(path: str) -> None:
    nodes = table("/a", "/a/b")
    assert nodes.value(path) is None and path not in nodes and nodes.get(path) is None
    with pytest.raises(KeyError):
        nodes[path]


def test_root_is_not_its_own_child() -> None:
    nodes = table("/a", "/b", "/a/b")
    assert (nodes["/"].children, nodes["/"].child_count, nodes.child_count("/")) == (["a", "b"], 2, 2)
    assert (nodes["/a"].children, nodes.child_count("/a"), nodes.child_count("/b")) == (["b"], 1, 0)


def test_children_are_listed_in_creation_order() -> None:
    nodes = table("/z", "/a", "/m")
    nodes.put("/a", value("/a", b"other"))
    nodes.remove("/z")
    nodes.put("/z", value("/z"))
    assert nodes["/"].children == ["a", "m", "z"]


def test_znode_iteration_visits_each_path_after_its_parent() -> None:
    nodes = table("/a", "/b", "/b/c", "/a/d", "/b/c/e")
    paths = list(nodes)
    assert sorted(paths) == ["/", "/a", "/a/d", "/b", "/b/c", "/b/c/e"] and len(nodes) == 6
    assert all(paths.index(path[: path.rfind("/")] or "/") <= paths.index(path) for path in paths)


def test_acl_list_is_dropped_with_its_znode() -> None:
    nodes = table()
    nodes.put("/a", value("/a", listed=True))
    nodes.acls["/a"] = SECRET
    assert nodes["/a"].acl is SECRET and nodes["/"].acl is OPEN_ACL
    nodes.remove("/a")
    assert not nodes.acls


def test_copy_of_the_znode_table_ignores_later_changes() -> None:
    nodes = table("/a")
    before = nodes.copy()
    nodes.put("/a", value("/a", b"later"))
    nodes.put("/b", value("/b"))
    assert (before["/a"].data, list(before), len(before)) == (b"data", ["/", "/a"], 2)


def test_digest_seed_depends_on_znode_path_and_data() -> None:
    assert sealed("/a", value())[0] == digest_seed("/a", b"data") != digest_seed("/b", b"data")


@given(st.lists(st.sampled_from(["/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/e", "/ab", "/ab/c", "/x"]), unique=True))
def test_subtree_lists_exactly_the_paths_below_a_znode(made_paths: list[str]) -> None:
    paths = ["/", *(path for path in made_paths if all(path[:n] in made_paths for n in _slashes(path)))]
    nodes = Nodes()
    for path in paths:
        nodes.put(path, bytes(HEAD_BYTES))
    for above in (*paths, "/none", "/a/b"):
        below = [path for siblings in nodes.subtree(above) for path in siblings if path != "/"]
        expected = [path for path in paths if path.startswith(above.rstrip("/") + "/") and path != "/"]
        assert sorted(below) == sorted(expected)


def _slashes(path: str) -> list[int]:
    return [n for n, char in enumerate(path) if char == "/" and n]
