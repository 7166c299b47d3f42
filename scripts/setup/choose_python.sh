#!/bin/sh
# Prints the Python for the virtual environment: the python3 in PATH, or the distribution's of the same version, if the
# former was compiled without profiles (pyenv's default), which makes it a fifth slower.
# usage: choose_python.sh [directory of the distribution's programs]
set -eu
DISTRIBUTION=${1:-/usr/bin}
has_profiles() { "$1" "$(dirname "$0")/compiled_with_profiles.py" 2>/dev/null; }
makes_environments() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

chosen=python3
if ! has_profiles python3; then
  version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || version=none
  own=$DISTRIBUTION/python$version
  if has_profiles "$own" && makes_environments "$own"; then chosen=$own; fi
fi
echo "$chosen"
