# All commands of a developer. `make` alone lists them. Requires Python 3.11 or later, and make.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first interpreter of this list that is 3.11 or later creates the virtual environment. PYTHON=... overrides the list.
PYTHONS := python3 python3.14 python3.13 python3.12 python3.11
PYTHON ?= $(shell for name in $(PYTHONS); do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)

# Number of test processes, fastest on two processors. Each process runs whole modules and has its own database.
# Many tests wait for servers to start or stop, so more processes than processors are useful.
TEST_WORKERS ?= 4
# More arguments for pytest: make test ARGS="-k checkout"
ARGS ?=

# Keep compiled modules, even where the environment says otherwise: each test process would compile them again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
INSTALLED := .venv/.installed
GATEWAY_CLIENTS := tests/contract/node_clients/node_modules/.package-lock.json
DOCUMENT_TOOLS := tests/clients/node_modules/.package-lock.json
GENERATORS := .venv/generators/.installed
UV := VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/uv

.PHONY: help
help: ## List all commands
	@echo "The backend of a campus marketplace."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  PORT (8000) and DATA_DIR (.data) set the stack's port and data directory."

.PHONY: run
run: $(INSTALLED) ## Run the complete stack at http://127.0.0.1:8000 until Ctrl-C
	@$(BIN)/python -m sandbox.stack up

.PHONY: demo
demo: $(INSTALLED) ## Play a purchase, then the opening of a store and its first sale
	@$(BIN)/python -m sandbox.demo

.PHONY: test
test: $(INSTALLED) $(if $(shell command -v npm),$(GATEWAY_CLIENTS) $(DOCUMENT_TOOLS)) ## Run all tests (the tests start the servers that they need)
	@# Run modules in the order of tests/conftest.py, not by their number of tests.
	@$(BIN)/pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

.PHONY: test-deep
test-deep: $(INSTALLED) ## Run the tests with many generated cases in full, before a release
	@TEST_DEPTH=deep $(BIN)/pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder -m deep $(ARGS)

# Each seed is a random sequence of orders, payments, refunds and crashes. The same seed repeats the sequence.
SEEDS ?= 0-999

.PHONY: simulate
simulate: $(INSTALLED) ## Simulate random orders and crashes, and check the ledger (SEEDS=0-999, or SEEDS=7)
	@$(BIN)/python -m tests.simulation $(SEEDS)

.PHONY: check
check: $(INSTALLED) ## Check format, lint, types, import rules, migrations against models, commit subjects
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@# By their full names: a renamed test must fail here instead of being left out.
	$(BIN)/pytest -q tests/domain/infra/test_migrations.py::test_revisions_form_a_single_line \
		tests/domain/infra/test_migrations.py::test_models_and_migrations_agree \
		tests/domain/infra/test_migration_locks.py::test_migrations_after_the_baseline_do_not_block \
		tests/structure/test_commits.py::test_subjects_of_commits_follow_the_rule

.PHONY: format
format: $(INSTALLED) ## Format the code and apply lint's automatic fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: clients
clients: $(INSTALLED) $(GENERATORS) $(DOCUMENT_TOOLS) ## Generate three clients from the OpenAPI document, and buy with each (needs npm)
	@test -f $(DOCUMENT_TOOLS) || { echo "Install Node.js 20 or later with npm, connect to the network, and retry." >&2; exit 1; }
	@TEST_DEPTH=deep $(BIN)/pytest tests/functional/test_generated_clients.py \
		tests/functional/test_stack.py::test_client_of_openapi_python_client_plays_a_purchase tests/contract/test_document_lint.py $(ARGS)

.PHONY: bench
bench: $(INSTALLED) ## Measure the service's speed on this machine
	@$(BIN)/python -m bench

.PHONY: status
status: $(INSTALLED) ## Show whether the stack is running, and its processes
	@$(BIN)/python -m sandbox.stack status

.PHONY: reset
reset: $(INSTALLED) ## Delete all state of a stopped stack
	@$(BIN)/python -m sandbox.stack reset

.PHONY: lock
lock: $(INSTALLED) ## Update the lock files from setup.cfg (ARGS=--upgrade for the newest versions)
	$(UV) pip compile --quiet $(ARGS) --generate-hashes --universal --python-version 3.11 \
		requirements/bootstrap.in -o requirements/bootstrap.txt
	$(UV) pip compile --quiet $(ARGS) --generate-hashes --universal --python-version 3.11 \
		setup.cfg -o requirements/production.txt
	$(UV) pip compile --quiet $(ARGS) --generate-hashes --universal --python-version 3.11 \
		--extra tracing setup.cfg -c requirements/production.txt -o requirements/tracing.txt
	$(UV) pip compile --quiet $(ARGS) --generate-hashes --universal --python-version 3.11 \
		requirements/generators.in -o requirements/generators.txt
	$(UV) pip compile --quiet $(ARGS) --generate-hashes --universal --python-version 3.11 \
		--extra embedded --extra development --extra tracing setup.cfg -c requirements/production.txt \
		-o requirements/development.txt

.PHONY: gateway-clients
gateway-clients: $(GATEWAY_CLIENTS) ## Install the gateway's client libraries for Node.js, which some tests run (needs npm)

.PHONY: clean
clean: ## Delete the virtual environment and all caches, but not the stack's state
	rm -rf .venv tests/contract/node_clients/node_modules tests/clients/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip installs uv, and uv installs the other packages much faster. Both check hashes.
$(INSTALLED): requirements/bootstrap.txt requirements/development.txt setup.cfg pyproject.toml Makefile
	@if [ -z "$(PYTHON)" ]; then \
		echo "Python 3.11 or later is required, but was not found among: $(PYTHONS)." >&2; \
		echo "Install Python 3.11, or set its path: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
		exit 1; \
	fi
	@echo "Installing packages in .venv (only after a change of requirements)"
	@$(PYTHON) -m venv .venv || { \
		echo "The virtual environment could not be created. On Debian and Ubuntu: apt install python3-venv" >&2; \
		exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements/bootstrap.txt
	@$(UV) pip sync --quiet --require-hashes requirements/development.txt
	@# The compat mode adds the project's path, so that new packages and type checkers need no reinstallation.
	@$(UV) pip install --quiet --no-deps --no-build-isolation --config-setting editable_mode=compat -e .
	@touch $@

# openapi-generator brings a Java runtime of 140 MB, which only `make clients` needs.
$(GENERATORS): requirements/generators.txt $(INSTALLED)
	@echo "Installing openapi-generator in $(@D)"
	@$(BIN)/uv venv --quiet --clear $(@D)
	@VIRTUAL_ENV=$(CURDIR)/$(@D) $(BIN)/uv pip sync --quiet --require-hashes requirements/generators.txt
	@touch $@

# Without the network, the tests that need these packages are skipped, and fail in a CI.
$(GATEWAY_CLIENTS) $(DOCUMENT_TOOLS): %/node_modules/.package-lock.json: %/package-lock.json
	@cd $* && npm ci --silent --no-audit --no-fund --ignore-scripts && \
		touch node_modules/.package-lock.json || echo "Could not install the packages of $(<D)" >&2
