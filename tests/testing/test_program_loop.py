"""What a program in a simulated world gets from asyncio and the host: event loop, clocks, randomness and files."""

from __future__ import annotations

import asyncio
import datetime
import os
import queue
import random
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, SerializingProducer
from confluent_kafka.admin import AdminClient

from zabka.journal.events import ProgramLogged
from zabka.simulation.engine.loop import WALL_START_US
from zabka.simulation.engine.refusal import NotSimulated
from zabka.testing import SimulatedWorld
from zabka.testing.worlds.seed_test import Parameters, SeedRun, run_seed

Body = Callable[[SimulatedWorld], Awaitable[None]]


def run(body: Body, seed: int = 0) -> SeedRun:
    parameters = Parameters(seeds=1, peers=1, brokers=0, faults=None, faults_s=20.0, limit_s=600.0, settings={})
    return run_seed(parameters, body, seed)


def passes(body: Body, seed: int = 0) -> None:
    failure = run(body, seed).failure
    if failure is not None:
        raise failure


# ---- clocks and randomness -----------------------------------------------------------------------------------------


def test_all_clocks_in_a_simulated_program_are_virtual() -> None:
    async def read(world: SimulatedWorld) -> None:
        began = time.perf_counter(), time.monotonic(), time.process_time(), time.thread_time_ns() / 1e9
        await asyncio.sleep(100)
        ended = time.perf_counter(), time.monotonic(), time.process_time(), time.thread_time_ns() / 1e9
        for before, after in zip(began, ended, strict=True):
            assert 100 <= after - before < 100.1
        wall_s = WALL_START_US / 1e6 + world.now
        for moment in (
            datetime.datetime.now(datetime.UTC).timestamp(),
            datetime.datetime.now().timestamp(),
            datetime.datetime.utcnow().replace(tzinfo=datetime.UTC).timestamp(),
            datetime.datetime.today().timestamp(),
            time.mktime(time.localtime()),
            time.time(),
        ):
            assert abs(moment - wall_s) < 1.1
        assert datetime.date.today() == datetime.date.fromtimestamp(wall_s)
        assert time.strftime("%Y") == time.ctime()[-4:] == "2023"

    passes(read)
    assert abs(datetime.datetime.now().timestamp() - time.time()) < 1


def test_clock_step_changes_only_the_wall_clock() -> None:
    async def read(world: SimulatedWorld) -> None:
        moments: list[tuple[float, float]] = []

        async def clock(_: str) -> None:
            while True:
                moments.append((time.time(), time.monotonic()))
                await asyncio.sleep(1)

        world.start("clock", clock)
        await asyncio.sleep(1.5)
        fault = world.faults.step_clock("clock", -3_600)
        await asyncio.sleep(1)
        assert moments[2][0] - moments[1][0] < -3_598
        assert 0.9 < moments[2][1] - moments[1][1] < 1.1
        fault.heal()
        await asyncio.sleep(1)
        assert moments[3][0] - moments[2][0] > 3_600
        with pytest.raises(ValueError, match="peer-1 is not a program"):
            world.faults.step_clock(world.peers[1], 1)

    passes(read)


def test_program_with_a_slow_disk_waits_longer_for_its_syncs() -> None:
    async def compare(world: SimulatedWorld) -> None:
        took_s: list[float] = []

        async def keeper(_: str) -> None:
            began_s = time.monotonic()
            world.path("/").sync()
            await asyncio.sleep(0)
            took_s.append(time.monotonic() - began_s)

        service = world.start("keeper", keeper)
        await world.until(lambda: len(took_s) == 1)
        fault = world.faults.slow_disk(service, 1_000)
        service.start()
        await world.until(lambda: len(took_s) == 2)
        fault.heal()
        service.start()
        await world.until(lambda: len(took_s) == 3)
        assert took_s[1] > 0.08 and max(took_s[0], took_s[2]) < 0.002

    passes(compare)


def test_restart_of_a_program_kills_its_running_process() -> None:
    async def restart(world: SimulatedWorld) -> None:
        starts: list[float] = []

        async def idle(_: str) -> None:
            starts.append(world.now)
            await asyncio.sleep(3_600)

        service = world.start("idle", idle)
        await asyncio.sleep(1)
        service.restart()
        await asyncio.sleep(1)
        assert len(starts) == 2 and service.process == "running"

    passes(restart)


def test_unseeded_randomness_is_derived_from_the_worlds_seed() -> None:
    def drawn(seed: int) -> list[object]:
        found: list[object] = []

        async def draw(_: SimulatedWorld) -> None:
            found.extend((random.Random().random(), uuid.uuid1(), uuid.uuid4(), os.urandom(4), socket.gethostname()))

        passes(draw, seed)
        return found

    first = drawn(1)
    assert first == drawn(1)
    assert not set(first[:4]) & set(drawn(2)[:4])
    assert first[4] == "test-function"


# ---- calls that the simulation rejects -----------------------------------------------------------------------------


class Derived(socket.socket):
    pass


def fork() -> None:
    os.fork()


async def open_datagrams() -> None:
    await asyncio.get_running_loop().create_datagram_endpoint(asyncio.DatagramProtocol, ("127.0.0.1", 1))


async def wait_for_reader() -> None:
    asyncio.get_running_loop().add_reader(0, print)


async def run_command() -> None:
    await asyncio.create_subprocess_exec("true")


async def listen_at_unix_socket() -> None:
    await asyncio.start_unix_server(lambda *_: None, "/tmp/x")


@pytest.mark.parametrize(
    ("call", "named", "instead"),
    [
        (lambda: os.system("true"), "os.system", "replace the command"),
        (fork, "os.fork", "replace the command"),
        (lambda: os.posix_spawnp("true", ["true"], {}), "os.posix_spawnp", "replace the command"),
        (lambda: queue.Queue().get(timeout=60), "a wait for a thread", "asyncio.Queue"),
        (lambda: threading.Event().wait(60), "a wait for a thread", "asyncio.Event"),
        (lambda: select.select([], [], [], 60), "select.select", "asyncio.Event"),
        (lambda: signal.alarm(1), "signal.alarm", "loop.call_later"),
        (lambda: Producer({"bootstrap.servers": "x:1"}), "confluent_kafka.Producer", "use aiokafka"),
        (lambda: AdminClient({"bootstrap.servers": "x:1"}), "confluent_kafka.AdminClient", "use aiokafka"),
        (lambda: SerializingProducer({"bootstrap.servers": "x:1"}), "confluent_kafka.SerializingProducer", "aiokafka"),
        (lambda: subprocess.run(["true"], check=False), "subprocess.Popen", "replace the command"),
        (lambda: socket.getaddrinfo("localhost", 1), "socket.getaddrinfo", "loop.getaddrinfo"),
        (lambda: socket.gethostbyname("localhost"), "socket.gethostbyname", "loop.getaddrinfo"),
        (lambda: socket.create_connection(("localhost", 1)), "socket.getaddrinfo", "loop.getaddrinfo"),
        (open_datagrams, "loop.create_datagram_endpoint", "only TCP"),
        (wait_for_reader, "loop.add_reader", "use loop.sock_recv"),
        (lambda: socket.socket().recv(1), "socket.recv", "use loop.sock_recv"),
        (lambda: socket.socket().connect(("localhost", 1)), "socket.connect", "use loop.sock_connect"),
        (lambda: socket.socket(type=socket.SOCK_DGRAM), "socket.socket without TCP", "SOCK_STREAM"),
        (lambda: socket.socket(socket.AF_UNIX), "socket.socket without TCP", "AF_INET"),
        (lambda: socket.socket(fileno=1 << 20), r"socket.socket\(fileno=…\)", "open a socket"),
        (lambda: socket.socketpair(socket.AF_UNIX), "socket.socketpair", "asyncio.Queue"),
        (Derived, "a subclass of socket.socket", "use socket.socket itself"),
        (run_command, "loop.subprocess_exec", "replace the command"),
        (listen_at_unix_socket, "loop.create_unix_server", "only TCP"),
    ],
)
def test_unsupported_call_is_rejected_with_its_source_line(call: Callable[[], Any], named: str, instead: str) -> None:
    async def calling(_: SimulatedWorld) -> None:
        called = call()
        if asyncio.iscoroutine(called):
            await called

    with pytest.raises(RuntimeError, match=rf"{named} at {__file__}:\d+ does not work.*{instead}"):
        passes(calling)


def test_confluent_imported_by_a_program_is_refused(tmp_path: Path) -> None:
    """The test runs in a separate process, in which confluent-kafka is not imported yet."""
    script = tmp_path / "reader.py"
    script.write_text(IMPORTING_CONFLUENT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=120)
    assert f"NotSimulated: confluent_kafka.Consumer at {script}:6 does not work" in done.stdout
    assert done.stdout.splitlines()[-1] == "cimpl"


IMPORTING_CONFLUENT = """
from zabka.testing import ClusterFailed, running_world

async def read(bootstrap):
    from confluent_kafka import Consumer
    Consumer({"bootstrap.servers": bootstrap, "group.id": "x"})

with running_world(peers=1, brokers=0) as world:
    world.start("read", read)
    try:
        world.let_pass(1)
    except ClusterFailed as failure:
        print(failure)
import confluent_kafka
print(confluent_kafka.Consumer.__module__)
"""


# ---- the event loop ------------------------------------------------------------------------------------------------


def test_cancelled_sleep_of_infinite_length_ends() -> None:
    async def wait(_: SimulatedWorld) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(float("inf"))
        async with asyncio.timeout(float("inf")):
            await asyncio.sleep(1)

    passes(wait)


def test_closing_a_server_ends_serve_forever() -> None:
    async def serve(_: SimulatedWorld) -> None:
        server = await asyncio.start_server(lambda *_: None, port=80)
        asyncio.get_running_loop().call_later(1, server.close)
        with pytest.raises(asyncio.CancelledError):
            await server.serve_forever()
        with pytest.raises(RuntimeError, match="is closed"):
            await server.serve_forever()

    passes(serve)


class Fragile(asyncio.Protocol):
    def data_received(self, data: bytes) -> None:
        raise LookupError(data)


def test_exception_in_data_received_closes_the_connection() -> None:
    async def serve(_: SimulatedWorld) -> None:
        reported: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
        await loop.create_server(Fragile, port=80)
        reader, writer = await asyncio.open_connection("localhost", 80)
        writer.write(b"x")
        assert await asyncio.wait_for(reader.read(), 5) == b""
        assert reported == ["Fatal error: protocol.data_received() call failed."]

    passes(serve)


def test_tasks_are_cancelled_when_the_main_function_returns() -> None:
    ended: list[str] = []

    async def wait(world: SimulatedWorld) -> None:
        async def leave(_: str) -> None:
            async def forever() -> None:
                try:
                    await asyncio.sleep(3_600)
                finally:
                    await asyncio.sleep(1)
                    ended.append("cleaned up")

            kept.append(asyncio.create_task(forever()))
            await asyncio.sleep(1)

        kept: list[object] = []
        service = world.start("leave", leave)
        await world.until(lambda: service.has_returned)
        assert ended == ["cleaned up"]

    passes(wait)


def test_asyncio_debug_mode_and_executor_work() -> None:
    async def work(world: SimulatedWorld) -> None:
        loop = asyncio.get_running_loop()
        loop.set_debug(True)
        assert loop.get_debug()
        began = world.now
        assert await asyncio.to_thread(sum, [1, 2]) == 3
        assert await loop.run_in_executor(None, lambda: 5) == 5
        assert world.now > began
        await loop.shutdown_default_executor()

    passes(work)


def test_debug_mode_reports_a_turn_that_takes_long() -> None:
    async def work(_: SimulatedWorld) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(time.sleep, 0.3)
        await asyncio.sleep(1)
        loop.set_debug(True)
        loop.call_soon(time.sleep, 0.05)
        await asyncio.sleep(1)
        loop.call_soon(time.sleep, 0.2)
        await asyncio.sleep(1)

    logged = [entry.event for entry in run(work).entries if isinstance(entry.event, ProgramLogged)]
    slow = [event.message for event in logged if event.logger == "asyncio"]
    assert slow == ["Executing a turn of test-function took 0.200 seconds"]


def test_running_loop_rejects_the_calls_that_asyncio_rejects() -> None:
    async def call(_: SimulatedWorld) -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        for run in (loop.run_forever, lambda: loop.run_until_complete(done)):
            with pytest.raises(RuntimeError, match="This event loop is already running"):
                run()
        with pytest.raises(RuntimeError, match="Cannot close a running event loop"):
            loop.close()
        loop.set_default_executor(ThreadPoolExecutor(1))
        assert await asyncio.to_thread(sum, [1, 2]) == 3

    passes(call)


def test_server_accepts_no_connection_before_it_starts() -> None:
    async def serve(_: SimulatedWorld) -> None:
        server = await asyncio.start_server(lambda *_: None, port=80, start_serving=False)
        assert not server.is_serving()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("localhost", 80)
        await server.start_serving()
        assert server.is_serving()
        _, writer = await asyncio.open_connection("localhost", 80)
        writer.close()
        server.close()
        await server.start_serving()
        assert not server.is_serving()

    passes(serve)


def test_names_and_addresses_of_machines_are_resolved() -> None:
    async def resolve(world: SimulatedWorld) -> None:
        async def idle(_: str) -> None:
            await asyncio.sleep(3_600)

        world.start("till", idle)
        loop = asyncio.get_running_loop()
        address: Any = (await loop.getaddrinfo("till", 80))[0][4]
        assert await loop.getnameinfo(address) == ("till", "80")
        assert await loop.getnameinfo(address, socket.NI_NUMERICHOST) == (address[0], "80")

    passes(resolve)


def test_program_can_send_a_signal_only_to_itself() -> None:
    async def stop(world: SimulatedWorld) -> None:
        async def leave(_: str) -> None:
            stopped = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
            os.kill(os.getpid(), signal.SIGTERM)
            await stopped.wait()
            with pytest.raises(NotSimulated, match=rf"os.kill at {__file__}:\d+ does not work"):
                os.kill(os.getppid(), signal.SIGTERM)

        service = world.start("leave", leave)
        await world.until(lambda: service.has_returned, within=5)

    passes(stop)


def test_sigterm_calls_the_handler_of_its_program() -> None:
    async def stop(world: SimulatedWorld) -> None:
        ended = []

        async def polite(_: str) -> None:
            stopped = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
            await stopped.wait()
            ended.append("polite")

        async def old(_: str) -> None:
            stopped = asyncio.Event()
            signal.signal(signal.SIGTERM, lambda *_: stopped.set())
            await stopped.wait()
            ended.append("old")

        async def rude(_: str) -> None:
            await asyncio.sleep(3_600)

        before = signal.getsignal(signal.SIGTERM)
        services = [world.start(each.__name__, each) for each in (polite, old, rude)]
        await asyncio.sleep(1)
        for service in services:
            service.terminate()
        await asyncio.sleep(1)
        assert ended == ["polite", "old"]
        assert [service.process for service in services] == ["down"] * 3
        assert signal.getsignal(signal.SIGTERM) is before

    passes(stop)


def test_aiokafka_imported_by_a_program_uses_virtual_time() -> None:
    """aiokafka uses virtual time even if a program in a simulated world is the first to import it.

    The test runs in a separate process, in which aiokafka is not imported yet.
    """
    done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "2023\n"


IMPORTING = """
import time
from zabka.testing import running_world

async def write(bootstrap):
    from aiokafka import AIOKafkaProducer
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        sent = await producer.send_and_wait("orders", b"x")
        stamps.append(sent.timestamp / 1000)

stamps = []
with running_world(peers=1, brokers=1) as world:
    world.topics.create("orders")
    world.start("write", write)
    world.until(lambda: stamps)
print(time.gmtime(stamps[0]).tm_year)
"""


# ---- TLS -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "till.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650", "-subj", "/CN=till",
         "-addext", "subjectAltName=DNS:till", "-keyout", str(path) + ".key", "-out", str(path)],
        check=True, capture_output=True,
    )  # fmt: skip
    return path


@pytest.mark.parametrize("upgrades", [False, True])
def test_programs_can_connect_over_tls(certificate: Path, upgrades: bool) -> None:
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate, str(certificate) + ".key")
    trusting = ssl.create_default_context(cafile=str(certificate))

    async def speak(world: SimulatedWorld) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if upgrades:
                await writer.start_tls(serving)
            writer.write(await reader.readline() * 10_000)
            await writer.drain()
            writer.close()

        async def till(_: str) -> None:
            server = await asyncio.start_server(answer, port=443, ssl=None if upgrades else serving)
            await server.serve_forever()

        world.start("till", till)
        await asyncio.sleep(1)
        reader, writer = await asyncio.open_connection("till", 443, ssl=None if upgrades else trusting)
        if upgrades:
            await writer.start_tls(trusting, server_hostname="till")
        writer.write(b"paid\n")
        assert await reader.read() == b"paid\n" * 10_000
        assert writer.get_extra_info("peercert")["subject"] == ((("commonName", "till"),),)
        if not upgrades:
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.open_connection("till", 443, ssl=ssl.create_default_context())

    passes(speak)


def test_sockets_of_programs_can_connect_over_tls(certificate: Path) -> None:
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate, str(certificate) + ".key")
    trusting = ssl.create_default_context(cafile=str(certificate))

    async def speak(world: SimulatedWorld) -> None:
        async def till(_: str) -> None:
            loop = asyncio.get_running_loop()
            with socket.create_server(("0.0.0.0", 443)) as listener:
                listener.setblocking(False)
                accepted = (await loop.sock_accept(listener))[0]
                reader = asyncio.StreamReader()
                protocol = asyncio.StreamReaderProtocol(reader)
                transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=serving)
                transport.write(await reader.readline() * 10_000)
                transport.close()
                await asyncio.sleep(60)

        world.start("till", till)
        await asyncio.sleep(1)
        with socket.socket() as sock:
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("till", 443))
            reader, writer = await asyncio.open_connection(sock=sock, ssl=trusting, server_hostname="till")
            writer.write(b"paid\n")
            assert await reader.read() == b"paid\n" * 10_000
            writer.close()

    passes(speak)


# ---- files ---------------------------------------------------------------------------------------------------------


def test_power_loss_keeps_only_synced_files_of_a_program() -> None:
    async def lose(world: SimulatedWorld) -> None:
        found: list[tuple[str, bool]] = []

        async def keeper(_: str) -> None:
            synced, other = world.path("synced"), world.path("other")
            if synced.exists():
                found.append((synced.read_text(), other.exists()))
                return
            with synced.open("w") as file:
                file.write("paid")
                file.flush()
                os.fsync(file.fileno())
            world.path("/").sync()
            with synced.open("a") as file:
                file.write(" and lost")
            await asyncio.sleep(3_600)

        service = world.start("keeper", keeper)
        await asyncio.sleep(1)
        service.power_loss()
        service.start()
        await world.until(lambda: found)
        assert found[0][0].startswith("paid")
        assert not found[0][1]

    passes(lose)


def test_kill_keeps_all_written_files_of_a_program() -> None:
    async def lose(world: SimulatedWorld) -> None:
        found: list[str] = []

        async def keeper(_: str) -> None:
            path = world.path("orders") / "1"
            if path.exists():
                found.append(path.read_text())
                return
            world.path("orders").mkdir()
            path.write_text("paid")
            await asyncio.sleep(3_600)

        service = world.start("keeper", keeper)
        await asyncio.sleep(1)
        service.kill()
        service.start()
        await world.until(lambda: found)
        assert found == ["paid"]

    passes(lose)


def test_simulated_file_is_rejected_outside_a_program() -> None:
    kept: list[Any] = []

    async def keep(world: SimulatedWorld) -> None:
        kept.append(world.path("orders"))

    passes(keep)
    with pytest.raises(RuntimeError, match="outside the world's programs"):
        kept[0].read_text()
