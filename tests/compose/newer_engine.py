"""Container engine of a newer Debian, for systems whose own engine is too old.

Its packages are unpacked into a temporary directory. They are not installed, and apt's package lists stay unchanged.
The engine runs containers with this system's runc and iptables.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.compose.commands import NoEngine, must, try_command

SUITE = "trixie"
PACKAGES = ("docker.io", "docker-cli", "docker-compose", "docker-buildx", "containerd")
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
MAJOR_MIN = 25
"""Oldest major version of Docker whose health checks support `start_interval`."""


def old_engine(*version: str) -> str:
    """Run a command that prints the engine's version. Return why that version is too old, or an empty string."""
    works, output = try_command(*version)
    digits = "".join(c if c.isdigit() else " " for c in output).split()
    if works and digits and int(digits[0]) >= MAJOR_MIN:
        return ""
    return f"Docker Engine {MAJOR_MIN} or newer is wanted, and here is: {output}"


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    """Set these environment variables for the duration of the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def newer_engine() -> Iterator[None]:
    """Put the newer engine's programs first in PATH. Raises NoEngine."""
    with tempfile.TemporaryDirectory(prefix="zabka-newer-") as place:
        _unpack(Path(place))
        root = Path(place, "root", "usr")
        (Path(place) / "cli-plugins").symlink_to(root / "libexec" / "docker" / "cli-plugins")
        path = f"{root}/sbin:{root}/bin:{os.environ['PATH']}"
        with environment(PATH=path, DOCKER_CONFIG=place):
            yield


def _unpack(place: Path) -> None:
    # Use this Debian suite, because its packages are built from the same sources as this machine's.
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Created-By: Packages"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    mirrors = [line for line in done.stdout.splitlines() if line.rstrip("/").endswith("/debian")]
    if not mirrors:
        raise NoEngine("apt knows of no mirror of Debian's packages here")
    sources = place / "sources.list"
    sources.write_text(f"deb [signed-by={KEYS}] {mirrors[0]} {SUITE} main\n")
    (place / "lists" / "partial").mkdir(parents=True)
    options = ("-qq", "-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-",
               "-o", f"Dir::State::lists={place}/lists")  # fmt: skip
    must("apt-get", *options, "update")
    must("apt-get", *options, "download", *PACKAGES, directory=place)
    for package in sorted(place.glob("*.deb")):
        must("dpkg", "-x", str(package), str(place / "root"))
