PYTHON ?= python3
BIN    := .venv/bin
PINS   := requirements.txt requirements-build.txt requirements-dev.txt bench/peers/requirements.txt
LOCKS  := $(PINS) console/package-lock.json clients/package-lock.json
PIP     = $(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check -q
# A lock names everything. Left to look for more, pip before 23.3 takes the newest release of what a package wants with
# an extra (procrastinate: psycopg[pool]), and refuses it for not being in the lock.
INSTALL = install --no-deps --require-hashes

.PHONY: setup console run test check crash siege bench bench-peers package lock clean

setup: .venv/.ready

.venv/.ready: pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv --without-pip .venv
	$(PIP) $(INSTALL) -r requirements-dev.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# Into the package, with pip's Node; again only if what it is made of has changed.
console: setup
	$(BIN)/python -m lab.console build

# One of each demonstration task first, and subscriptions to a site of our own, so that there is something to see.
run: console
	$(BIN)/python -m headgate.packs.media.demo $(DEMO) $(BIN)/headgate up headgate.demo --pack media

# Compiled first: the tests start hundreds of processes.
test: console
	$(BIN)/python -m lab.console test
	$(BIN)/python -m compileall -q src lab tests
	$(BIN)/pytest

check: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m lab.console check
	$(BIN)/python -m lab.audit $(LOCKS)
	@! grep -nE 'https?://|index-url|find-links|file:' $(LOCKS) || { echo 'a lock holds names and hashes only'; exit 1; }
	@for lock in $(PINS); do \
		sum=$$(sha256sum <$$lock) && proof=.venv/.proved-$${sum%% *} || exit; \
		test -e $$proof && continue; \
		echo "does $$lock install?"; \
		$(MISSES_NOTHING) $$lock && $(INSTALLS) $$lock && touch $$proof || exit; \
	done

# uv finds what a lock lacks; pip, a file that is gone or has another hash. Both are asked once for each content.
MISSES_NOTHING = $(BIN)/uv pip install -q --python $(BIN)/python --dry-run --reinstall --require-hashes -r
INSTALLS = $(PIP) $(INSTALL) --dry-run --ignore-installed -r

# Twenty thousand histories with crashes, on both cores; `make crash CRASH="--store postgresql://…"` for PostgreSQL. Then
# a family of ten thousand whose workers are killed, a whole minute of rate limits, shared by four processes, thirty
# workers killed one after the other, twenty faults of a broker, five leaders of a cluster killed, and what a store
# promises behind a pooler (but for wake-ups, which it stops).
crash: setup
	$(BIN)/headgate simulate --seeds 20000 --processes 2 $(CRASH)
	HEADGATE_STORY_CHILDREN=10000 $(BIN)/pytest -n0 tests/stories/test_families.py
	HEADGATE_STORY_SECONDS=60 $(BIN)/pytest -n0 tests/stories/test_rates.py
	HEADGATE_STORY_KILLS=30 $(BIN)/pytest -n0 tests/stories/test_kills.py
	HEADGATE_STORY_BROKER_FAULTS=20 $(BIN)/pytest -n0 -s tests/broker/test_faults.py
	HEADGATE_STORY_NODE_KILLS=5 $(BIN)/pytest -n0 tests/broker/test_cluster.py
	HEADGATE_TEST_POOLER=1 $(BIN)/pytest tests/store --ignore tests/store/test_wakes.py

# Attacks on a server of its own, on this machine alone: what each costs, and what a neighbour notices. Two minutes.
siege: setup
	$(BIN)/python -m lab.siege

bench: setup
	$(BIN)/python -m bench $(BENCH)
	$(BIN)/python -m bench.http $(BENCH)
	$(BIN)/python -m bench.lists $(BENCH)
	$(BIN)/python -m bench.console $(BENCH)
	$(BIN)/python -m bench.callbacks $(BENCH)
	$(BIN)/python -m bench.periodic $(BENCH)
	$(BIN)/python -m bench.history $(BENCH)
	$(BIN)/python -m bench.media $(BENCH)

# The peers live in an environment of their own; `make bench-peers BENCH=--quick` tells whether they run at all.
bench-peers: setup .venv-peers/.ready
	$(BIN)/python -m bench.peers $(BENCH)

.venv-peers/.ready: bench/peers/requirements.txt
	$(PYTHON) -m venv --without-pip .venv-peers
	$(PYTHON) -m pip --python .venv-peers/bin/python --disable-pip-version-check -q $(INSTALL) -r $<
	@touch $@

package: console
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist

# Keeps the versions that still fit; `make lock LOCK=--upgrade` takes the newest.
COMPILE = $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-strip-extras --no-emit-index-url --no-emit-find-links $(LOCK)
lock: setup
	$(COMPILE) pyproject.toml -o requirements.txt >/dev/null
	$(COMPILE) pyproject.toml --group dev -c requirements.txt -o requirements-dev.txt >/dev/null
	$(COMPILE) --group build -c requirements-dev.txt -o requirements-build.txt >/dev/null
	$(COMPILE) bench/peers/requirements.in -o bench/peers/requirements.txt >/dev/null
	$(BIN)/python -m lab.console lock

clean:
	rm -rf .venv .venv-peers .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist
	rm -rf console/node_modules clients/node_modules src/headgate/console
	find . -name __pycache__ -prune -exec rm -rf {} +
