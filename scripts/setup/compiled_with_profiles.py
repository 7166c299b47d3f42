"""Checks whether this Python was compiled with profile-guided optimization.

choose_python.sh runs this module as a program, which exits with code 0 if that is the case.
"""

from __future__ import annotations

import sys
import sysconfig


def compiled_with_profiles() -> bool:
    """Return whether this Python comes from the distribution or was configured with --enable-optimizations.

    pyenv sets this option only on request.
    """
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    return sys.base_prefix == "/usr" or "--enable-optimizations" in options


if __name__ == "__main__":
    sys.exit(not compiled_with_profiles())
