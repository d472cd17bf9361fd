PYTHON ?= python3
BIN    := .venv/bin
LOCKS  := requirements.txt requirements-dev.txt
PIP     = $(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check -q

.PHONY: setup test check bench lock clean

setup: .venv/.ready

.venv/.ready: pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv --without-pip .venv
	$(PIP) install --require-hashes -r requirements-dev.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

test: setup
	$(BIN)/pytest

check: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	@! grep -nE 'https?://|index-url|find-links|file:' $(LOCKS) || { echo 'a lock holds names and hashes only'; exit 1; }

bench: setup
	$(BIN)/python -m bench

# Keeps the versions that still fit; `make lock LOCK=--upgrade` takes the newest.
COMPILE = $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links $(LOCK) pyproject.toml
lock: setup
	$(COMPILE) -o requirements.txt >/dev/null
	$(COMPILE) --group dev -c requirements.txt -o requirements-dev.txt >/dev/null

clean:
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist
	find . -name __pycache__ -prune -exec rm -rf {} +
