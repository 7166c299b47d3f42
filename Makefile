# zabka: every target sets up what it needs first; a second run is quick.
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
PEERS ?=
BROKERS ?=
ARGS ?=
export PEERS BROKERS

.PHONY: setup up compose-up compose-down test-compose test lint sweep injected-bugs search-table explore bench bench-kafka bench-transactions bench-start bench-page histories kafka-histories soak failover idle test-long test-floors test-interop test-kazoo mutants fuzz docs dist reference clean

setup:
	@PYTHON="$(PYTHON)" sh scripts/setup/setup.sh

up: setup
	@exec $(BIN)/zabka up $(if $(PEERS),--peers $(PEERS)) $(if $(BROKERS),--brokers $(BROKERS)) $(ARGS)

compose-up:
	@docker compose -f compose/compose.yaml up --build --wait $(ARGS) && echo "zabka is ready: http://127.0.0.1:8080"

compose-down:
	@docker compose -f compose/compose.yaml --profile spark down $(ARGS)

test-compose: setup
	@ZABKA_TEST_COMPOSE=1 $(BIN)/python -m pytest -m "long or not long" tests/compose $(ARGS)

test: setup
	@$(BIN)/python -m tests.suite $(ARGS)

lint: setup
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/python -m scripts.words && sh scripts/setup/check_page.sh

bench: setup
	@$(BIN)/python -m bench ensemble $(if $(BASE),--base $(BASE)) $(ARGS)

bench-kafka: setup
	@$(BIN)/python -m bench kafka $(ARGS)

bench-transactions: setup
	@$(BIN)/python -m bench transactions $(ARGS)

bench-start: setup
	@$(BIN)/python -m bench start $(ARGS)

bench-page: setup
	@$(BIN)/python -m bench page $(ARGS)

failover idle soak: setup
	@$(BIN)/python -m bench $@ $(ARGS)

histories: setup
	@$(BIN)/python -m bench histories zookeeper $(ARGS)

kafka-histories: setup
	@$(BIN)/python -m bench histories kafka $(ARGS)

sweep: setup
	@$(BIN)/zabka simulate $(if $(ARGS),$(ARGS),--seeds 0-999 --scenario ensemble)

explore: setup
	@$(BIN)/zabka explore $(ARGS)

injected-bugs: setup
	@$(BIN)/python -m tests.simulation.injected_table $(ARGS)

search-table: setup
	@$(BIN)/python -m tests.simulation.search_table $(ARGS)

test-long: setup
	@$(BIN)/python -m tests.long_run $(ARGS)

test-floors:
	@PYTHON="$(PYTHON)" sh scripts/setup/floors.sh

test-interop: setup
	@$(BIN)/python -m pytest -m "long or not long" tests/interop $(ARGS)

test-kazoo: setup
	@$(BIN)/python tests/interop/kazoo_suite/run.py $(ARGS)

mutants: setup
	@$(BIN)/python -m tests.mutation.run $(if $(ARGS),$(ARGS),--sample 200 --seed 1)

fuzz: setup
	@$(BIN)/python -m tests.fuzz.run $(ARGS)

docs: setup
	@PYTHON="$(PYTHON)" sh scripts/setup/docs.sh

dist: setup
	@PYTHON="$(PYTHON)" sh scripts/setup/dist.sh

reference: setup
	@$(BIN)/python -m scripts.reference

clean:
	rm -rf $(VENV) node_modules docs/site/node_modules build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .mutants
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
