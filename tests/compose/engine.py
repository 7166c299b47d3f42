"""A container engine for the tests: the running one, or one that is started for the tests and stopped after them.

Starting one requires root and an installed dockerd. If ZABKA_INSTALL_ENGINE=1 or CI is set, Debian's dockerd is
installed. If Debian's version is too old, a newer Debian's engine is unpacked for the duration of the tests
(`newer_engine`). If no image registry is reachable, base images are made with debootstrap from the distribution's
packages, and from this machine's Node.js. They suffice to build and run the project's images, but differ from the
registry's images.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.compose.commands import NoEngine, must, try_command
from tests.compose.newer_engine import environment, newer_engine, old_engine
from zabka.compose.image import dockerfile

START_S = 60.0
PACKAGES = ("docker.io", "iptables", "debootstrap")
SUITE = "bookworm"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"


@contextmanager
def engine() -> Iterator[None]:
    """Provide an engine that `docker` can reach, with Compose and the base images. Raises NoEngine."""
    with ExitStack() as ends:
        if not try_command("docker", "info")[0]:
            _install()
            if old_engine("dockerd", "--version") or not try_command("docker", "compose", "version")[0]:
                ends.enter_context(newer_engine())
            ends.enter_context(_started())
        _prepare()
        yield


def _install() -> None:
    usable = all(shutil.which(program) is not None for program in ("docker", "dockerd", "debootstrap"))
    if usable and not old_engine("dockerd", "--version") and try_command("docker", "compose", "version")[0]:
        return
    allowed = "CI" in os.environ or os.environ.get("ZABKA_INSTALL_ENGINE") == "1"
    if shutil.which("apt-get") is None or os.getuid() != 0 or not allowed:
        raise NoEngine(
            "no container engine runs here, and none may be started: that takes dockerd and root "
            "(as root on Debian, ZABKA_INSTALL_ENGINE=1 installs it)"
        )
    must("apt-get", "update", "-qq")
    must("apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES)


@contextmanager
def _started() -> Iterator[None]:
    """Start a dockerd for the tests with all its files in one directory."""
    if os.getuid() != 0:
        raise NoEngine("no container engine runs here, and starting one takes root")
    with tempfile.TemporaryDirectory(prefix="zabka-engine-", ignore_cleanup_errors=True) as place:
        address = f"unix://{place}/docker.sock"
        with Path(place, "log").open("wb") as log:
            daemon = subprocess.Popen(
                ["dockerd", "--data-root", f"{place}/data", "--exec-root", f"{place}/exec",
                 "--pidfile", f"{place}/pid", "--host", address], stdout=log, stderr=log,
            )  # fmt: skip
        try:
            with environment(DOCKER_HOST=address):
                _await(daemon, Path(place, "log"))
                yield
        finally:
            daemon.terminate()
            daemon.wait(60)


def _await(daemon: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not try_command("docker", "info")[0]:
        if daemon.poll() is not None or time.monotonic() > deadline:
            output = log.read_text(errors="replace").strip().splitlines()
            raise NoEngine(f"dockerd does not come up here: {output[-1] if output else 'it prints nothing'}")
        time.sleep(0.2)


def _prepare() -> None:
    if reason := old_engine("docker", "version", "--format", "{{.Server.Version}}"):
        raise NoEngine(reason)
    works, output = try_command("docker", "compose", "version")
    if not works:
        raise NoEngine(f"docker compose version: {output}")
    prepare_bases(("docker",))


def prepare_bases(engine: Sequence[str], registry: str = "") -> None:
    """Pull the base images, or make them, for the engine that the command `engine` controls. Raises NoEngine."""
    named = (dockerfile().partition(f"ARG {each}=")[2].split()[0] for each in ("PYTHON_IMAGE", "NODE_IMAGE"))
    python, node = (None if _is_there(engine, image) else image for image in (f"{registry}{each}" for each in named))
    if python or node:
        _make_bases(engine, python, node)


def _is_there(engine: Sequence[str], image: str) -> bool:
    return try_command(*engine, "image", "inspect", image)[0] or try_command(*engine, "pull", image, timeout_s=600)[0]


def _make_bases(engine: Sequence[str], python: str | None, node: str | None) -> None:
    """Make the base images with these names from a local root file system."""
    if shutil.which("debootstrap") is None:
        raise NoEngine(f"the base image {python or node} is neither here nor reachable, nor is debootstrap installed")
    with tempfile.TemporaryDirectory(prefix="zabka-base-") as place:
        # Let other users read the directory: a rootless engine does not run as this user.
        Path(place).chmod(0o755)
        root = Path(place, "root")
        packages = "python3,python3-venv,ca-certificates,libstdc++6"
        must("debootstrap", "--variant=minbase", f"--include={packages}", SUITE, str(root), timeout_s=1200)
        if Path("/", CERTIFICATES).is_file():
            # Trust the certificates of this machine's HTTPS proxy, if it needs one to reach the registries.
            shutil.copyfile(Path("/", CERTIFICATES), root / CERTIFICATES)
        (root / "etc" / "pip.conf").write_text(f"[global]\ncert = /{CERTIFICATES}\n")
        for directory in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man"):
            shutil.rmtree(root / directory)
            (root / directory).mkdir()
        if python is not None:
            _import(engine, root, python)
        if node is not None:
            _add_node(root)
            _import(engine, root, node)


def _import(engine: Sequence[str], root: Path, image: str) -> None:
    packed = root.with_suffix(".tar")
    must("tar", "-C", str(root), "-cf", str(packed), ".")
    must(*engine, "import", "--change", f"ENV NODE_EXTRA_CA_CERTS=/{CERTIFICATES}", str(packed), image)
    packed.unlink()


def _add_node(root: Path) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NoEngine("the base image for the page's libraries is not reachable, and there is no node here")
    modules = Path(npm).resolve().parents[1]
    shutil.copy(Path(node).resolve(), root / "usr" / "bin" / "node")
    shutil.copytree(modules, root / "usr" / "lib" / "node_modules" / "npm", symlinks=True)
    (root / "usr" / "bin" / "npm").symlink_to("../lib/node_modules/npm/bin/npm-cli.js")
