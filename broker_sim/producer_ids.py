"""Producer ids, taken from /latest_producer_id_block a thousand at a time (kafka's ZkProducerIdManager)."""

from __future__ import annotations

from controller import znodes
from controller.coordination import Zk
from ensemble.errors import BadVersion
from ensemble.ports import Future, Runtime

BLOCK_SIZE = 1000
_ID_MAX = 2**63 - 1


class ProducerIds:
    """Hands out ids that no other broker hands out.  A block is lost with the process that took it."""

    def __init__(self, zk: Zk, runtime: Runtime, broker_id: int) -> None:
        self._zk = zk
        self._runtime = runtime
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._turns: list[Future[None]] = []
        self._taking = False

    async def next(self) -> int:
        """A fresh id.  Raises ZooKeeperError."""
        while self._next >= self._end:
            if self._taking:
                turn: Future[None] = self._runtime.future()
                self._turns.append(turn)
                await turn
            else:
                await self._take_block()
        self._next += 1
        return self._next - 1

    async def _take_block(self) -> None:
        self._taking = True
        try:
            self._next, self._end = await self._claim()
        finally:
            self._taking = False
            turns, self._turns = self._turns, []
            for turn in turns:
                if not turn.done():
                    turn.set_result(None)

    async def _claim(self) -> tuple[int, int]:
        zk, service = self._zk, self._zk.service
        while True:
            data, stat = await zk.call(lambda: service.get(znodes.LATEST_PRODUCER_ID_BLOCK))
            latest = znodes.decode_producer_id_block(data)
            first = latest[2] + 1 if latest is not None else 0
            assert first <= _ID_MAX - BLOCK_SIZE, "producer ids are used up"
            block = znodes.encode_producer_id_block(self._broker_id, first, first + BLOCK_SIZE - 1)
            version = stat.version
            try:
                await zk.call(lambda: service.set(znodes.LATEST_PRODUCER_ID_BLOCK, block, version))  # noqa: B023
            except BadVersion:
                # Another broker was faster, or a first sending of ours went through: the next block is free.
                continue
            return first, first + BLOCK_SIZE
