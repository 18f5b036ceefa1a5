# Needs Python 3.11 or newer, make and a package index; everything else is set up in .venv.

SCENARIO ?= approval
VARIANT ?=

# With no PATH at all, make finds nothing.
export PATH := $(if $(PATH),$(PATH),/usr/local/bin:/usr/bin:/bin)

# The first Python that is new enough and can make a virtual environment.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python3.14 python; do \
		$$name -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
			&& command -v $$name && break; \
	done)

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --require-hashes -r
SELF := $(PIP) install --quiet --no-deps --no-build-isolation -e .

# Two workers for two cores; whoever is idle takes the next test.
PYTEST := $(BIN)/python -m pytest
QUICK := $(PYTEST) -n 2 --dist worksteal -m "not slow and not browser"
# These need the machine for themselves.
SLOW := $(PYTEST) -m "slow or browser"

.DEFAULT_GOAL := help
.PHONY: help demo dev test test-all lint types format bench lock clean
.DELETE_ON_ERROR:

help: ## show the targets
	@sed -n 's/^\([a-z.-]*\):.*## /\1\t/p' Makefile | expand -t 12

demo: .venv/demo ## run a scenario: SCENARIO=approval VARIANT=
	@$(BIN)/python starter.py demo $(SCENARIO) $(if $(VARIANT),--variant $(VARIANT))

dev: .venv/demo ## keep an embedded server (UI on port 8233) and a worker until Ctrl-C
	@$(BIN)/python starter.py dev

test: lint types ## lint, types and the tests that are quick
	$(QUICK)

test-all: lint types ## everything
	$(QUICK)
	$(SLOW)

lint: .venv/dev ## check format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/dev ## check types, tests included
	$(BIN)/mypy .

format: .venv/dev ## format, and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/bench ## the quick benchmarks
	$(BIN)/python -m benchmarks quick

.venv/pyvenv.cfg:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer with venv was found; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "setting up .venv with $(PYTHON)"
	@$(PYTHON) -m venv --clear .venv

# A stamp each: the demo does not wait for the tools of the tests.
.venv/demo: requirements-demo.lock pyproject.toml | .venv/pyvenv.cfg
	@$(INSTALL) $<
	@$(SELF)
	@touch $@

.venv/dev: requirements-dev.lock pyproject.toml | .venv/pyvenv.cfg
	@$(INSTALL) $<
	@$(SELF)
	@touch $@

.venv/bench: requirements-bench.lock pyproject.toml | .venv/pyvenv.cfg
	@$(INSTALL) $<
	@$(SELF)
	@touch $@

# The base alone is for the worker's image. All agree with the versions that the tests run with.
COMPILE = .venv-lock/bin/uv pip compile --no-config --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --annotation-style line --custom-compile-command "make lock" \
	pyproject.toml --group build

lock: ## choose the newest versions that pyproject.toml allows
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9'
	$(COMPILE) --extra demo --extra dev -o requirements-dev.lock
	$(COMPILE) --extra demo -c requirements-dev.lock -o requirements-demo.lock
	$(COMPILE) --extra demo --extra bench -c requirements-dev.lock -o requirements-bench.lock
	$(COMPILE) -c requirements-dev.lock -o requirements.lock

clean: ## remove what the other targets made, the dev database included
	rm -rf .venv .venv-lock .signoff .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
