# Everything that a developer does here. `make` alone lists it. It takes Python 3.11 or later, and make.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first of these that is 3.11 or later makes the virtual environment; PYTHON=... names another one.
PYTHONS := python3 python3.14 python3.13 python3.12 python3.11
PYTHON ?= $(shell for name in $(PYTHONS); do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)

# Tests run side by side in so many processes, a module in one, each process with a database of its own. Many wait
# for servers to start and to stop: twice as many as processors keep both at work.
TEST_WORKERS ?= 4
# More arguments: make test ARGS="-k checkout"
ARGS ?=

# What was compiled once is kept, wherever this runs: each of the many processes would compile it anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
INSTALLED := .venv/.installed
UV := VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/uv

.PHONY: help
help: ## List what there is
	@echo "The backend of a campus marketplace."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  PORT (8000) and DATA_DIR (.data) choose the stack's port and where it keeps its state."

.PHONY: run
run: $(INSTALLED) ## Run everything on this machine, at http://127.0.0.1:8000, until Ctrl-C
	@$(BIN)/python -m sandbox.stack up

.PHONY: demo
demo: $(INSTALLED) ## Play one purchase, from browsing to money released, and show each step
	@$(BIN)/python -m sandbox.demo

.PHONY: test
test: $(INSTALLED) ## Run all tests, on real servers that they start themselves
	@# In the order of tests/conftest.py, not by how many tests a module has.
	@$(BIN)/pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

.PHONY: test-deep
test-deep: $(INSTALLED) ## Run the tests that try many cases with all of them: before a release
	@TEST_DEPTH=deep $(BIN)/pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder -m deep $(ARGS)

# Each seed is a life of orders, payments, refunds and crashes; the same seed is the same life again.
SEEDS ?= 0-999

.PHONY: simulate
simulate: $(INSTALLED) ## Live lives of orders at random and check their books (SEEDS=0-999, or one to live it again)
	@$(BIN)/python -m tests.simulation $(SEEDS)

.PHONY: check
check: $(INSTALLED) ## Check format, lint, types, directions of imports, migrations against models, commit subjects
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/domain/infra/test_migrations.py tests/domain/infra/test_migration_locks.py -k "one_line or agree or do_not_block"
	$(BIN)/pytest -q tests/structure/test_commits.py -k follow

.PHONY: format
format: $(INSTALLED) ## Format the code, and fix what lint can fix itself
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: bench
bench: $(INSTALLED) ## Measure speed on this machine, beside the floors it is compared with
	@$(BIN)/python -m bench

.PHONY: status
status: $(INSTALLED) ## Tell whether the stack runs, and what it consists of
	@$(BIN)/python -m sandbox.stack status

.PHONY: reset
reset: $(INSTALLED) ## Remove all state of a stack that does not run
	@$(BIN)/python -m sandbox.stack reset

.PHONY: lock
lock: $(INSTALLED) ## Resolve the requirements of setup.cfg again; ARGS=--upgrade takes the newest
	$(UV) pip compile --quiet $(ARGS) --generate-hashes --universal --python-version 3.11 \
		requirements/bootstrap.in -o requirements/bootstrap.txt
	$(UV) pip compile --quiet $(ARGS) --generate-hashes --universal --python-version 3.11 \
		setup.cfg -o requirements/production.txt
	$(UV) pip compile --quiet $(ARGS) --generate-hashes --universal --python-version 3.11 \
		--extra embedded --extra development setup.cfg -c requirements/production.txt \
		-o requirements/development.txt

.PHONY: clean
clean: ## Remove the virtual environment and all caches; the stack's state stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip installs uv, checked by hash; uv installs the rest, checked by hash, in a fraction of the time.
$(INSTALLED): requirements/bootstrap.txt requirements/development.txt setup.cfg pyproject.toml Makefile
	@if [ -z "$(PYTHON)" ]; then \
		echo "This needs Python 3.11 or later; none of these is: $(PYTHONS)." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
		exit 1; \
	fi
	@echo "Setting up .venv (only when the requirements have changed)"
	@$(PYTHON) -m venv .venv || { \
		echo "The virtual environment could not be made. On Debian and Ubuntu: apt install python3-venv" >&2; \
		exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements/bootstrap.txt
	@$(UV) pip sync --quiet --require-hashes requirements/development.txt
	@# As a plain path entry, so that packages added later are found, by type checkers too.
	@$(UV) pip install --quiet --no-deps --no-build-isolation --config-setting editable_mode=compat -e .
	@touch $@
