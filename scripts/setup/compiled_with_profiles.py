"""Was this Python compiled with profiles?  As a program (choose_python.sh): exit code 0 where it was."""

from __future__ import annotations

import sys
import sysconfig


def compiled_with_profiles() -> bool:
    """A distribution's Python is, and one that was configured so; pyenv does it only when told."""
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    return sys.base_prefix == "/usr" or "--enable-optimizations" in options


if __name__ == "__main__":
    sys.exit(not compiled_with_profiles())
