"""Latest proposed state: the tree plus all proposed changes that are not applied yet (ChangeRecord).

A leader prepares requests against this state, so that any number of transactions can be in flight. For each changed
path, one record contains the proposed state after all these changes. The record is removed when the last transaction
that changed it has been applied.
"""

from __future__ import annotations

from collections import deque

from zabka.ensemble.ids import Zxid
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.node_state import NodeState
from zabka.ensemble.tree.paths import ROOT


class ChangeRecord(NodeState):
    """Proposed state of one znode, as of `zxid`. `exists` is False for a proposed delete."""

    __slots__ = ("child_count", "exists", "zxid")

    child_count: int
    exists: bool
    zxid: Zxid

    def copy(self) -> ChangeRecord:
        """Return an independent copy, to which a rollback can return."""
        twin = ChangeRecord()
        twin.copy_state(self)
        twin.child_count, twin.exists, twin.zxid = self.child_count, self.exists, self.zxid
        return twin


class Outstanding:
    """Proposed changes that the tree does not contain yet.

    `digest` is the tree's digest after all these changes; `foreseen` is the tree's dict of precomputed values.
    """

    __slots__ = ("_created", "_log", "_records", "_tree", "_undo", "digest", "foreseen")

    def __init__(self, tree: DataTree) -> None:
        self._tree = tree
        self._records: dict[str, ChangeRecord] = {}
        self.foreseen = tree.foreseen = {}
        self._log: deque[tuple[Zxid, str, int]] = deque()
        # Number of outstanding transactions that create a path, keyed by (session, path).
        self._created: dict[int, dict[str, int]] = {}
        self._undo: dict[str, ChangeRecord | None] | None = None
        self.digest = tree.digest

    def catch_up(self) -> None:
        """If no change is outstanding, set the proposed digest to the tree's current digest.

        Transactions of other leaders may have changed the tree's digest.
        """
        if not self._log:
            self.digest = self._tree.digest

    def __len__(self) -> int:
        return len(self._log)

    def find(self, path: str) -> ChangeRecord | None:
        """Return a znode's latest proposed state, or None if it does not (or will not) exist.

        The record must not be changed before `change` is called.
        """
        record = self._records.get(path)
        if record is not None:
            return record if record.exists else None
        nodes = self._tree.nodes
        below = nodes.below
        siblings = below.get(path[: path.rfind("/")])
        value = siblings.get(path) if siblings is not None else None
        if value is None:
            return None
        record = ChangeRecord()
        record.read(path, value, nodes.acls)
        beneath = below.get(path)
        record.child_count = len(beneath) if beneath is not None else 0 if path != ROOT else nodes.child_count(ROOT)
        record.exists = True
        return record

    def change(self, path: str, record: ChangeRecord, zxid: Zxid) -> ChangeRecord:
        """Return the record of a znode returned by `find`, ready to be changed; call `changed` after the change."""
        known = self._records.get(path)
        assert known is None or known is record, f"{path} was found before it was changed"
        if self._undo is not None:
            self._remember(path, known)
        if known is None:
            self._records[path] = record
        record.zxid = zxid
        self._log.append((zxid, path, 0))
        return record

    def changed(self, record: ChangeRecord) -> None:
        """Update the proposed digest of the tree after a change of this record."""
        self.digest += record.redigest()

    def create(self, path: str, zxid: Zxid, owner: int) -> ChangeRecord:
        """Return the record of a new znode; `owner` is the session that owns it, or 0.

        The caller must then call `born` and `changed`.
        """
        if self._undo is not None:
            self._remember(path, self._records.get(path))
        record = self._records[path] = ChangeRecord()
        record.child_count = record.digest = 0
        record.exists = True
        record.zxid = zxid
        self._log.append((zxid, path, owner))
        if owner:
            created = self._created.setdefault(owner, {})
            created[path] = created.get(path, 0) + 1
        return record

    def delete(self, path: str, record: ChangeRecord, zxid: Zxid) -> None:
        """Propose to delete the znode of a record returned by `find`."""
        self.change(path, record, zxid)
        record.exists = False
        self.digest -= record.digest

    def ephemerals_of(self, session_id: int) -> list[str]:
        """Return the paths of all ephemerals of the session, existing and proposed, sorted."""
        paths = self._tree.ephemerals.get(session_id, {}).keys() | self._created.get(session_id, {}).keys()
        found = [(path, self.find(path)) for path in sorted(paths)]
        return [path for path, state in found if state is not None and state.ephemeral_owner == session_id]

    def applied(self, zxid: Zxid) -> None:
        """Remove the records of changes up to `zxid`, which the tree contains now."""
        log, records = self._log, self._records
        while log and log[0][0] <= zxid:
            _, path, owner = log.popleft()
            record = records.get(path)
            if record is not None and record.zxid <= zxid:
                del records[path]
            if owner:
                self._uncreate(path, owner)

    def _uncreate(self, path: str, owner: int) -> None:
        created = self._created[owner]
        created[path] -= 1
        if not created[path]:
            del created[path]
            if not created:
                del self._created[owner]

    # -- multi: all or nothing ---------------------------------------------------------------------------------------

    def begin_changes(self) -> tuple[int, int]:
        """Begin a multi, whose changes can be rolled back until `commit`; return a mark for `roll_back`."""
        assert self._undo is None, "a multi inside a multi"
        self._undo = {}
        return len(self._log), self.digest

    def _remember(self, path: str, record: ChangeRecord | None) -> None:
        assert self._undo is not None, "only a multi can be taken back"
        if path not in self._undo:
            self._undo[path] = record.copy() if record is not None else None

    def commit(self) -> None:
        """Make the changes since `begin_changes` final."""
        self._undo = None

    def roll_back(self, mark: tuple[int, int]) -> None:
        """Revert every change since `begin_changes`, which returned `mark`."""
        assert self._undo is not None, "nothing to roll back"
        for path, record in self._undo.items():
            if record is None:
                del self._records[path]
            else:
                self._records[path] = record
        self._undo = None
        size, self.digest = mark
        while len(self._log) > size:
            _, path, owner = self._log.pop()
            if owner:
                self._uncreate(path, owner)
