"""SASL between servers: Apache ZooKeeper 3.9.5 and our servers in one ensemble that requires a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ensemble.server.peer_processes import wait_until
from tests.interop.real_zookeeper import MixedEnsemble, needs_java

pytestmark = [pytest.mark.long, needs_java]

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"


def logins(directory: Path, password: str) -> Path:
    """Write a JAAS file for a server, and return its path.

    The server requires the correct password from others, and uses `password` for its own connections.
    """
    path = directory / f"jaas-{password}"
    path.write_text(
        f'QuorumServer {{ {MODULE} user_zk="sesame"; }};\n'
        f'QuorumLearner {{ {MODULE} username="zk" password="{password}"; }};\n'
    )
    return path


class Guarded(MixedEnsemble):
    """Three servers that require SASL for connections between them."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(directory, 3, tick_time=500)
        self._monkeypatch = monkeypatch
        self._plain = {i: self.config(i).read_text() for i in self.client_ports}

    def let(self, i: int, password: str, *, java: bool) -> None:
        """Start server `i` with this password for its connections to others."""
        jaas = logins(self.directory, password)
        requirements = "".join(
            f"quorum.auth.{key}=true\n" for key in ("enableSasl", "serverRequireSasl", "learnerRequireSasl")
        )
        # In Java, DIGEST-MD5 is disabled by default.
        self.config(i).write_text(
            f"{self._plain[i]}{requirements}fips-mode=false\njava.security.auth.login.config={jaas}\n"
        )
        self._monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.auth.login.config={jaas}")
        if java:
            self.start_java(i)
        else:
            self.start(i)


def test_java_and_zabka_servers_with_the_password_form_a_quorum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble = Guarded(tmp_path, monkeypatch)
    try:
        ensemble.let(1, "sesame", java=False)
        ensemble.let(3, "sesame", java=True)
        assert ensemble.wait_for_quorum() == 3
        ensemble.let(2, "sesame", java=False)
        ensemble.wait_for_quorum()
        with ensemble.client(1) as client:
            client.create("/a", b"through ours, to a Java leader")
        ensemble.kill(3)
        leader = ensemble.wait_for_quorum()
        assert leader in (1, 2)
        ensemble.let(3, "sesame", java=True)
        assert ensemble.wait_for_quorum() == leader
        with ensemble.client(3) as client:
            client.sync("/")
            assert client.get("/a")[0].startswith(b"through")
            client.set("/a", b"through Java, to ours")
    finally:
        ensemble.close()


@pytest.mark.parametrize("stranger_is_java", [True, False], ids=["java", "ours"])
def test_wrong_password_excludes_a_server_and_both_sides_log_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stranger_is_java: bool
) -> None:
    ensemble = Guarded(tmp_path, monkeypatch)
    try:
        ensemble.let(1, "sesame", java=not stranger_is_java)
        ensemble.let(2, "sesame", java=not stranger_is_java)
        ensemble.wait_for_quorum()
        ensemble.let(3, "wrong", java=stranger_is_java)
        theirs, ours = (ensemble.java_log, ensemble.log)
        if stranger_is_java:
            wait_until(lambda: "SASL: a wrong password" in ours(1) + ours(2))
            wait_until(lambda: "Authentication failed against server" in theirs(3))
        else:
            wait_until(lambda: "the server refused this one's user or password" in ours(3))
            wait_until(lambda: "Failed to authenticate using SASL" in theirs(1) + theirs(2))
            assert ours(3).count("election port: SASL: the server refused") <= 2
        assert ensemble.modes()[3] == "none"
        assert "sesame" not in "".join(
            ours(i) for i in ensemble.processes if (ensemble.directory / str(i) / "log").exists()
        )
    finally:
        ensemble.close()
