"""Records with hand-written codecs: they return the same bytes, values and errors as the generic codec."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.jute import Codec, MalformedRecord, Reader, Record, record, vector
from zabka.ensemble.records import ACL, ACLS, OPEN_ACL, CreateRequest, OpCode, SetDataRequest
from zabka.ensemble.txn import CreateTxn, SetDataTxn, Txn

PATHS = st.one_of(st.sampled_from(["", "/", "/a/b", "/ü\U0001f600", "/\ud800"]), st.text(max_size=20))
DATA = st.one_of(st.none(), st.binary(max_size=40))
INTS = st.integers(-(2**31), 2**31 - 1)
ACL_LISTS = st.one_of(
    st.just(OPEN_ACL), st.lists(st.builds(ACL, INTS, st.text(max_size=6), st.text(max_size=6)), max_size=3)
)
RECORDS: dict[type[Record], st.SearchStrategy[Record]] = {
    SetDataRequest: st.builds(SetDataRequest, PATHS, DATA, INTS),
    CreateRequest: st.builds(CreateRequest, PATHS, DATA, ACL_LISTS, INTS),
    SetDataTxn: st.builds(SetDataTxn, PATHS, DATA, INTS),
    CreateTxn: st.builds(CreateTxn, PATHS, DATA, ACL_LISTS, st.booleans(), INTS),
}
PLAIN_ACLS = vector(record(ACL))


def by_layout(kind: type[Record]) -> tuple[Codec, ...]:
    return tuple(PLAIN_ACLS if codec is ACLS else codec for codec in kind.layout)


def encoded_by_layout(value: Record) -> bytes:
    out = bytearray()
    for name, codec in zip(value.__struct_fields__, by_layout(type(value)), strict=True):
        codec.write(out, getattr(value, name))
    return bytes(out)


def fields(value: Record) -> list[Any]:
    found = [getattr(value, name) for name in value.__struct_fields__]
    return [list(field) if isinstance(field, tuple) else field for field in found]


def read(kind: type[Record], data: bytes, start: int) -> object:
    reader = Reader(data, start)
    try:
        return fields(kind.read_from(reader)), reader.pos
    except MalformedRecord:
        return "malformed"


def read_by_layout(kind: type[Record], data: bytes, start: int) -> object:
    reader = Reader(data, start)
    try:
        return [codec.read(reader) for codec in by_layout(kind)], reader.pos
    except MalformedRecord:
        return "malformed"


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Return a damaged copy of the bytes: cut off, extended, or with one changed byte or length."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(0, 2))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.sampled_from([0, 1, 4, 0x7F, 0x80, 0xC3, 0xFF]))
    if len(data) >= 4 and draw(st.booleans()):
        struct.pack_into(">i", data, draw(st.integers(0, len(data) - 4)), draw(INTS))
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data) + draw(st.binary())


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@settings(max_examples=150)
@given(data=st.data())
def test_hand_written_codec_encodes_like_the_generic_codec(kind: type[Record], data: st.DataObject) -> None:
    value = data.draw(RECORDS[kind])
    assert value.encode() == encoded_by_layout(value)


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@settings(max_examples=300)
@given(data=st.data())
def test_hand_written_codec_decodes_bytes_like_the_generic_codec(kind: type[Record], data: st.DataObject) -> None:
    before = data.draw(st.binary(max_size=3))
    raw = before + data.draw(damaged(encoded_by_layout(data.draw(RECORDS[kind]))))
    assert read(kind, raw, len(before)) == read_by_layout(kind, raw, len(before))


def test_decoded_open_acl_is_the_shared_open_acl_object() -> None:
    raw = CreateRequest("/a", b"", list(OPEN_ACL), 0).encode()
    assert CreateRequest.decode(raw).acl is OPEN_ACL


LONGS = st.integers(-(2**63), 2**63 - 1)
DIGESTS = st.one_of(st.none(), st.integers(0, 2**64 - 1))


def a_txn(body: Record, session_id: int, cxid: int, zxid: int, digest: int | None) -> Txn:
    kind = OpCode.SET_DATA if isinstance(body, SetDataTxn) else OpCode.CREATE
    return Txn(SessionId(session_id), cxid, Zxid(zxid), 1_700_000_000_000, kind, body, digest)


TXNS = st.builds(a_txn, st.one_of(RECORDS[SetDataTxn], RECORDS[CreateTxn]), LONGS, INTS, LONGS, DIGESTS)


def parts(data: bytes | bytearray) -> object:
    try:
        txn = Txn.decode(data)  # type: ignore[arg-type]
    except MalformedRecord:
        return "malformed"
    header = txn.session_id, txn.cxid, txn.zxid, txn.time_ms, txn.type
    return header, type(txn.body), fields(txn.body), txn.digest, txn.encoded()


@given(TXNS)
def test_transaction_has_header_body_and_digest(txn: Txn) -> None:
    header = struct.pack(">qiqqi", txn.session_id, txn.cxid, txn.zxid, txn.time_ms, txn.type)
    digest = b"" if txn.digest is None else struct.pack(">iQ", 2, txn.digest)
    assert txn.encoded() == header + encoded_by_layout(txn.body) + digest
    assert Txn.decode(txn.encoded()) == txn


@settings(max_examples=400)
@given(st.data())
def test_both_codecs_read_damaged_transactions_equally(data: st.DataObject) -> None:
    raw = data.draw(damaged(data.draw(TXNS).encoded()))
    # The fast codec reads only `bytes`, so the general codec reads the bytearray. Both results must be equal.
    assert parts(raw) == parts(bytearray(raw))


@pytest.mark.parametrize("kind", [SetDataRequest, CreateRequest], ids=lambda kind: kind.__name__)
@settings(max_examples=300)
@given(data=st.data())
def test_both_codecs_read_random_bytes_equally(kind: type[Record], data: st.DataObject) -> None:
    raw = data.draw(damaged(encoded_by_layout(data.draw(RECORDS[kind]))))
    try:
        decoded: object = fields(kind.decode(raw))
    except MalformedRecord:
        decoded = "malformed"
    expected = read_by_layout(kind, raw, 0)
    assert decoded == (expected[0] if isinstance(expected, tuple) else expected)
