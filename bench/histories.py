"""`make histories`: many clients write, read and watch while peers are killed, frozen and cut off; then judge it all.

Real processes under one journal.  Judged are: linearizability of writes and quorum reads (sync, then getData) of every
znode, FIFO order per session (`zabka.journal.judges.session_order`), and ephemerals, which live as long as their
session and no longer.  Exit code 0 where all held, 1 with a line for everything that did not.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from bench.verdict import counted, end_with
from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.client import Client
from zabka.ensemble.client.history_clients import (
    ALIVE,
    HISTORIES,
    SESSION_TIMEOUT_MS,
    History,
    Judgement,
    Player,
    judge,
)
from zabka.ensemble.errors import ConnectionLoss, NodeExists
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.testing.live.cluster import LiveCluster
from zabka.testing.live.start import start_live, stop_live

LAST_WORDS_S = 60.0


def _client(hosts: str, name: str) -> Client:
    runtime = AsyncioRuntime(asyncio.get_running_loop())
    return Client(hosts, AsyncioConnector(), runtime, session_timeout_ms=SESSION_TIMEOUT_MS, name=name)


async def _ensure(client: Client, path: str) -> None:
    while True:
        try:
            await client.create(path, b"")
        except ConnectionLoss:
            continue
        except NodeExists:
            pass
        return


async def _play_all(
    hosts: str, clients: int, seed: int, history: History, done: threading.Event, wrong: list[str]
) -> None:
    setup = _client(hosts, "judge")
    await setup.start()
    for path in (HISTORIES, ALIVE):
        await _ensure(setup, path)
    names = [f"client-{i}" for i in range(1, clients + 1)]
    players = [Player(name, _client(hosts, name), history, seed) for name in names]
    await asyncio.gather(*(player.play(done.is_set) for player in players))
    async with asyncio.timeout(LAST_WORDS_S):
        wrong += [said for said in await asyncio.gather(*(p.check_alive() for p in players)) if said is not None]
        await asyncio.gather(*(player.close_session() for player in players))
        # A session whose client never came back ends by its timeout.
        await _emptied(setup, ALIVE)
        await setup.close()


async def _emptied(client: Client, path: str) -> None:
    while True:
        await client.sync(path)
        if not await client.get_children(path):
            return
        await asyncio.sleep(0.2)


class Troubles:
    """Kills, freezes and cuts peers of a live cluster, one after the other; always mends before the next."""

    def __init__(self, cluster: LiveCluster, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(f"{seed}/troubles")
        self.done: Counter[str] = Counter()

    def one(self) -> None:
        """Do one kind of harm for one to three seconds."""
        kind = self._random.choice(("kill", "kill", "pause", "pause", "cut", "kill two"))
        leader = self._cluster.zab_leader
        others = [p for p in self._cluster.peers.values() if p is not leader]
        victim = leader if leader is not None and self._random.random() < 0.6 else self._random.choice(others)
        lasts_s = self._random.uniform(0.5, 3.0)
        if kind == "pause":
            victim.pause()
            self._cluster.let_pass(lasts_s)
            victim.resume()
        elif kind == "cut":
            fault = self._cluster.faults.cut(victim)
            self._cluster.let_pass(lasts_s)
            fault.heal()
        else:
            victims = [victim] if kind == "kill" else [victim, next(p for p in others if p is not victim)]
            for peer in victims:
                peer.kill()
            self._cluster.let_pass(lasts_s / 3)
            for peer in victims:
                peer.start()
        self.done[kind] += 1
        self._cluster.let_pass(self._random.uniform(0.3, 1.5))


def record(cluster: LiveCluster, seconds: float, clients: int, seed: int) -> tuple[Judgement, Counter[str]]:
    """Let clients run under troubles for so long, and judge what they saw.  The ensemble is whole again at the end."""
    history, done, wrong = History(), threading.Event(), list[str]()
    failure: list[BaseException] = []

    def play() -> None:
        try:
            asyncio.run(_play_all(cluster.zookeeper_connect, clients, seed, history, done, wrong))
        except BaseException as reason:
            failure.append(reason)

    thread = threading.Thread(target=play, name="clients")
    thread.start()
    troubles = Troubles(cluster, seed)
    try:
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s and not failure:
            troubles.one()
    finally:
        done.set()
        thread.join(LAST_WORDS_S + 30)
    if failure:
        raise failure[0]
    assert not thread.is_alive(), "the clients did not come to an end"
    return judge(history, wrong), troubles.done


def main(
    seconds: Annotated[float, typer.Option(help="How long to make trouble.")] = 60.0,
    clients: Annotated[int, typer.Option(help="Concurrent clients.")] = 6,
    peers: Annotated[int, typer.Option(help="Peers of the ensemble.")] = 3,
    seed: Annotated[int, typer.Option(help="What the clients and the troubles choose by.")] = 1,
) -> None:
    """Record what real clients see of a real ensemble under faults, and judge it."""
    with tempfile.TemporaryDirectory(prefix="zabka-histories-") as directory:
        typer.echo(f"{peers} peers, {clients} clients, {seconds:.0f} s of trouble, seed {seed}", err=True)
        cluster = start_live(Path(directory), peers=peers, brokers=1)
        try:
            judgement, troubles = record(cluster, seconds, clients, seed)
        finally:
            stop_live(cluster)
    typer.echo(
        f"{judgement.operations} writes and quorum reads on {judgement.keys} znodes, {judgement.seen} ordered answers, "
        f"{judgement.sessions_expired} sessions expired; {counted(troubles)}"
    )
    end_with(judgement.wrong)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(main)

if __name__ == "__main__":
    app()
