"""Run kazoo's test suite with our peers: `python tests/interop/kazoo_suite/run.py [--shim] [pytest arguments]`.

It runs all tests by default. `--shim` replaces kazoo's client with our KazooClient as far as possible.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
VERSION = "3.9.5"
"""ZooKeeper version that the test suite assumes."""


def main(arguments: list[str]) -> int:
    """Run pytest with our plugins and kazoo's tests, and return its exit code."""
    environment = dict(os.environ, PYTHONPATH=f"{HERE}{os.pathsep}{ROOT}", ZOOKEEPER_VERSION=VERSION)
    # With CI set, the suite requires the exact Java server that its own pipeline installed.
    environment.pop("CI", None)
    # One test counts live objects by the bare name of their class, and a plugin may have a class of that name.
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugins = ["-p", "pytest_timeout", "-p", "kazoo_peers"]
    if "--shim" in arguments:
        arguments.remove("--shim")
        plugins += ["-p", "shim_client"]
    tests = [] if any(argument.startswith("kazoo.tests") for argument in arguments) else ["kazoo.tests"]
    command = [sys.executable, "-m", "pytest", "-c", str(HERE / "pytest.ini"), *plugins, "--pyargs", *tests, *arguments]
    return subprocess.call(command, env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
