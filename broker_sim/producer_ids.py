"""Producer ids, allocated from /latest_producer_id_block in blocks of 1000 (Kafka's ZkProducerIdManager)."""

from __future__ import annotations

from zabka.controller.producer_id_blocks import claim_block
from zabka.ensemble.ports import Future, Runtime
from zabka.kafka.zk.coordination import Zk


class ProducerIds:
    """Allocates producer ids that no other broker allocates. Unused ids of a block are lost when the process ends."""

    def __init__(self, zk: Zk, runtime: Runtime, broker_id: int) -> None:
        self._zk = zk
        self._runtime = runtime
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._turns: list[Future[None]] = []
        self._taking = False

    async def next(self) -> int:
        """Return a new producer id. Raises ZooKeeperError and ProducerIdsUnavailable."""
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
            self._next, self._end = await claim_block(self._zk, self._broker_id)
        finally:
            self._taking = False
            turns, self._turns = self._turns, []
            for turn in turns:
                if not turn.done():
                    turn.set_result(None)
