"""Definition of a rule and its sources."""

from __future__ import annotations

from typing import Final

import msgspec

KAFKA_SOURCE: Final = "https://github.com/apache/kafka/blob/3.9.0/core/src/main/scala/kafka/"
KAFKA_CLIENT_SOURCE: Final = "https://github.com/apache/kafka/blob/3.9.0/clients/src/main/java/org/apache/kafka/"
ZOOKEEPER_SOURCE: Final = (
    "https://github.com/apache/zookeeper/blob/release-3.9.5/zookeeper-server/src/main/java/org/apache/zookeeper/"
)
_ISSUES = "https://issues.apache.org/jira/browse/"
_WIKI = "https://cwiki.apache.org/confluence/display/KAFKA/"
_KIPS = {
    16: "+-+Automated+Replica+Lag+Tuning",
    98: "+-+Exactly+Once+Delivery+and+Transactional+Messaging",
    101: "+-+Alter+Replication+Protocol+to+use+Leader+Epoch+rather+than+High+Watermark+for+Truncation",
    152: "+-+Improve+diagnostics+for+SASL+authentication+failures",
    279: "%3A+Fix+log+divergence+between+leader+and+follower+after+fast+leader+fail+over",
    320: "%3A+Allow+fetchers+to+detect+and+handle+log+truncation",
    345: "%3A+Introduce+static+membership+protocol+to+reduce+consumer+rebalances",
    368: "%3A+Allow+SASL+Connections+to+Periodically+Re-Authenticate",
    380: "%3A+Detect+outdated+control+requests+and+bounced+brokers+using+broker+generation",
    455: "%3A+Create+an+Administrative+API+for+Replica+Reassignment",
    460: "%3A+Admin+Leader+Election+RPC",
    497: "%3A+Add+inter-broker+API+to+alter+ISR",
    595: "%3A+A+Raft+Protocol+for+the+Metadata+Quorum",
    664: "%3A+Provide+tooling+to+detect+and+abort+hanging+transactions",
    704: "%3A+Send+a+hint+to+the+partition+leader+to+recover+the+partition",
    841: "%3A+Fenced+replicas+should+not+be+allowed+to+join+the+ISR+in+KRaft",
    890: "%3A+Transactions+Server-Side+Defense",
    903: "%3A+Replicas+with+stale+broker+epoch+should+not+be+allowed+to+join+the+ISR",
    966: "%3A+Eligible+Leader+Replicas",
}
"""For each KIP, the part of its page's name that follows the number."""
ZAB_PAPER: Final = "https://doi.org/10.1109/DSN.2011.5958223"
SHORT_PAPER: Final = "https://doi.org/10.1145/1529974.1529978"


class Link(msgspec.Struct, frozen=True):
    """A link: its text and its URL."""

    name: str
    url: str


class Source(msgspec.Struct, frozen=True):
    """A function or method of this project: the file's path in the repository, and the name (`Class.method`)."""

    path: str
    symbol: str


class Rule(msgspec.Struct, frozen=True):
    """Why a node made a decision: `name` in a few words, `sentence` in at most three short sentences.

    `source` is the function of this project that makes the decision, `theirs` the function of Kafka or ZooKeeper, and
    `references` are KIPs, sections of papers and issues.
    """

    name: str
    sentence: str
    source: Source
    theirs: Link
    references: tuple[Link, ...] = ()


def source(written: str) -> Source:
    """Parse a source such as `controller/election.py:is_unclean`."""
    path, _, symbol = written.partition(":")
    return Source(path, symbol)


def kafka(name: str, path: str) -> Link:
    """Return the link to a class or method of Kafka 3.9. `path` is relative to core/src/main/scala/kafka."""
    return Link(name, KAFKA_SOURCE + path)


def kafka_client(name: str, path: str) -> Link:
    """Return the link to a Java class or method that Kafka's brokers and clients share.

    `path` is relative to clients/src/main/java/org/apache/kafka.
    """
    return Link(name, KAFKA_CLIENT_SOURCE + path)


def zookeeper(name: str, path: str) -> Link:
    """Return the link to a class or method of ZooKeeper 3.9. `path` is relative to org/apache/zookeeper."""
    return Link(name, ZOOKEEPER_SOURCE + path)


def reference(name: str) -> Link:
    """Return the link for a reference such as `KIP-101`, `KAFKA-1211` or `ZOOKEEPER-1549`.

    Papers are `Zab IV, phase 2` (a section of the paper) or `Zab 2008, 4.2` (the short paper). Raises KeyError for a
    KIP whose page name is not in `_KIPS`.
    """
    kind, _, rest = name.partition("-" if "-" in name else " ")
    match kind:
        case "KIP":
            return Link(name, f"{_WIKI}KIP-{rest}{_KIPS[int(rest)]}")
        case "Zab":
            return Link(name, SHORT_PAPER if rest.startswith("2008") else ZAB_PAPER)
        case _:
            return Link(name, _ISSUES + name)


def references(*names: str) -> tuple[Link, ...]:
    """Return the links for several references."""
    return tuple(map(reference, names))
