# Everything a person types here. Needs git, make and a Python >= 3.11; the rest is installed into .venv on first use.
#   make demo                            the question, streamed live; serves until Ctrl-C
#   make demo ARGS="--once --json"       one question, one line of JSON
#   make test ARGS="-k grammar"          some tests
#   make lock ARGS=--upgrade             newer versions of everything

ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
ORACLES := tests/oracles

# The first interpreter that is new enough and can build an environment (some distributions ship one without ensurepip).
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$p; break; }; done)
UV ?= $(or $(shell command -v uv),$(BIN)/uv)

PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
INSTALL = $(PIP) install --require-hashes -r
# hatchling comes from the locked requirements, so nothing unlocked is fetched to build the package itself.
LINK = $(PIP) install --no-build-isolation --no-deps --editable .
LOCK = $(UV) pip compile pyproject.toml --quiet --universal --generate-hashes --custom-compile-command "make lock" $(ARGS)

# The official JavaScript clients judge our streams. Without node and npm those tests skip, saying so.
NODE := $(and $(shell command -v node),$(shell command -v npm),$(wildcard $(ORACLES)/package-lock.json))

.DEFAULT_GOAL := help
.PHONY: help demo test faults check lint format bench lock setup clean

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */  make \1\t/' | expand -t 18

demo: $(VENV)/.demo ## a supervisor streams two remote agents, in this terminal
	@$(BIN)/python -m anabranch.demo $(ARGS)

test: setup ## every test that this machine has the tools for, but the faults
	$(BIN)/python -m pytest -m "not faults" $(ARGS)

faults: setup ## agents that fail, in each way and at each stage, and the bugs that others had
	$(BIN)/python -m pytest -m faults $(ARGS)

check: lint ## format, lint, types, direction law and the fast tests (under a minute)
	$(BIN)/python -m pytest -q -m "not process and not oracle and not slow and not faults" $(ARGS)

lint: $(VENV)/.dev ## the static half of check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.dev ## rewrite the code in the house format
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## relay lag and CPU per token, beside the bare loops
	$(BIN)/python -m bench $(ARGS)

lock: ## resolve pyproject.toml into requirements/*.txt: versions and hashes, no addresses
	@command -v $(UV) >/dev/null || { echo "make lock needs uv: run 'make setup' or install it (pip install uv)" >&2; exit 1; }
	@mkdir -p requirements
	$(LOCK) --extra demo --extra auth --extra mcp --group dev --output-file requirements/dev.txt
	$(LOCK) --extra demo --extra auth --extra mcp --group build --constraint requirements/dev.txt --output-file requirements/demo.txt

setup: $(VENV)/.dev $(if $(NODE),$(ORACLES)/node_modules/.stamp) ## the development environment
	@$(if $(NODE),,echo "no node with npm, or no $(ORACLES)/package-lock.json: the oracle tests will skip")

clean: ## remove the environment and everything generated
	rm -rf $(VENV) $(ORACLES)/node_modules dist build .coverage htmlcov
	rm -rf .nox .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "anabranch needs Python >= 3.11 with venv and ensurepip on the PATH (on Debian: apt install python3-venv), or: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Two stages in one environment: the demo's packages are a subset of the development ones, at the same versions.
$(VENV)/.demo: requirements/demo.txt pyproject.toml | $(BIN)/python
	@echo "installing what the demo needs into $(VENV) ..."
	@$(INSTALL) requirements/demo.txt
	@$(LINK)
	@touch $@

$(VENV)/.dev: requirements/dev.txt pyproject.toml | $(BIN)/python
	@echo "installing the development environment into $(VENV) ..."
	@$(INSTALL) requirements/dev.txt
	@$(LINK)
	@touch $@ $(VENV)/.demo

$(ORACLES)/node_modules/.stamp: $(ORACLES)/package-lock.json
	npm ci --prefix $(ORACLES) --no-audit --no-fund --loglevel=error
	@touch $@
