"""The composition with rootless Podman and podman-compose, which must behave as with Docker.

`make test-compose` runs these tests if both are installed. If the tests run as root, they run Podman as the user
ZABKA_TEST_PODMAN_USER, who needs subordinate ids (/etc/subuid, /etc/subgid). podman-compose supports neither `--wait`
nor profiles. Therefore services are started by name, and the tests poll the API.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.compose.commands import NoEngine
from tests.compose.engine import prepare_bases
from tests.compose.test_containers import NODES, ROOT
from tests.compose.test_engine import BACK_S, SEEN_S, process, until
from tests.compose.test_hard_starts import produce, records

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

PROJECT = "zabka-podman"
CREATE = ("zabka", "topics", "--create", "--topic", "orders", "--partitions", "1", "--replication-factor", "3")


def rootless() -> tuple[str, ...]:
    """Return the command prefix that runs a command as a non-root user. Skip the test if there is no such user."""
    if os.getuid() != 0:
        return ()
    name = os.environ.get("ZABKA_TEST_PODMAN_USER")
    if name is None:
        pytest.skip(
            "rootless Podman takes a user that is not root: ZABKA_TEST_PODMAN_USER names one with subordinate ids"
        )
    user = pwd.getpwnam(name)
    runtime = Path("/run/user", str(user.pw_uid))
    runtime.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chown(runtime, user.pw_uid, user.pw_gid)
    return (
        "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups",
        "env", "-i", f"HOME={user.pw_dir}", f"USER={name}", f"XDG_RUNTIME_DIR={runtime}", f"PATH={os.environ['PATH']}",
    )  # fmt: skip


class Podman:
    """Rootless Podman of one user, and the composition started with it."""

    def __init__(self, user: tuple[str, ...]) -> None:
        self.command = (*user, "podman")
        self._compose = (*user, "podman-compose", "-p", PROJECT, "-f", "compose/compose.yaml")

    def podman(self, *arguments: str) -> str:
        """Run Podman and return its output. The test fails if the command fails."""
        return self._run(*self.command, *arguments)

    def compose(self, *arguments: str) -> str:
        """Run podman-compose. The test fails if the command fails."""
        return self._run(*self._compose, *arguments)

    def up(self) -> None:
        """Build and start all services except Spark's, and wait until the cluster is ready."""
        self.compose("build", "api")
        self.compose("up", "-d", *NODES, "api")
        until(self._serves, BACK_S * 2)

    def _serves(self) -> bool:
        try:
            answer = httpx.get("http://127.0.0.1:8080/readyz", trust_env=False, timeout=5)
        except httpx.HTTPError:
            return False
        return answer.status_code == 200 and len(answer.json()["brokers"]) == 3

    @staticmethod
    def _run(*command: str) -> str:
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def engine() -> Iterator[Podman]:
    if os.environ.get("ZABKA_TEST_COMPOSE") != "1":
        pytest.skip("make test-compose runs these")
    if shutil.which("podman") is None or shutil.which("podman-compose") is None:
        pytest.skip("podman or podman-compose is not installed")
    podman = Podman(rootless())
    try:
        prepare_bases(podman.command, "docker.io/library/")
    except NoEngine as reason:
        pytest.skip(str(reason))
    podman.compose("down", "-v")
    try:
        podman.up()
        yield podman
    finally:
        podman.compose("down", "-v")


@pytest.fixture(scope="module")
def api(engine: Podman) -> Iterator[httpx.Client]:
    token = engine.podman("exec", container("api"), "cat", "/data/token").strip()
    with httpx.Client(
        base_url="http://127.0.0.1:8080/api/v1",
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
        timeout=10,
    ) as client:
        yield client


def container(service: str) -> str:
    return f"{PROJECT}_{service}_1"


def test_clients_outside_the_network_produce_and_consume(engine: Podman, api: httpx.Client) -> None:
    engine.podman("exec", container("api"), *CREATE)
    produce(range(100))
    assert records(100) == list(range(100))


def test_health_check_of_every_container_succeeds(engine: Podman, api: httpx.Client) -> None:
    # Run the health check explicitly, because Podman has no timer for it if the user has no systemd.
    for service in (*NODES, "api"):
        engine.podman("healthcheck", "run", container(service))


@pytest.mark.parametrize("service", ["broker-2", "peer-3"])
def test_killed_container_is_shown_within_three_seconds(engine: Podman, api: httpx.Client, service: str) -> None:
    engine.podman("kill", container(service))
    until(lambda: process(api, service) == "unknown", SEEN_S)
    engine.podman("start", container(service))
    until(lambda: process(api, service) == "running", BACK_S)


def test_disconnected_container_is_shown_within_three_seconds(engine: Podman, api: httpx.Client) -> None:
    network = f"{PROJECT}_default"
    engine.podman("network", "disconnect", network, container("peer-1"))
    try:
        until(lambda: process(api, "peer-1") == "unknown", SEEN_S)
    finally:
        engine.podman("network", "connect", "--alias", "peer-1", network, container("peer-1"))
    until(lambda: process(api, "peer-1") == "running", BACK_S)


def test_stopped_container_exits_with_code_0(engine: Podman, api: httpx.Client) -> None:
    engine.podman("stop", container("broker-3"))
    assert engine.podman("inspect", "--format", "{{.State.ExitCode}}", container("broker-3")).strip() == "0"
    engine.podman("start", container("broker-3"))


def test_data_survives_container_recreation(engine: Podman, api: httpx.Client) -> None:
    engine.compose("down")
    engine.up()
    assert records(100) == list(range(100))
