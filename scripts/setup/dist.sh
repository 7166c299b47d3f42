#!/bin/sh
# Builds the source distribution and from it the wheel, checks both, and runs docs/examples/recipes with the installed wheel on
# every Python from 3.11 to 3.13 of this machine.  Fails if a check fails or if none of these Pythons is found.
set -eu
PYTHON=${PYTHON:-$(sh scripts/setup/choose_python.sh)}
TOOLS=build/dist-venv
STAMP=$TOOLS/.set-up
PYENV=${PYENV_ROOT:-${HOME:-}/.pyenv}

# Prints the first interpreter of a version that can make virtual environments.
interpreter_of() {
  for candidate in "python$1" "$PYENV"/versions/"$1".*/bin/python; do
    if "$candidate" -c "import ensurepip, sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
}

run_example() { # Python, environment
  rm -rf "$2"
  "$1" -m venv "$2"
  cp -r docs/examples/recipes "$2/example"
  "$2/bin/python" -m pip install --quiet --disable-pip-version-check "$WHEEL" pytest "$2/example"
  (cd "$2/example" && ../bin/python -m pytest -q -p no:cacheprovider)
}

if [ ! -e "$STAMP" ] || [ scripts/setup/dist.sh -nt "$STAMP" ]; then
  echo "Setting up the tools (once):"
  [ -x "$TOOLS/bin/python" ] || "$PYTHON" -m venv "$TOOLS"
  "$TOOLS/bin/python" -m pip install --quiet --disable-pip-version-check build==1.3.0 twine==6.2.0 check-wheel-contents==0.6.3
  touch "$STAMP"
fi

rm -rf dist
"$TOOLS/bin/python" -m build --outdir dist . >build/dist.log 2>&1 || { tail -20 build/dist.log >&2; exit 1; }
WHEEL=$(echo "$PWD"/dist/*.whl)
"$TOOLS/bin/python" -m twine check --strict dist/*
"$TOOLS/bin/check-wheel-contents" "$WHEEL"
TOP=$("$TOOLS/bin/python" -m zipfile -l "$WHEEL" | awk 'NR > 1 { sub("/.*", "", $1); print $1 }' | sort -u | tr '\n' ' ')
case $TOP in
  "zabka zabka-"*".dist-info ") echo "the wheel's top level is $TOP" ;;
  *) echo "the wheel's top level is $TOP, not zabka and its dist-info" >&2; exit 1 ;;
esac

passed= missing=
for version in 3.11 3.12 3.13; do
  python=$(interpreter_of "$version")
  if [ -z "$python" ]; then
    missing="$missing $version"
    continue
  fi
  echo "docs/examples/recipes on Python $version ($python):"
  run_example "$python" "build/dist-$version"
  passed="$passed $version"
done
if [ -n "$missing" ]; then
  echo "not tried, because no Python with ensurepip and venv was found:$missing" >&2
fi
if [ -z "$passed" ]; then
  exit 1
fi
(cd dist && wc -c -- *)
echo "docs/examples/recipes passed on Python$passed"
