#!/bin/sh
# Builds the source distribution and from it the wheel, checks both, and runs docs/example with the installed wheel on
# every Python from 3.11 to 3.13 that this machine has.
set -eu
PYTHON=${PYTHON:-$(sh scripts/setup/choose_python.sh)}
TOOLS=build/dist-venv
STAMP=$TOOLS/.set-up
if [ ! -e "$STAMP" ] || [ scripts/setup/dist.sh -nt "$STAMP" ]; then
  echo "Setting up the tools (once):"
  [ -x "$TOOLS/bin/python" ] || "$PYTHON" -m venv "$TOOLS"
  "$TOOLS/bin/python" -m pip install --quiet --disable-pip-version-check build==1.3.0 twine==6.2.0 check-wheel-contents==0.6.3
  touch "$STAMP"
fi
rm -rf dist
"$TOOLS/bin/python" -m build --outdir dist . >build/dist.log 2>&1 || { tail -20 build/dist.log >&2; exit 1; }
"$TOOLS/bin/python" -m twine check --strict dist/*
"$TOOLS/bin/check-wheel-contents" dist/*.whl
WHEEL=$(echo "$PWD"/dist/*.whl)
tried=
for version in 3.11 3.12 3.13; do
  for python in "python$version" "$(pyenv root 2>/dev/null)"/versions/"$version".*/bin/python; do
    command -v "$python" >/dev/null 2>&1 && "$python" -c 'import ensurepip, venv' 2>/dev/null || continue
    environment=build/dist-$version
    rm -rf "$environment"
    "$python" -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "$WHEEL" pytest
    rm -rf "$environment/example"
    cp -r docs/example "$environment/example"
    (cd "$environment/example" && ../bin/python -m pytest -q -p no:cacheprovider)
    tried="$tried $version"
    break
  done
done
[ -n "$tried" ] || { echo "no Python 3.11, 3.12 or 3.13 with venv was found" >&2; exit 1; }
echo "dist/ has $(cd dist && ls | tr '\n' ' '); docs/example passed on Python$tried"
