#!/bin/sh
# Runs a quick part of the suite with the oldest version of each requirement that pyproject.toml accepts: first a plain
# installation with some extras, then the dashboard, which needs a newer web framework.
set -eu
PYTHON=${PYTHON:-$(sh scripts/setup/choose_python.sh)}
TOOLS="pytest==8.3.0 pytest-timeout==2.4.0 pytest-xdist==3.8.0 hypothesis==6.170.17 httpx==0.28.1"
# The newest click that works with Typer's oldest version.
TOOLS="$TOOLS click<8.2"
run() { # name of the environment, its extras separated by commas, pytest's arguments
  name=$1 extras=$2
  shift 2
  environment=build/floors/$name
  if [ ! -e "$environment/.set-up" ] || [ pyproject.toml -nt "$environment/.set-up" ] || [ scripts/setup/floors.sh -nt "$environment/.set-up" ]; then
    echo "Setting up $environment"
    rm -rf "$environment"
    "$PYTHON" -m venv "$environment"
    # shellcheck disable=SC2046,SC2086
    "$environment/bin/python" scripts/setup/floors.py $(echo "$extras" | tr ',' ' ') >"$environment/floors.txt"
    # shellcheck disable=SC2086
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --constraint "$environment/floors.txt" \
      --editable ".[$extras]" $TOOLS
    touch "$environment/.set-up"
  fi
  "$environment/bin/python" -m pytest -q --numprocesses=2 --dist=loadfile "$@"
}
run core cli,kazoo,tls,uvloop \
  tests/testing/test_product.py tests/kafka/wire tests/kafka/test_compression.py tests/ensemble/client tests/ensemble/txnlog \
  tests/api/test_agent_http.py tests/api/test_collector.py tests/api/test_http_call.py \
  tests/api/test_losses.py tests/api/test_run_messages.py tests/api/test_settings.py tests/cli/test_command_group.py
run dashboard cli,dashboard tests/api/test_stream_snapshot.py
