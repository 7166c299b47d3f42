"""What the parts of one server's service share: its tree, its watches, and whether it leads, serves, or only reads."""

from __future__ import annotations

from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.proposer import Proposer
from zabka.ensemble.tree.watches import Watches
from zabka.ensemble.zab.application import EnsembleConfig


class ServerState:
    """`tree` is another one after each restore, so nobody keeps it; `watches` stay the same object.

    `proposer` is there while this server leads.  `serving` says that clients are served, `read_only` that there is no
    leader meanwhile.
    """

    __slots__ = ("config", "proposer", "read_only", "serving", "tree", "watches")

    def __init__(self, config: EnsembleConfig) -> None:
        self.config = config
        self.tree = DataTree()
        self.watches = Watches()
        self.proposer: Proposer | None = None
        self.serving = False
        self.read_only = False
