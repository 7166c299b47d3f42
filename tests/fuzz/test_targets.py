"""All decoders and state machines that read untrusted input.

Their inputs are valid encodings, damaged encodings, and random bytes. `make fuzz` runs the same targets for longer,
guided by coverage.
"""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.choices import Choices, lying_lengths, spoil
from tests.fuzz.peer_targets import encoded, from_leader, small_snapshot, transactions
from tests.fuzz.targets import TARGETS
from zabka.ensemble.ids import Zxid
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.server.net.quorum_packets import AUTH_ENTRIES_MAX
from zabka.ensemble.server.net.quorum_wire import QuorumCodec
from zabka.ensemble.zab.messages import Proposal, Snap

SEEDS = {name: target.seeds() for name, target in TARGETS.items()}
MACHINES = {"service", "forwarded", "learner", "leader", "kafka-broker"}
FROM_THE_WIRE = (
    "request", "client-port", "connect", "sasl", "from-leader", "from-learner", "election", "transaction", "log",
    "snapshot", "kafka-request", "kafka-records", "kafka-sasl",
)  # fmt: skip
SEED_BYTES_MAX = 110
GROWTH_BYTES = 256 * 1024
"""Maximum memory that a decoder may use. A decoder that trusts a length field would use megabytes."""


@pytest.mark.parametrize("name", TARGETS)
def test_valid_messages_and_files_are_decoded(name: str) -> None:
    for seed in SEEDS[name]:
        TARGETS[name].run(seed)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_and_random_bytes_raise_only_documented_error(name: str, data: st.DataObject) -> None:
    noise = data.draw(st.binary(max_size=300))
    if name in MACHINES:
        TARGETS[name].run(noise)
    else:
        seed = data.draw(st.sampled_from(SEEDS[name]))
        TARGETS[name].run(noise if data.draw(st.integers(0, 4)) == 0 else spoil(seed, Choices(noise)))


@pytest.mark.parametrize("name", FROM_THE_WIRE)
def test_wrong_length_field_allocates_no_memory(name: str) -> None:
    run = TARGETS[name].run
    tracemalloc.start()
    try:
        for seed in SEEDS[name][:6]:
            for lie in lying_lengths(seed[:SEED_BYTES_MAX]):
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                run(lie)
                assert tracemalloc.get_traced_memory()[1] - before < GROWTH_BYTES
    finally:
        tracemalloc.stop()


def test_large_packet_received_in_pieces_is_joined_only_once() -> None:
    data = next(iter(transactions())).encoded()
    size = 8 * 1024 * 1024
    # The stream has a NEWLEADER packet with a long payload, and then a proposal.
    stream = struct.pack(">iqi", 10, 1 << 32, size) + b"x" * size + b"\xff" * 4
    stream += struct.pack(">iqi", 2, transactions()[0].zxid, len(data)) + data + b"\xff" * 4
    codec = QuorumCodec(learner=True)
    packets = [packet for at in range(0, len(stream), 1024) for packet in codec.feed(stream[at : at + 1024])]
    assert len(packets) == 2 and isinstance(packets[1], Proposal)
    # The codec does not store the payload. If it copied all data for each chunk, it would copy tens of gigabytes.
    assert codec._buffer == b"" and codec._late == []


def test_forwarded_request_with_too_many_ids_closes_the_link() -> None:
    with pytest.raises(MalformedRecord):
        QuorumCodec(learner=False).feed(struct.pack(">iqii", 1, -1, -1, AUTH_ENTRIES_MAX + 1))


def test_decoded_snapshot_size_is_independent_of_chunk_sizes() -> None:
    stream = b"".join(encoded([p for p in from_leader(small_snapshot()) if isinstance(p, Snap)], learner=False))
    sizes = []
    for step in (1, 7, len(stream)):
        codec = QuorumCodec(learner=True)
        packets = [packet for at in range(0, len(stream), step) for packet in codec.feed(stream[at : at + step])]
        assert isinstance(packets[0], Snap) and packets[0].zxid > Zxid(0)
        sizes.append(packets[0].snapshot.nodes.data_bytes)
    assert sizes[0] == sizes[1] == sizes[2] > 0
