"""State that the parts of one server's service share: tree, watches, and whether it leads or accepts clients."""

from __future__ import annotations

from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.proposer import Proposer
from zabka.ensemble.tree.watches import Watches
from zabka.ensemble.zab.application import EnsembleConfig


class ServerState:
    """State of one server's service.

    Each restore replaces `tree`, so do not keep references to it; `watches` stays the same object. `proposer` is set
    while this server leads. `serving`: clients are accepted. `read_only`: clients are accepted without a leader.
    """

    __slots__ = ("config", "proposer", "read_only", "serving", "tree", "watches")

    def __init__(self, config: EnsembleConfig) -> None:
        self.config = config
        self.tree = DataTree()
        self.watches = Watches()
        self.proposer: Proposer | None = None
        self.serving = False
        self.read_only = False
