"""The offset map of compaction, keyed by record key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zabka.broker_sim.logs.key_offsets import ENTRY_BYTES, KeyOffsets


@given(st.lists(st.binary(max_size=3), max_size=60), st.integers(1, 40), st.sampled_from((0.5, 0.9, 1.0)))
def test_key_map_contains_latest_offset_of_every_accepted_key(keys: list[bytes], slots: int, load: float) -> None:
    table, known = KeyOffsets(slots * ENTRY_BYTES, load, len(keys)), {}
    for offset, key in enumerate(keys):
        # As in Kafka, a full map rejects even a key that it contains.
        assert table.put(key, offset) is (len(known) < int(slots * load))
        if len(known) < int(slots * load):
            known[key] = offset
            assert table.latest_offset == offset
    assert len(table) == len(known)
    assert {key: table.get(key) for key in keys} == {key: known.get(key, -1) for key in keys}


def test_key_map_capacity_equals_that_of_kafka() -> None:
    # 1 MiB with 24 bytes per entry and a load factor of 0.9: int(43690 * 0.9).
    table = KeyOffsets(1 << 20, 0.9, 1 << 40)
    assert sum(table.put(b"%d" % number, number) for number in range(39_500)) == 39_321
    assert table.memory_bytes <= (1 << 20) + 4_096 * ENTRY_BYTES


def test_key_map_with_few_keys_uses_little_memory() -> None:
    table = KeyOffsets(128 << 20, 0.9, 1_000)
    assert all(table.put(b"%d" % number, number) for number in range(1_000))
    assert table.memory_bytes < 200_000 and [table.get(b"7"), table.get(b"x")] == [7, -1]
