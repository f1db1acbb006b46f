# Needs only make and Python 3.11 or later: the first target that you run builds .venv,
# and later ones rebuild it only when pyproject.toml, constraints.txt or Python changes.
# To choose the Python yourself: make test PYTHON=/path/to/python3

SHELL = /bin/sh
.DEFAULT_GOAL = help

# Settings of the caller's shell that would leak into .venv.
unexport PYTHONPATH
unexport PYTHONHOME
unexport VIRTUAL_ENV
unexport __PYVENV_LAUNCHER__
unexport PIP_PREFIX
unexport PIP_TARGET
unexport PIP_USER
# Byte code is kept: without it, every process that a test starts compiles the library anew.
unexport PYTHONDONTWRITEBYTECODE

BIN = .venv/bin

.PHONY: help reproduce demo live test lowest check regret release docs format clean environment

help: ## List the targets
	@echo "make <target>, where <target> is one of:"
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | \
	    while IFS='|' read -r name text; do printf '  %-9s %s\n' "$$name" "$$text"; done

reproduce: environment ## Reproduce the paper's experiments and write the report to results/paper
	@$(BIN)/causalbandits reproduce --out results/paper

demo: environment ## Run the example campaign
	@$(BIN)/python examples/email_campaign.py

live: environment ## Run the example campaign as a service with a dashboard, until Ctrl-C
	@$(BIN)/python examples/live_campaign.py

test: environment ## Run the tests and the examples in the docstrings
	@$(BIN)/python -m pytest -n auto --maxprocesses=4

lowest: environment ## Run the tests with the oldest supported versions of the dependencies
	@sh scripts/test-lowest

check: environment ## Check format, style, types, import layers, shell scripts and the Dockerfile
	@echo "== Format (ruff format)"
	@$(BIN)/python -m ruff format --check .
	@echo "== Style (ruff check)"
	@$(BIN)/python -m ruff check .
	@echo "== Types (mypy)"
	@$(BIN)/python -m mypy
	@echo "== Layers (import-linter)"
	@$(BIN)/lint-imports --no-logo
	@echo "== Shell (shellcheck)"
	@$(BIN)/shellcheck scripts/* .ci/run
	@echo "== Dockerfile (hadolint)"
	@if [ -x $(BIN)/hadolint ]; then $(BIN)/hadolint Dockerfile; else echo "skipped: hadolint has no build for this system"; fi

# Not --quiet: that silences the very warnings on which --strict fails.
regret: environment ## Run the regret benchmark (one to two hours) and update its pages
	@$(BIN)/python benchmarks/run.py regret --out results/regret
	@cp results/regret/regret.json results/regret/regret.csv results/regret/regret.md benchmarks/
	@$(BIN)/python docs/tables.py
	@$(BIN)/python docs/pictures.py

release: environment ## Build the wheel and the source distribution into dist/
	@sh scripts/release

docs: environment ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

format: environment ## Format the code and apply automatic fixes
	@$(BIN)/python -m ruff check --fix-only .
	@$(BIN)/python -m ruff format .
	@$(BIN)/python docs/layers.py

clean: ## Remove .venv, caches and builds
	@rm -rf .venv .venv-lowest build dist site .coverage htmlcov
	@rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

environment:
	@sh scripts/environment
