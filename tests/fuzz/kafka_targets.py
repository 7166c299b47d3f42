"""The Kafka port, responses of brokers, and the contents of logs, znodes and server.properties, as fuzz targets."""

from __future__ import annotations

import typing
import zlib
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from io import BytesIO
from random import Random
from typing import Any

from crc32c import crc32c
from kio.serial import entity_writer

from tests.broker_sim.broker_world import Cluster
from tests.fuzz.choices import Choices, Target, spoil
from tests.kafka.produced import whole
from zabka.broker_sim.configs.broker_config import config_from, parse_config
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.credential_cache import ScramCredential
from zabka.broker_sim.configs.oauth_keys import SignedTokenKeys, UnsecuredTokenKeys
from zabka.broker_sim.configs.replica_config import ReplicaConfig, partition_config
from zabka.broker_sim.configs.topic_config import TOPIC_KEYS
from zabka.broker_sim.logs import producer_snapshots
from zabka.broker_sim.logs.producer_state import ProducerStates
from zabka.broker_sim.request_context import RequestRefused
from zabka.broker_sim.sasl.login_tokens import checked_token
from zabka.broker_sim.sasl.oauthbearer import OAuthBearerServer
from zabka.broker_sim.sasl.plain import PlainServer
from zabka.broker_sim.sasl.scram import ScramServer
from zabka.broker_sim.sasl.signed_tokens import SignedTokens, parse_key_set
from zabka.broker_sim.sasl.tokens import TokenRejected
from zabka.broker_sim.sasl.unsecured_tokens import UnsecuredTokens
from zabka.controller.features import decode_features
from zabka.ensemble.auth.digest_md5 import SaslError
from zabka.journal.events import TopicPartition
from zabka.kafka.compression import Codec, CompressionError, pack, unpack
from zabka.kafka.end_transaction_marker import EndTransactionMarker, marker_batch, read_marker
from zabka.kafka.message_set import CannotConvert, Message, convert_down, write_message
from zabka.kafka.record_batch import (
    BatchUnreadable,
    Record,
    build_batch,
    decode_batch,
    decode_records,
    split_batches,
)
from zabka.kafka.record_refusals import RecordsRefused
from zabka.kafka.record_rules import Append, TopicRules
from zabka.kafka.record_validation import ProduceRefused, check_request, validate
from zabka.kafka.wire.api_versions import SUPPORTED
from zabka.kafka.wire.frames import UnsupportedVersion, WireError, decode_request, decode_response, encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of, fill, request_class, response_class, version_of
from zabka.kafka.zk import znodes

WITNESS = TopicPartition("witness", 0)
CLUSTER_RUNS_MAX = 300
_CONTROL = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)
"""Requests that only a controller sends. The attacker does not send them.

As in Kafka, brokers execute them for any client, so they would stop the witness client.
"""


# ---- request and response frames -------------------------------------------------------------------------------


def _versions(key: ApiKey) -> list[int]:
    lowest, highest = SUPPORTED[key]
    return sorted({lowest, (lowest + highest) // 2, highest})


def filled(schema: Any) -> Any:
    """Return a message of this class in which every list has one element."""
    return fill(schema, _one_of_each(schema))


def _one_of_each(schema: Any) -> dict[str, Any]:
    members = ((field.name, _member_class(schema, field.name)) for field in fields(schema))
    return {name: (_one_of_each(member),) for name, member in members if member is not None}


def _member_class(schema: Any, name: str) -> Any:
    hint = typing.get_type_hints(schema)[name]
    for candidate in (hint, *typing.get_args(hint)):
        members = typing.get_args(candidate)
        if typing.get_origin(candidate) is tuple and is_dataclass(members[0]):
            return members[0]
    return None


@cache
def request_frames() -> list[bytes]:
    """Return frames, without their size field, of every supported request in its lowest, middle and highest version."""
    frames = []
    for key in SUPPORTED:
        for version in _versions(key):
            for message in (fill(request_class(key, version), {}), filled(request_class(key, version))):
                frames.append(encode_request(7, "fuzz", message)[4:])
    return frames


@cache
def _responses() -> list[tuple[Any, bytes]]:
    """Return requests, each with the frame of its response."""
    pairs = []
    for key in SUPPORTED:
        for version in _versions(key):
            answer = filled(response_class(key, version))
            buffer = BytesIO(b"\x00\x00\x00\x07" + (b"\x00" if answer.__header_schema__.__version__ == 1 else b""))
            buffer.seek(0, 2)
            entity_writer(type(answer))(buffer, answer)
            pairs.append((fill(request_class(key, version), {}), buffer.getvalue()))
    return pairs


def kafka_request(data: bytes) -> None:
    """Decode a request frame: the request is valid, has an unsupported version, or is malformed."""
    with suppress(UnsupportedVersion, WireError):
        decode_request(data)


def kafka_response(data: bytes) -> None:
    """Decode the response to a request. Any data must either be decoded or raise WireError."""
    choices = Choices(data)
    asked, _ = choices.one(_responses())
    with suppress(WireError):
        decode_response(data[len(data) - choices.left :], asked)


def _response_seeds() -> list[bytes]:
    found = []
    for index, (_, frame) in enumerate(_responses()):
        size = 1 if len(_responses()) <= 256 else 2
        found.append(index.to_bytes(size, "big") + frame)
    return found


# ---- records --------------------------------------------------------------------------------------------------


_RULES = (
    TopicRules(),
    TopicRules(compacts=True, stamps=True, codec=Codec.GZIP),
    TopicRules(before_max_ms=5, after_max_ms=5, codec=Codec.NONE, max_message_bytes=2_000),
)
_UNPACKED_MAX = 1 << 18


def _batches() -> list[bytes]:
    records = [Record(b"k", b"v", 5), Record(None, b"", 6, headers=(("h", b"x"),)), Record(b"", None, 7)]
    one = build_batch(records)
    packed = [build_batch(records, codec=codec) for codec in Codec]
    marker = marker_batch(7, 1, EndTransactionMarker(True, 3), 5)
    return [*packed, build_batch(records[:1]), one + one, one + marker]


def _message_sets() -> list[bytes]:
    found = []
    for magic in (0, 1):
        inner = b"".join(write_message(Message(n, magic, 0, 5, b"k", b"v")) for n in range(2))
        found.append(inner)
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
            value = pack(codec, inner, magic=magic)
            found.append(write_message(Message(1, magic, codec, 5, None, value)))
    return found


def _with_checksum(data: bytes) -> bytes:
    """Return the record batch with a correct checksum. Otherwise almost all inputs would be rejected at the
    checksum.
    """
    if len(data) > 17 and data[16] == 2:
        return data[:17] + int(crc32c(data[21:])).to_bytes(4, "big") + data[21:]
    return data[:12] + zlib.crc32(data[16:]).to_bytes(4, "big") + data[16:]


def produced_records(data: bytes) -> None:
    """Validate produced records: accepted records can be read by every client, and all others are rejected."""
    for records in (data, _with_checksum(data)):
        with suppress(RecordsRefused, ProduceRefused):
            check_request(records, 9, is_transactional=False)
        for rules in _RULES:
            with suppress(RecordsRefused):
                valid = whole(validate(records, Append(rules, "t-0", 7)))
                for header in valid.headers:
                    assert len(decode_batch(bytes(valid.data), 0, header)) == header.record_count
                for magic in (0, 1):
                    with suppress(CannotConvert):
                        whole(convert_down(bytes(valid.data), magic, 0, 10))


def packed_bytes(data: bytes) -> None:
    """Decompress bytes: the result is not larger than allowed, or an error is raised."""
    for codec in Codec:
        for magic in (0, 2):
            with suppress(CompressionError):
                assert len(unpack(codec, data, _UNPACKED_MAX, magic)) <= _UNPACKED_MAX


def record_batches(data: bytes) -> None:
    """Read record batches. Each batch must be valid or raise an error."""
    for checked in (True, False):
        split_batches(data, checked)
    with suppress(BatchUnreadable):
        decode_records(data)
    position = 0
    for header in split_batches(data, False) or ():
        read_marker(data, position, header)
        position += header.size


def _snapshots() -> list[bytes]:
    entry = producer_snapshots.ProducerEntry(7, 1, 41, 100, 2, 1_234)
    return [producer_snapshots.encode(entries) for entries in ([], [entry], [entry, entry._replace(producer_id=8)])]


def producer_snapshot(data: bytes) -> None:
    """Read a producer snapshot file: it is valid or raises BadSnapshot."""
    with suppress(producer_snapshots.BadSnapshot):
        ProducerStates().replace(producer_snapshots.decode(data))


# ---- znodes and configuration files ---------------------------------------------------------------------------


def kafka_znode(data: bytes) -> None:
    """Decode the content of any znode, or return None."""
    znodes.decode_controller(data)
    znodes.decode_controller_epoch(data)
    znodes.decode_partition_set(data)
    znodes.decode_reassignments(data)
    znodes.decode_log_dir_event(data)
    decode_features(data)
    znodes.decode_config(data)
    znodes.decode_config_change(data)
    znodes.decode_cluster_id(data)
    znodes.decode_producer_id_block(data)
    for is_extended in (False, True):
        znodes.decode_acl_change(data, is_extended)
    acls = znodes.decode_acls(data)
    if acls is not None:
        assert znodes.decode_acls(znodes.encode_acls(acls)) == acls
    for info in (znodes.decode_broker(1, data),):
        if info is not None:
            znodes.encode_broker(info, 0)
    topic = znodes.decode_topic(data)
    if topic is not None:
        assert znodes.decode_topic(znodes.encode_topic(topic)) == topic
    state = znodes.decode_partition_state(data, 3)
    if state is not None:
        assert znodes.decode_partition_state(znodes.encode_partition_state(state), 3) == state


def _znode_seeds() -> list[bytes]:
    endpoint = znodes.BrokerEndpoint("PLAINTEXT", "h", 9092)
    assigned = znodes.TopicAssignment("GAcujDW_SS2J6cYWYS52lg", {0: znodes.ReplicaAssignment((1, 2), (2,), (1,))})
    return [
        znodes.encode_controller(1, 5),
        znodes.encode_controller_epoch(5),
        znodes.encode_broker(znodes.BrokerInfo(1, (endpoint,), "rack"), 5),
        znodes.encode_topic(assigned),
        znodes.encode_partition_state(znodes.LeaderAndIsr(1, 2, (1, 2), 3, 4, recovering=True)),
        znodes.encode_partition_set([WITNESS]),
        znodes.encode_config({"retention.ms": "5"}),
        znodes.encode_config_change("topics/orders"),
        znodes.encode_cluster_id("x"),
        znodes.encode_producer_id_block(1, 0, 999),
    ]


def server_properties(data: bytes) -> None:
    """Parse a server.properties: it is accepted, or rejected with a one-line reason.

    Topic configs in znodes are never rejected: invalid values are ignored.
    """
    text = data.decode("utf-8", "replace")
    with suppress(ConfigError):
        parse_config(text)
    with suppress(ConfigError):
        config_from({"broker.id": "1", "zookeeper.connect": "h:1", "listeners": text})
    for key in TOPIC_KEYS.values():
        with suppress(ConfigError):
            key.parse(text)
    partition_config(ReplicaConfig(), dict.fromkeys(TOPIC_KEYS, text))


# ---- a running broker -----------------------------------------------------------------------------------------


class _Attacked:
    """A broker, a witness client whose requests must always succeed, and an attacking client."""

    def __init__(self) -> None:
        self.cluster = Cluster(1).start()
        self.cluster.run(self.cluster.client.create_topic(WITNESS.topic, 1, 1))
        self.runs = 0

    def send(self, frame: bytes) -> None:
        try:
            message = decode_request(frame).payload
        except (UnsupportedVersion, WireError):
            return
        key = ApiKey(api_key_of(message))
        if key in _CONTROL or key is ApiKey.DELETE_TOPICS:
            return
        broker = self.cluster.nodes[1].broker

        async def handle() -> None:
            with suppress(RequestRefused):
                answer = await broker.handle(message, "fuzz", "PLAINTEXT")
                assert answer is None or (api_key_of(answer), version_of(answer)) == (key, version_of(message)), key

        self.cluster.nodes[1].runtime.spawn(handle(), "stranger")
        self.cluster.wait(2)

    def check(self) -> None:
        self.cluster.run(self.cluster.client.produce(WITNESS, [Record(None, b"x")]))


_attacked: list[_Attacked] = []


def kafka_broker(data: bytes) -> None:
    """Send damaged and valid requests in any order, while a witness client produces records."""
    if not _attacked or _attacked[0].runs >= CLUSTER_RUNS_MAX:
        for old in _attacked:
            old.cluster.stop_all()
        _attacked[:] = [_Attacked()]
    attacked = _attacked[0]
    attacked.runs += 1
    choices = Choices(data)
    while choices.left > 2:
        frame = choices.one(request_frames())
        attacked.send(spoil(frame, choices, 2) if choices.below(3) else frame)
    attacked.check()


SCRAM_FIRST = b"n,,n=ann,r=client"
UNSIGNED = UnsecuredTokens(UnsecuredTokenKeys("sub", "scope", ("a",), 0), lambda: 8_000)
_KEY = b'{"keys": [{"kty": "oct", "k": "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3JldA"}]}'
SIGNED = SignedTokens(
    SignedTokenKeys("file:/keys", frozenset(), "", 0, "scope", "sub", 1, 0, 0, {}),
    lambda: parse_key_set(_KEY),
    lambda key_id: None,
    lambda: 8_000,
)


def kafka_sasl(data: bytes) -> None:
    """Authenticate a client whose message is the input, with PLAIN, OAUTHBEARER, and in both steps of SCRAM.

    The input is also an issuer's token, of this side's own login.
    """
    with suppress(TokenRejected):
        assert checked_token(data.decode(errors="replace"), "scope", "sub").expires_ms >= 0
    plain = PlainServer({"ann": "secret"})
    with suppress(SaslError):
        plain.respond(data)
        assert plain.user == "ann"
    found = ScramCredential(b"salt", bytes(32), bytes(32), 4096)
    for first in (data, SCRAM_FIRST):
        server = ScramServer("SCRAM-SHA-256", lambda mechanism, user: found if user == "ann" else None, "server")
        with suppress(SaslError):
            assert server.respond(first).startswith(b"r=")
            server.respond(data)
        assert server.user is None, "no input hashes to the stored key"
    for tokens in (UNSIGNED, SIGNED):
        bearer = OAuthBearerServer(tokens.verify)
        with suppress(SaslError):
            assert bearer.respond(data) == b"" or bearer.rejection
        assert bearer.user is None or tokens is UNSIGNED, "no input has a signature of an unknown key"


def _sasl_messages() -> list[bytes]:
    final = b"c=biws,r=clientserver,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    token = b"eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4iLCJleHAiOjl9."
    bearer = [b"n,,\x01auth=Bearer " + each + b"\x01\x01" for each in (token, token + b"c2ln")]
    return [*bearer, token + b"c2ln", b"\0ann\0secret", SCRAM_FIRST, b"n,a=ann,n=a=2Cb,r=x,tokenauth=true", final]


def _noise() -> list[bytes]:
    random = Random(5)
    return [random.randbytes(60) for _ in range(8)]


KAFKA_TARGETS = {
    "kafka-request": Target(kafka_request, request_frames),
    "kafka-response": Target(kafka_response, _response_seeds),
    "kafka-records": Target(record_batches, _batches),
    "kafka-produced": Target(produced_records, lambda: [*_batches(), *_message_sets()]),
    "kafka-codecs": Target(packed_bytes, lambda: [pack(codec, b"some text " * 50) for codec in Codec]),
    "kafka-producers": Target(producer_snapshot, _snapshots),
    "kafka-sasl": Target(kafka_sasl, _sasl_messages),
    "kafka-znode": Target(kafka_znode, _znode_seeds),
    "server.properties": Target(
        server_properties,
        lambda: [
            b"broker.id=1\nlisteners=PLAINTEXT://h:9092\nzookeeper.connect=h:2181/x\nlog.dirs=/a,/b\n",
            b"1:2,3:4",
        ],
    ),
    "kafka-broker": Target(kafka_broker, _noise),
}
