#!/bin/sh
# Prints the Python to build the virtual environment with: the python3 in PATH; or, where that was compiled without
# profiles (as pyenv does unless told) and is a sixth slower for it, the distribution's of the same version.
# usage: choose_python.sh [directory of the distribution's programs]
set -eu
DISTRIBUTION=${1:-/usr/bin}
has_profiles() {
  "$1" -c 'import sys, sysconfig
options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
sys.exit(sys.base_prefix != "/usr" and "--enable-optimizations" not in options)' 2>/dev/null
}
makes_environments() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

chosen=python3
if ! has_profiles python3; then
  version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || version=none
  own=$DISTRIBUTION/python$version
  if has_profiles "$own" && makes_environments "$own"; then chosen=$own; fi
fi
echo "$chosen"
