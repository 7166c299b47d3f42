"""Applies transactions: fires watches, opens and closes sessions, and replies to clients.

Source: ZooKeeperServer.processTxn and FinalRequestProcessor.processRequest.
"""

from __future__ import annotations

from collections.abc import Sequence

from zabka.ensemble.ids import Zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import NOTIFICATION_XID, KeeperState, OpCode, Permission, Reply, WatcherEvent
from zabka.ensemble.tree.acl import allows
from zabka.ensemble.tree.answer_queues import AnswerQueues, AnswerRun
from zabka.ensemble.tree.attachment import Attachment
from zabka.ensemble.tree.clients import Clients
from zabka.ensemble.tree.connections import OpenSession
from zabka.ensemble.tree.counters import DIGESTS_EVERY, WATCH_EVENT_BYTES, Counters
from zabka.ensemble.tree.datatree import DIGEST_MASK
from zabka.ensemble.tree.facts import committed_facts, committed_plain_fact, session_fact
from zabka.ensemble.tree.outcomes import Applied
from zabka.ensemble.tree.server_state import ServerState
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab.application import TreeDiffers
from zabka.ensemble.zab.effects import Answer, Effect, Emit
from zabka.journal.events import InvariantViolated, QuotaExceeded

_READ = int(Permission.READ)
_SYNC_CONNECTED = int(KeeperState.SYNC_CONNECTED)


class Commits:
    """Applies committed transactions to the tree, fires watches, and replies to this server's clients."""

    __slots__ = (
        "_answers", "_attachment", "_clients", "_connections", "_counters", "_full_journal", "_sessions", "_state",
        "_watches",
    )  # fmt: skip

    def __init__(
        self, state: ServerState, clients: Clients, counters: Counters, *, answers: AnswerQueues, attachment: Attachment
    ) -> None:
        self._state = state
        self._watches = state.watches
        self._full_journal = state.config.full_journal
        self._clients = clients
        self._connections = clients.connections
        self._sessions = clients.sessions
        self._counters = counters
        self._answers = answers
        self._attachment = attachment

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        """Apply the next transactions; for each, fire watches, then reply to the local client that requested it."""
        effects: list[Effect] = []
        state, answers, sessions, full_journal = self._state, self._answers, self._sessions, self._full_journal
        tree, held_back, syncing = state.tree, self._clients.held_back, self._clients.syncing
        run = AnswerRun()
        for txn in txns:
            if (held_back or syncing) and self._clients.waits(txn.session_id):
                answers.answer_run(now, run, effects)
                answers.settle(now, txn, effects)
                run.rewatch = True
            if run.rewatch:
                watched = any(self._watches.watched)
                run.rewatch = False
            value = None if watched else tree.apply_plain(txn)
            if value is None:
                answers.answer_run(now, run, effects)
                self._apply_one(now, txn, effects)
                run.rewatch = True
                continue
            if txn.digest is not None and txn.digest != tree.digest_sum & DIGEST_MASK:
                self._digest_differs(txn, effects)
            if not txn.zxid % DIGESTS_EVERY:
                self._counters.digests.append((txn.zxid, tree.digest))
            if full_journal:
                effects.append(Emit(committed_plain_fact(txn, tree)))
            session = sessions.get(txn.session_id)
            if session is not None and not answers.joins_run(now, session, txn, value, run, effects):
                answers.answer_run(now, run, effects)
                path: str = getattr(txn.body, "path", "")
                applied = Applied(txn.type, 0, path, tree.nodes.view(path, value))
                answers.commit(now, session, txn, applied, effects)
                run.rewatch = True
        if run.answered:
            answers.answer_run(now, run, effects)
        proposer = state.proposer
        if proposer is not None:
            proposer.applied(txns[-1].zxid)
        if state.serving:
            self._counters.count_applied(now, txns, leads=proposer is not None)
        return effects

    def _apply_one(self, now: Instant, txn: Txn, effects: list[Effect]) -> None:
        tree = self._state.tree
        is_new = txn.zxid > tree.last_zxid
        session = self._sessions.get(txn.session_id)
        applied = tree.apply(txn, session is not None)
        if txn.digest is not None and is_new and txn.digest != tree.digest:
            self._digest_differs(txn, effects)
        if not txn.zxid % DIGESTS_EVERY:
            self._counters.digests.append((txn.zxid, tree.digest))
        if tree.changes and any(self._watches.watched):
            self._fire_watches(txn.zxid, effects)
        if tree.quotas.passed:
            self._quotas_passed(effects)
        if self._full_journal:
            effects.extend(Emit(fact) for fact in committed_facts(txn, tree, applied))
        if txn.type < 0 and txn.type != OpCode.ERROR:
            self._session_changed(now, txn, session, effects)
        elif session is not None:
            self._answers.commit(now, session, txn, applied, effects)

    def _digest_differs(self, txn: Txn, effects: list[Effect]) -> None:
        """Handle a digest mismatch: count it, as ZooKeeper does, and report it to the peer.

        Only the first one is reported in the journal.
        """
        counters = self._counters
        counters.digest_mismatches += 1
        if counters.digest_mismatches == 1 and self._state.serving:
            detail = f"zxid 0x{txn.zxid:x}: 0x{txn.digest:x} proposed, 0x{self._state.tree.digest:x} applied"
            effects.append(Emit(InvariantViolated("tree digest agrees with the leader's", detail)))
        effects.append(TreeDiffers())

    def _quotas_passed(self, effects: list[Effect]) -> None:
        """Clear the list of quotas, soft and hard, that the last changes exceeded; a leader emits an event for each."""
        quotas = self._state.tree.quotas
        passed, quotas.passed = quotas.passed, []
        if self._state.proposer is not None:
            for quota in passed:
                limits = quota.limits
                event = QuotaExceeded(quota.path, quota.count, limits.count_max, quota.bytes, limits.bytes_max)
                effects.append(Emit(event))

    def _fire_watches(self, zxid: Zxid, effects: list[Effect]) -> None:
        counters = self._counters
        for change in self._state.tree.changes:
            for fired in self._watches.fire(change):
                acl = change.parent_acl if fired.of_parent else change.acl
                event = WatcherEvent(int(fired.event), _SYNC_CONNECTED, fired.path)
                counters.watches_fired[fired.event].add(len(fired.connections))
                counters.watch_bytes += len(fired.connections) * (
                    WATCH_EVENT_BYTES + len(fired.path.encode("utf-8", "surrogatepass"))
                )
                reply = Reply(NOTIFICATION_XID, zxid, 0, event)
                for watcher in fired.connections:
                    connection = self._connections[watcher]
                    if allows(acl or (), _READ, connection.rights):
                        counters.packets_sent += 1
                        effects.append(Answer(watcher, reply))

    def _session_changed(self, now: Instant, txn: Txn, session: OpenSession | None, effects: list[Effect]) -> None:
        """Handle an applied createSession or closeSession."""
        fact = session_fact(txn, self._state.tree)
        if fact is not None:
            effects.append(Emit(fact))
        tracker = self._state.proposer.tracker if self._state.proposer is not None else None
        if txn.type == OpCode.CREATE_SESSION:
            if tracker is not None and txn.session_id not in tracker:
                tracker.track(now, txn.session_id, self._state.tree.sessions[txn.session_id])
            self._attachment.session_created(now, txn.session_id, effects)
            return
        if tracker is not None:
            tracker.remove(txn.session_id)
        self._clients.not_touched(txn.session_id)
        if session is not None:
            self._answers.session_closed(now, session, txn, effects)
