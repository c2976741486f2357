# Every target sets up what it needs: a fresh clone, Python 3.11+ and `make demo` are enough.
# `make` alone lists the targets.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
MINUTES ?= 30
NODES   ?= 1
PYTEST := $(BIN)/python -m pytest --numprocesses=2
COMPILED := .make/compiled

.DEFAULT_GOAL := help
.PHONY: help setup demo test check static serve bench sim soak docs kcat java compiler clean
.PHONY: wheel-compiled test-compiled

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .make/setup ## create .venv with everything in it

demo: .make/setup java ## see it work: a kill -9, a failover of three nodes, a pipeline on Spark
	@$(BIN)/tidelog demo

serve: .make/setup ## run a node on 127.0.0.1:9092, data in ./data
	@$(BIN)/tidelog serve --data-dir data

bench: .make/setup ## measure throughput and latency on this machine
	@$(BIN)/tidelog bench

sim: .make/setup ## run simulated nodes with faults
	@$(BIN)/tidelog sim run

soak: .make/setup ## see whether nodes stay as large as they are; MINUTES=30 NODES=1
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) --nodes $(NODES)

docs: .make/setup ## write docs/settings.md from the settings tables
	@$(BIN)/tidelog config list --markdown >docs/settings.md

check: static ## lint, types, imports, house rules, unit tests: under 3 minutes
	@echo "== house rules and unit tests"
	@$(PYTEST) --dist=worksteal tests/tidy tests/unit

test: static kcat java ## everything, real processes and real clients included
	@echo "== all tests but Spark's"
	@$(PYTEST) --dist=worksteal --ignore=tests/spark --ignore=tests/compiled tests
	@echo "== Spark's"
	@$(PYTEST) --dist=loadfile tests/spark

wheel-compiled: .make/setup compiler ## build the optional compiled wheel into dist/; needs a C compiler
	@echo "== compiling: a minute or two"
	@HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

test-compiled: wheel-compiled ## the same tests and seeds on the compiled wheel, in an environment of its own
	@scripts/compiled-environment $(COMPILED) $(BIN)/python dist
	@echo "== what is the same in both builds, unit tests, properties, scenarios, canaries"
	@$(COMPILED)/bin/python -m pytest --numprocesses=2 --dist=worksteal -m 'not interpreted' \
	  tests/compiled tests/unit tests/properties tests/scenarios tests/simulation/test_canary.py
	@echo "== the simulator's seeds"
	@$(COMPILED)/bin/tidelog sim run --seeds 100
	@$(COMPILED)/bin/tidelog sim run --seeds 100 --nodes 0

static: .make/setup
	@echo "== lint, format, types, imports"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted: run $(BIN)/ruff format ." >&2; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/lint-imports >.make/imports 2>&1 || { cat .make/imports >&2; exit 1; }

kcat:
	@command -v kcat >/dev/null || scripts/apt-install kcat

# Spark's only need beyond pip. Which Java will do is known to the code; what it says is not shown
# where the installation goes on anyway.
java: .make/setup
	@$(BIN)/python -m tidelog.spark.java 2>/dev/null || scripts/apt-install openjdk-17-jre-headless

compiler:
	@command -v $${CC:-cc} >/dev/null || scripts/apt-install gcc libc6-dev
	@$(BIN)/python -c 'import sys, sysconfig; from pathlib import Path; \
	  sys.exit(not Path(sysconfig.get_path("include"), "Python.h").exists())' || scripts/apt-install python3-dev

clean: ## remove .venv and all caches (not your data)
	rm -rf $(VENV) .make .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Bytecode is compiled here because PYTHONDONTWRITEBYTECODE may be set, and a node that has to
# compile itself at each start is several times slower to be ready.
.make/setup: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Tidelog needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || scripts/apt-install python3-venv
	@test -x $(BIN)/python || { echo "== creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "== installing tidelog and its development tools"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@$(BIN)/python -m compileall -qq $(VENV)/lib src || true
	@mkdir -p .make && touch $@
