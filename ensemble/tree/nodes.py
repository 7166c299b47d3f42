"""All znodes of a tree, keyed by path, with siblings stored together.

One entry is both a znode and its parent's child. With a dict of paths, and a dict of child names per znode, every path
would be stored twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

from zabka.ensemble.records import ACL, OPEN_ACL
from zabka.ensemble.tree.znode import FLAGS_AT, LISTED, Znode

_NONE: dict[str, bytes] = {}


class Nodes(Mapping[str, Znode]):
    """Znodes, keyed by path.

    - `below` maps each path to the znodes directly below it, oldest first. The root's key is the empty string, and the
      root itself is the first znode under this key.
    - `count` is the number of znodes.
    - `acls` contains the ACLs of the znodes that do not have the open ACL.

    Add and remove znodes only with `put` and `remove`. A znode that exists already can also be replaced in `below`.
    """

    __slots__ = ("acls", "below", "count")

    def __init__(
        self, below: dict[str, dict[str, bytes]] | None = None, acls: dict[str, Sequence[ACL]] | None = None
    ) -> None:
        self.below = {"": {}} if below is None else below
        self.acls: dict[str, Sequence[ACL]] = {} if acls is None else acls
        self.count = sum(map(len, self.below.values()))

    def value(self, path: str) -> bytes | None:
        """Return a znode's bytes, or None if it does not exist."""
        siblings = self.below.get(path[: path.rfind("/")])
        return siblings.get(path) if siblings is not None else None

    def acl_of(self, path: str, value: bytes) -> Sequence[ACL]:
        """Return the ACL of a znode."""
        return self.acls[path] if value[FLAGS_AT] & LISTED else OPEN_ACL

    def children_of(self, path: str) -> Collection[str]:
        """Return the paths directly below a path; for the root, these include the root itself."""
        return self.below.get(path if path != "/" else "", _NONE)

    def subtree(self, path: str) -> Iterator[dict[str, bytes]]:
        """Yield all znodes below a path, at any depth, one dict per group of siblings.

        Almost no time is spent on znodes without children, because there can be very many of them.
        """
        below = self.below
        left = [path if path != "/" else ""]
        while left:
            siblings = below.get(left.pop())
            if siblings is not None:
                yield siblings
                left += [each for each in siblings if each in below]

    def child_count(self, path: str) -> int:
        """Return the number of a znode's children; 0 if it does not exist."""
        return len(self.below.get(path, _NONE)) if path != "/" else len(self.below[""]) - 1

    def view(self, path: str, value: bytes) -> Znode:
        """Return the `Znode` view of a znode whose bytes are known."""
        return Znode(path, value, self.acl_of(path, value), self.children_of(path))

    def put(self, path: str, value: bytes) -> None:
        """Add or replace a znode."""
        parent = path[: path.rfind("/")]
        siblings = self.below.get(parent)
        if siblings is None:
            siblings = self.below[parent] = {}
        if path not in siblings:
            self.count += 1
        siblings[path] = value

    def remove(self, path: str) -> None:
        """Remove a znode, which must have no children."""
        parent = path[: path.rfind("/")]
        siblings = self.below[parent]
        del siblings[path]
        self.count -= 1
        if not siblings:
            del self.below[parent]
        self.acls.pop(path, None)

    def copy(self) -> Nodes:
        """Return a copy of the current znodes, which shares their bytes."""
        return Nodes({path: siblings.copy() for path, siblings in self.below.items()}, self.acls.copy())

    def values_of(self, paths: Sequence[str]) -> list[bytes]:
        """Return the bytes of existing znodes."""
        below = self.below
        return [below[path[: path.rfind("/")]][path] for path in paths]

    def pairs(self) -> Iterator[tuple[str, bytes]]:
        """Yield every path with its znode's bytes; parents come before children."""
        return chain.from_iterable(siblings.items() for siblings in self.below.values())

    def __getitem__(self, path: str) -> Znode:
        value = self.value(path)
        if value is None:
            raise KeyError(path)
        return self.view(path, value)

    def get(self, path: str, default: Znode | None = None) -> Znode | None:  # type: ignore[override]
        """Return a znode, or the default if it does not exist."""
        value = self.value(path)
        return default if value is None else self.view(path, value)

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self.value(path) is not None

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.below.values())

    def __len__(self) -> int:
        return self.count
