"""A client that also connects to a server that has no leader (canBeReadOnly).

It reads, tries to write, and switches to a read-write server as soon as there is one.  It checks the rules for a
read-only server: return only committed data, reject every write, open only local sessions, and leave no trace of them
after the ensemble has a leader again.
"""

from __future__ import annotations

from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import SessionState, WatchEvent
from zabka.ensemble.errors import EphemeralOnLocalSession, NodeExists, NotReadOnly, SessionExpired, ZooKeeperError
from zabka.ensemble.records import EventType
from zabka.simulation.cluster.world import World
from zabka.simulation.workloads.writer import PATH, Writer

MACHINE = "reader"
OWN, REFUSED, EPHEMERAL = "/zabka-reader", "/zabka-reader-refused", "/zabka-reader-ephemeral"
PAUSE_MS = 200
TURNS_MAX = 60
"""Maximum number of reads before the client is replaced by a new client."""
READ_ONLY, READ_WRITE = SessionState.CONNECTED_READ_ONLY, SessionState.CONNECTED


class Reading:
    """Client that reads PATH from any server and tries to write; it runs on a machine of its own."""

    def __init__(self, world: World, writer: Writer) -> None:
        self._world = world
        self._writer = writer
        self._runtime = world.scripted_client(MACHINE).runtime()
        self._client = self._new_client()
        self._changes = 0
        self._given_by_leaders: dict[int, None] = {}
        self._last_session_id = 0
        self._attempts = 0
        self._refused: list[str] = []
        self._fired = True
        self._armed_zxid = 0
        self._seen_zxid = 0
        self._seen_number = 0
        self.read_only_answers = 0
        self.refusals = 0
        self.writes = 0
        self.watches_fired = 0
        self.reads = 0
        self.violations: list[str] = []
        self._runtime.spawn(self._run(), MACHINE)

    def _new_client(self) -> Client:
        client, _ = self._world.zookeeper_client(MACHINE, session_timeout_ms=6_000, read_only=True)
        client.add_listener(self._moved)
        return client

    @property
    def session_id(self) -> int:
        """Return the id of the client's current session."""
        return self._client.session_id

    @property
    def takes_writes(self) -> bool:
        """Whether the client is connected to a server that has a leader, and so accepts writes."""
        return self._client.state is READ_WRITE

    def _moved(self, state: SessionState) -> None:
        self._changes += 1
        session_id = self._client.session_id
        if state is READ_WRITE:
            self._given_by_leaders[session_id] = None
        elif state is READ_ONLY:
            self._check_session(session_id)
        elif state is SessionState.EXPIRED and self._last_session_id not in self._given_by_leaders:
            # The session of a read-only server must not expire: ClientCnxn never presents it to another server
            # (seenRwServerBefore).
            self.violations.append(f"session 0x{self._last_session_id:x} of a read-only server expired")
        self._last_session_id = session_id or self._last_session_id

    def _check_session(self, session_id: int) -> None:
        """Check that a read-only server was allowed to give the client this session.

        With local sessions enabled, the session must be local.  Otherwise the server must not open sessions, and is
        allowed to resume only sessions that a leader has created.
        """
        if not self._world.settings.local_sessions:
            if session_id not in self._given_by_leaders:
                self.violations.append(f"session 0x{session_id:x} was opened without a leader")
        elif any(session_id in running.service.tree.sessions for running in self._world.running()):
            self.violations.append(f"session 0x{session_id:x} of a read-only server is a global one")

    def _changed(self, event: WatchEvent) -> None:
        self._fired = True
        self.watches_fired += event.type is not EventType.NONE

    async def _run(self) -> None:
        while True:
            await self._client.start()
            for _ in range(1 + self._runtime.random.randrange(0, TURNS_MAX)):
                await self._runtime.sleep(PAUSE_MS)
                try:
                    await self._turn()
                except SessionExpired:
                    await self._client.renew()
                except ZooKeeperError:
                    pass  # The connection is lost; continue with the current state.
            await self._client.close(PAUSE_MS)
            # A new client has no session and no earlier reads, so forget those of the previous client.
            self._client = self._new_client()
            self._fired, self._seen_zxid, self._seen_number = True, 0, 0

    async def _turn(self) -> None:
        await self._read()
        state, changes = self._client.state, self._changes
        self._attempts += 1
        path = f"{REFUSED}-{self._attempts}" if state is READ_ONLY else OWN
        try:
            await self._client.create(path)
        except NotReadOnly:
            self._note_refusal(state, changes, path)
            return
        except NodeExists:
            pass
        if state is READ_ONLY and changes == self._changes:
            self.violations.append(f"a server without a leader made {path}")
        elif state is READ_WRITE and changes == self._changes:
            self.writes += 1
            await self._with_a_leader()

    def _note_refusal(self, state: SessionState, changes: int, path: str) -> None:
        self.refusals += 1
        if state is READ_WRITE and changes == self._changes:
            self.violations.append("a server with a leader said that it is read-only")
        if path != OWN:
            self._refused.append(path)

    async def _with_a_leader(self) -> None:
        """Check the state after a read-only period, when the client is connected to a server with a leader again.

        Rejected creates must not have created a znode, and only global sessions may own ephemerals.
        """
        await self._client.sync("/")
        refused, self._refused = self._refused, []
        for path in refused:
            if await self._client.exists(path) is not None:
                self.violations.append(f"{path} was refused by a read-only server, and is there")
        settings = self._world.settings
        try:
            await self._client.create(EPHEMERAL, ephemeral=True)
        except EphemeralOnLocalSession:
            if not settings.local_sessions or settings.local_sessions_upgrading:
                self.violations.append("an ephemeral was refused to a session that is global, or may become so")
            return
        except NodeExists:
            pass
        if settings.local_sessions and not settings.local_sessions_upgrading:
            self.violations.append("a local session owns an ephemeral")
        await self._client.delete(EPHEMERAL)

    async def _read(self) -> None:
        """Read PATH: its zxid and the number in its data never decrease, and a watch fires before a read shows a
        change.
        """
        arming, self._fired = self._fired, False
        try:
            data, stat = await self._client.get(PATH, self._changed if arming else None)
        except ZooKeeperError:
            self._fired = self._fired or arming
            raise
        if arming:
            self._armed_zxid = stat.mzxid
        elif not self._fired and stat.mzxid != self._armed_zxid:
            self.violations.append(f"a read showed 0x{stat.mzxid:x} of {PATH} before the watch told of it")
            self._fired = True
        self.read_only_answers += self._client.state is READ_ONLY
        self.reads += 1
        number = int(data)
        if stat.mzxid < self._seen_zxid or number < self._seen_number:
            self.violations.append(f"{PATH} went back from {self._seen_number} to {number} (0x{stat.mzxid:x})")
        if number > self._writer.tried:
            self.violations.append(f"{PATH} is {number}, which nobody wrote")
        self._seen_zxid, self._seen_number = stat.mzxid, number
