#!/bin/sh
# Checks the types of the page's modules, which are written as JSDoc.  Only developers need TypeScript and axe-core (for
# the tests of accessibility), so they are installed here, if they are missing, and not by the set-up.
set -eu
if [ ! -x node_modules/.bin/tsc ] || [ ! -e node_modules/axe-core ]; then
  if command -v npm >/dev/null 2>&1; then
    NPM=npm
  else
    NPM=".venv/bin/python scripts/setup/npm.py"
  fi
  $NPM ci --include=dev --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
fi
if command -v node >/dev/null 2>&1; then
  exec node node_modules/typescript/bin/tsc --project jsconfig.json
fi
exec .venv/bin/python scripts/setup/npm.py exec --no -- tsc --project jsconfig.json
