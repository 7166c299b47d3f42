"""Simulated sockets behave like those of Linux.

This covers partial reads, back-pressure, FIN, RST, and a machine without power that does not reply.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator

import pytest

from tests.simulation.engine.small_world import HERE, PORT, THERE, Noted, SmallWorld, calling, serving
from zabka.ensemble.server.net.sockets import keep_alive
from zabka.simulation.engine.tcp import RECEIVE_BUFFER, SEND_BUFFER


@pytest.fixture
def world() -> Iterator[SmallWorld]:
    made = SmallWorld()
    yield made
    made.end()


def connect(world: SmallWorld, *words: bytes, keeps_open: bool = False) -> tuple[Noted, Noted]:
    """Connect two machines. Return the protocols of the client and of the server."""
    caller, server = Noted(), Noted(keeps_open=keeps_open)
    world.machine(THERE, serving(server))
    world.run(0.1)
    world.machine(HERE, calling(caller, *words))
    world.run(0.1)
    assert caller.happened == server.happened == ["made"]
    return caller, server


def test_written_bytes_arrive_at_the_peer(world: SmallWorld) -> None:
    _, server = connect(world, b"one", b"two")
    assert server.received == b"onetwo"


def test_read_can_return_part_of_a_write() -> None:
    world = SmallWorld(pieces=1.0)
    _, server = connect(world, b"x" * 100)
    assert server.received == b"x" * 100
    assert len(server.reads) > 1
    world.end()


def test_writer_pauses_while_the_peer_does_not_read(world: SmallWorld) -> None:
    """Writing is paused while the other end does not read, and resumed when it reads again."""
    caller, server = connect(world)
    assert caller.transport is not None
    assert server.transport is not None
    server.transport.pause_reading()
    size = SEND_BUFFER + RECEIVE_BUFFER + 200_000
    caller.transport.write(bytes(size))
    world.run(5)
    assert caller.happened == ["made", "pause"]
    # The socket buffers of both machines are full, so the rest is in the buffer of the process.
    assert caller.transport.get_write_buffer_size() == size - SEND_BUFFER - RECEIVE_BUFFER
    server.transport.resume_reading()
    world.run(5)
    assert caller.happened == ["made", "pause", "resume"]
    assert len(server.received) == size


def test_closed_connection_sends_buffered_bytes_and_then_eof(world: SmallWorld) -> None:
    caller, server = connect(world)
    assert caller.transport is not None
    caller.transport.write(bytes(300_000))
    caller.transport.close()
    world.run(5)
    assert len(server.received) == 300_000
    assert server.happened == ["made", "eof", "lost"]
    assert server.lost_with is None
    assert caller.happened[-1] == "lost"


def test_half_closed_connection_still_receives_data(world: SmallWorld) -> None:
    caller, server = connect(world, keeps_open=True)
    assert caller.transport is not None
    assert server.transport is not None
    caller.transport.write_eof()
    world.run(1)
    assert server.happened == ["made", "eof"]
    server.transport.write(b"late")
    world.run(1)
    assert caller.received == b"late"


def test_connection_to_a_port_without_a_listener_is_rejected(world: SmallWorld) -> None:
    world.machine(THERE, serving(Noted())).kill()
    world.machine(HERE, calling(Noted()))
    world.run(1)
    assert isinstance(world.ended[HERE], ConnectionRefusedError)


def test_listening_on_a_port_in_use_fails(world: SmallWorld) -> None:
    async def twice() -> None:
        loop = asyncio.get_running_loop()
        await loop.create_server(Noted, "", PORT)
        await loop.create_server(Noted, "", PORT)

    world.machine(THERE, twice)
    world.run(1)
    assert world.ended[THERE].errno == errno.EADDRINUSE


def test_sigkill_closes_connections_with_fin(world: SmallWorld) -> None:
    caller, _ = connect(world)
    world.machines[THERE].kill()
    world.run(1)
    assert caller.happened == ["made", "eof", "lost"]
    assert caller.lost_with is None


def test_sigkill_with_unread_bytes_resets_the_connections(world: SmallWorld) -> None:
    caller, server = connect(world)
    assert caller.transport is not None
    assert server.transport is not None
    server.transport.pause_reading()
    caller.transport.write(b"unread")
    world.run(1)
    world.machines[THERE].kill()
    world.run(1)
    assert isinstance(caller.lost_with, ConnectionResetError)


def test_write_to_a_closed_connection_gets_rst(world: SmallWorld) -> None:
    caller, server = connect(world, keeps_open=True)
    assert caller.transport is not None
    assert server.transport is not None
    caller.transport.close()
    world.run(1)
    server.transport.write(b"to nobody")
    world.run(1)
    assert isinstance(server.lost_with, ConnectionResetError)


def test_machine_without_power_sends_nothing(world: SmallWorld) -> None:
    caller, _ = connect(world)
    world.machines[THERE].lose_power()
    world.run(3600)
    assert caller.happened == ["made"]


def test_keepalive_detects_a_machine_without_power(world: SmallWorld) -> None:
    caller, _ = connect(world)
    assert caller.transport is not None
    keep_alive(caller.transport)
    world.machines[THERE].lose_power()
    # After 10 s without data, TCP sends three keepalive probes, one every 5 s
    # (`zabka.ensemble.server.net.sockets.keep_alive`).
    world.run(20)
    assert caller.happened == ["made"]
    world.run(10)
    assert caller.happened == ["made", "lost"]
    assert isinstance(caller.lost_with, TimeoutError)


def test_restarted_machine_sends_rst_for_old_connections(world: SmallWorld) -> None:
    caller, _ = connect(world)
    assert caller.transport is not None
    world.machines[THERE].lose_power()
    world.run(1)
    world.machines[THERE].start()
    world.run(1)
    assert caller.happened == ["made"]
    caller.transport.write(b"still there?")
    world.run(1)
    assert isinstance(caller.lost_with, ConnectionResetError)


def test_connecting_to_a_machine_without_power_takes_minutes(world: SmallWorld) -> None:
    world.machine(THERE, serving(Noted())).lose_power()
    world.machine(HERE, calling(Noted()))
    world.run(120)
    assert HERE not in world.ended
    # Linux gives up a connection attempt after six retries: 1 + 2 + 4 + 8 + 16 + 32 + 64 s.
    world.run(10)
    assert isinstance(world.ended[HERE], TimeoutError)


def test_bytes_sent_during_a_link_cut_arrive_once_and_in_order(world: SmallWorld) -> None:
    caller, server = connect(world)
    assert caller.transport is not None
    network = world.ground.network
    network.cut(HERE, THERE)
    caller.transport.write(b"one ")
    world.run(1)
    caller.transport.write(b"two")
    world.run(4)
    assert server.received == b""
    network.heal(HERE, THERE)
    world.run(10)
    assert server.received == b"one two"


def test_one_way_cut_does_not_affect_the_other_direction(world: SmallWorld) -> None:
    caller, server = connect(world)
    assert caller.transport is not None
    assert server.transport is not None
    network = world.ground.network
    network.cut(THERE, HERE)
    caller.transport.write(b"heard")
    server.transport.write(b"not heard")
    world.run(5)
    assert server.received == b"heard"
    assert caller.received == b""
    network.heal(THERE, HERE)
    world.run(10)
    assert server.received == b"heard"
    assert caller.received == b"not heard"


def test_kernel_accepts_connections_for_a_paused_process(world: SmallWorld) -> None:
    caller, server = Noted(), Noted()
    machine = world.machine(THERE, serving(server))
    world.run(0.1)
    machine.pause()
    world.machine(HERE, calling(caller, b"hello"))
    world.run(5)
    assert caller.happened == ["made"]
    assert server.happened == []
    machine.resume()
    world.run(0.1)
    assert server.happened == ["made"]
    assert server.received == b"hello"


def test_slow_link_delays_bytes(world: SmallWorld) -> None:
    caller, server = connect(world)
    assert caller.transport is not None
    world.ground.network.slow(HERE, THERE, 2_000_000)
    caller.transport.write(b"late")
    world.run(1.9)
    assert server.received == b""
    world.run(1)
    assert server.received == b"late"


def test_both_ends_of_a_connection_agree_on_their_addresses(world: SmallWorld) -> None:
    caller, server = connect(world)
    assert caller.transport is not None
    assert server.transport is not None
    assert caller.transport.get_extra_info("peername") == (THERE, PORT)
    assert server.transport.get_extra_info("peername") == caller.transport.get_extra_info("sockname")
