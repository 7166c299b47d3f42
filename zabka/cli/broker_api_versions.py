"""`zabka broker-api-versions`: works like kafka-broker-api-versions.sh of Kafka 3.9."""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.index import api_key_map

from zabka.cli.kafka_command import parser, print_line, run
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaUnavailable
from zabka.kafka.client.log_admin import api_versions
from zabka.kafka.wire.api_versions import SUPPORTED
from zabka.kafka.wire.kafka_schema import ApiKey


def main(arguments: list[str]) -> int:
    """Run `zabka broker-api-versions` with these arguments; return its exit code."""
    options = parser("broker-api-versions", "Print the requests that each broker serves.").parse_args(arguments)
    return run(options, _api_versions)


async def _api_versions(client: AdminClient) -> None:
    cluster = await client.metadata([])
    for broker in cluster.brokers.values():
        rack = cluster.racks.get(broker.broker_id) or "null"
        who = f"{broker.host}:{broker.port} (id: {broker.broker_id} rack: {rack})"
        try:
            served = await api_versions(client, broker)
        except KafkaUnavailable as reason:
            print_line(f"{who} -> ERROR: {reason}")
            continue
        print_line(f"{who} -> (")
        print_line(",\n".join(_served(key, *served[key]) for key in sorted(served)))
        print_line(")")


def _served(key: int, lowest: int, highest: int) -> str:
    """Describe the versions of one API that a broker supports.

    `usable` is the newest version that the broker and this client support.
    """
    versions = f"{lowest} to {highest}" if lowest < highest else str(lowest)
    ours = SUPPORTED.get(ApiKey(key)) if key in ApiKey.__members__.values() else None
    if ours is None or min(ours[1], highest) < max(ours[0], lowest):
        usable = "UNKNOWN"
    else:
        usable = str(min(ours[1], highest))
    return f"\t{api_name(key)}({key}): {versions} [usable: {usable}]"


def api_name(key: int) -> str:
    """Return Kafka's name of a request, such as ListOffsets."""
    known: Mapping[int, str] = api_key_map
    return "".join(word.capitalize() for word in known[key].split("_")) if key in known else "UNKNOWN"
