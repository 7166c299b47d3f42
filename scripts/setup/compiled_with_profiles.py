"""Check whether this Python was compiled with profiles.  As a program (choose_python.sh): exit code 0 if it was."""

from __future__ import annotations

import sys
import sysconfig


def compiled_with_profiles() -> bool:
    """Return whether it is a distribution's Python, or one configured with profiles (pyenv's only on request)."""
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    return sys.base_prefix == "/usr" or "--enable-optimizations" in options


if __name__ == "__main__":
    sys.exit(not compiled_with_profiles())
