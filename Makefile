PYTHON ?= python3
BIN    := .venv/bin
LOCKS  := requirements.txt requirements-dev.txt bench/peers/requirements.txt
PIP     = $(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check -q

.PHONY: setup run test check crash bench bench-peers package lock clean

setup: .venv/.ready

.venv/.ready: pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv --without-pip .venv
	$(PIP) install --require-hashes -r requirements-dev.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# One of each demonstration task first, so that there is something to see.
run: setup
	$(BIN)/headgate submit -m headgate.demo demo
	$(BIN)/headgate up headgate.demo

test: setup
	$(BIN)/pytest

check: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	@! grep -nE 'https?://|index-url|find-links|file:' $(LOCKS) || { echo 'a lock holds names and hashes only'; exit 1; }

# Twenty thousand histories with crashes, on both cores; `make crash CRASH="--store postgresql://…"` for PostgreSQL. Then
# a whole minute of rate limits, shared by four processes.
crash: setup
	$(BIN)/headgate simulate --seeds 20000 --processes 2 $(CRASH)
	HEADGATE_STORY_SECONDS=60 $(BIN)/pytest -n0 tests/stories/test_rates.py

bench: setup
	$(BIN)/python -m bench $(BENCH)
	$(BIN)/python -m bench.http $(BENCH)

# The peers live in an environment of their own; `make bench-peers BENCH=--quick` tells whether they run at all.
bench-peers: setup .venv-peers/.ready
	$(BIN)/python -m bench.peers $(BENCH)

.venv-peers/.ready: bench/peers/requirements.txt
	$(PYTHON) -m venv --without-pip .venv-peers
	$(PYTHON) -m pip --python .venv-peers/bin/python --disable-pip-version-check -q install --require-hashes -r $<
	@touch $@

package: setup
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist

# Keeps the versions that still fit; `make lock LOCK=--upgrade` takes the newest.
COMPILE = $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links $(LOCK)
lock: setup
	$(COMPILE) pyproject.toml -o requirements.txt >/dev/null
	$(COMPILE) pyproject.toml --group dev -c requirements.txt -o requirements-dev.txt >/dev/null
	$(COMPILE) bench/peers/requirements.in -o bench/peers/requirements.txt >/dev/null

clean:
	rm -rf .venv .venv-peers .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist
	find . -name __pycache__ -prune -exec rm -rf {} +
