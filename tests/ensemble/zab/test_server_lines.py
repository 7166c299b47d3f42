"""A server line (server.N=...): how it is parsed and formatted, and what is rejected (QuorumPeer.QuorumServer)."""

from __future__ import annotations

import pytest

from zabka.ensemble.zab.server_line import Address, ServerLine, bracketed, parse_server_line

READ = [
    ("h1:2888:3888", ServerLine("h1", 2888, 3888), "h1:2888:3888:participant"),
    ("h1:2888:3888:observer", ServerLine("h1", 2888, 3888, True), "h1:2888:3888:observer"),
    ("h1:2888:3888: Participant ", ServerLine("h1", 2888, 3888), "h1:2888:3888:participant"),
    ("h1:1:65535;2181", ServerLine("h1", 1, 65535, False, "", 2181), "h1:1:65535:participant;0.0.0.0:2181"),
    (
        "h1:2888:3888;h2:2181", ServerLine("h1", 2888, 3888, False, "h2", 2181),
        "h1:2888:3888:participant;h2:2181",
    ),
    (
        "[::1]:2888:3888;[fe80::1]:2181", ServerLine("::1", 2888, 3888, False, "fe80::1", 2181),
        "[::1]:2888:3888:participant;[fe80::1]:2181",
    ),
    (
        "h2:2888:3888:observer|h1:4:5;2181",
        ServerLine("h2", 2888, 3888, True, "", 2181, (Address("h1", 4, 5),)),
        "h1:4:5|h2:2888:3888:observer;0.0.0.0:2181",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "canonical"), READ)
def test_server_line_is_parsed_and_formatted_as_in_zookeeper(text: str, line: ServerLine, canonical: str) -> None:
    assert parse_server_line(text) == line
    assert line.canonical() == canonical
    assert parse_server_line(canonical).canonical() == canonical


@pytest.mark.parametrize(
    "text",
    [
        "", "h1", "h1:2888", "h1:2888:3888:participant:2181", ":2888:3888", "h1:2888:3888:leader", "h1:0:3888",
        "h1:2888:65536", "h1:2888:-1", "h1:2888:x", "h1:2888:1234567890", "h1:2888:", "h1:2888:²",
        "[::1:2888:3888", "[::1]2888:3888", "h 1:2888:3888", "h1\\n:2888:3888", "h\\x00:2888:3888", "h]:2888:3888",
        "h\\\\:2888:3888", "h1:2888:3888;", "h1:2888:3888;a:b:1", "h1:2888:3888;x", "h1:2888:3888;0",
        "h1:2888:3888;h 2:1",
        "a:1:2:participant|b:1:2:observer", "a:1:2|", "a:1:2|b",
    ],
)  # fmt: skip
def test_invalid_server_line_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        parse_server_line(text.encode().decode("unicode_escape") if "\\" in text else text)


@pytest.mark.parametrize("text", ["a:1:2:observer|b:1:2", "a:1:2|b:1:2:observer", "a:1:2:observer|b:1:2:observer"])
def test_role_given_after_any_address_applies_to_the_server(text: str) -> None:
    assert parse_server_line(text).observer


def test_server_listens_on_its_own_addresses_or_on_all() -> None:
    """With quorumListenOnAllIPs, a server listens on all addresses, once for each of its configured ports."""
    line = parse_server_line("h1:1:2|h2:3:4|h3:1:2")
    assert line.hosts == ("h1", "h2", "h3")
    assert line.listens_at(on_all=False) == line.addresses == (("h1", 1, 2), ("h2", 3, 4), ("h3", 1, 2))
    assert line.listens_at(on_all=True) == (("", 1, 2), ("", 3, 4))


def test_host_address_with_colons_is_written_in_brackets() -> None:
    assert (bracketed("h1"), bracketed("::1")) == ("h1", "[::1]")
