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
"""ZooKeeper version that is reported to the test suite."""


def main(arguments: list[str]) -> int:
    """Run pytest with our plugins and kazoo's tests, and return its exit code."""
    environment = dict(os.environ, PYTHONPATH=f"{HERE}{os.pathsep}{ROOT}", ZOOKEEPER_VERSION=VERSION)
    # If CI is set, kazoo's suite requires exactly the Java server that its own CI pipeline installs.
    environment.pop("CI", None)
    # Disable other pytest plugins. One of kazoo's tests counts objects by the name of their class, and a plugin could
    # have a class with that name.
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
