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

BIN = .venv/bin

.PHONY: help reproduce demo test lowest check docs format clean environment

help: ## List the targets
	@echo "make <target>, where <target> is one of:"
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | \
	    while IFS='|' read -r name text; do printf '  %-9s %s\n' "$$name" "$$text"; done

reproduce: environment ## Run the paper's experiments and write the report into results/paper
	@$(BIN)/causalbandits reproduce --out results/paper

demo: environment ## Run the example campaign
	@$(BIN)/python examples/email_campaign.py

test: environment ## Run the tests and the examples in the docstrings
	@$(BIN)/python -m pytest -n auto --maxprocesses=4

lowest: environment ## Run the tests with the oldest supported versions of the dependencies
	@eval "$$TEST_LOWEST"

check: environment ## Check format, style, types and the layering of imports
	@echo "== Format (ruff format)"
	@$(BIN)/python -m ruff format --check .
	@echo "== Style (ruff check)"
	@$(BIN)/python -m ruff check .
	@echo "== Types (mypy)"
	@$(BIN)/python -m mypy
	@echo "== Layers (import-linter)"
	@$(BIN)/lint-imports --no-logo

# Not --quiet: that silences the very warnings on which --strict fails.
docs: environment ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

format: environment ## Format the code and fix what can be fixed
	@$(BIN)/python -m ruff check --fix-only .
	@$(BIN)/python -m ruff format .

clean: ## Remove .venv, caches and builds
	@rm -rf .venv .venv-lowest build dist site .coverage htmlcov
	@rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

environment:
	@eval "$$BUILD_ENVIRONMENT"

define BUILD_ENVIRONMENT
set -eu

fail() {
    printf '%s\n' "$$@" >&2
    exit 1
}

# Run Python code quietly: version managers leave commands that exist and only fail.
ask() {
    "$$1" -c "$$2" 2>/dev/null </dev/null || :
}

usable='import sys, venv, ensurepip; assert sys.version_info >= (3, 11)'
base="$$usable; print(getattr(sys, '_base_executable', '') or sys.executable)"
release='import sys; print("%d.%d" % sys.version_info[:2])'
new_release='import sys; assert sys.version_info >= (3, 11); print("%d.%d" % sys.version_info[:2])'
full_version='import platform; print(platform.python_version())'
interpreter_hash='import hashlib, os, sys
print(hashlib.sha256(repr((sys.version, os.getcwd())).encode()).hexdigest())'
requirements_hash='import hashlib, pathlib
files = [pathlib.Path(name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
print(hashlib.sha256(b"\0".join(files)).hexdigest())'

explain_missing_ensurepip() {
    fail "Found Python $$2 ($$1), but it cannot create virtual environments: ensurepip is missing." \
        "On Debian and Ubuntu: apt install python$$2-venv" \
        "Or choose another Python: make PYTHON=/path/to/python3 <target>"
}

# 1. Choose a Python.
python=
if [ -n "$${PYTHON:-}" ]; then
    python=$$(ask "$$PYTHON" "$$base")
    if [ -z "$$python" ]; then
        found=$$(ask "$$PYTHON" "$$new_release")
        [ -z "$$found" ] || explain_missing_ensurepip "$$PYTHON" "$$found"
        found=$$(ask "$$PYTHON" "$$release")
        [ -z "$$found" ] || fail "PYTHON=$$PYTHON is Python $$found, but 3.11 or later is needed."
        fail "PYTHON=$$PYTHON is set, but does not run as a Python. Correct it or unset it."
    fi
else
    for candidate in .venv/bin/python python3.13 python3.12 python3.11 python3; do
        python=$$(ask "$$candidate" "$$base")
        [ -z "$$python" ] || break
    done
    if [ -z "$$python" ]; then
        for candidate in python3.13 python3.12 python3.11 python3; do
            found=$$(ask "$$candidate" "$$new_release")
            [ -z "$$found" ] || explain_missing_ensurepip "$$(command -v "$$candidate")" "$$found"
        done
        found=$$(ask python3 "$$release")
        fail "No Python 3.11 or later found (tried python3.13, python3.12, python3.11 and python3$${found:+, which is Python $$found})." \
            "Install one, or say where it is: make PYTHON=/path/to/python3 <target>"
    fi
fi

# 2. Is .venv there, whole, of this Python and of this directory?
interpreter=$$(ask "$$python" "$$interpreter_hash")
requirements=$$(ask "$$python" "$$requirements_hash")
[ -n "$$requirements" ] || fail "Cannot read pyproject.toml and constraints.txt."
stamped_interpreter=
stamped_requirements=
if [ -f .venv/stamp ] && [ "$$(ask .venv/bin/python "import pip; $$interpreter_hash")" = "$$interpreter" ]; then
    { read -r stamped_interpreter && read -r stamped_requirements; } <.venv/stamp || :
fi
if [ "$$stamped_interpreter" = "$$interpreter" ] && [ "$$stamped_requirements" = "$$requirements" ]; then
    exit 0
fi

# 3. Build it. The stamp comes last, so that an interrupted build starts afresh.
echo "Using $$python (Python $$(ask "$$python" "$$full_version"))"
rm -f .venv/stamp
if [ "$$stamped_interpreter" = "$$interpreter" ]; then
    echo "Updating .venv: pyproject.toml or constraints.txt has changed ..."
else
    echo "Creating .venv ..."
    rm -rf .venv
    "$$python" -m venv .venv || fail "Could not create .venv (see above)."
fi
echo "Installing (about a minute) ..."
pip_install() {
    .venv/bin/python -m pip install -qq --no-input --disable-pip-version-check -c constraints.txt "$$@" ||
        fail "The installation failed (see above)."
}
pip_install hatchling editables
pip_install --no-build-isolation -e '.[dev,docs]'
# pgmpy only for the networks in its package, which the tests read as data.
pip_install --no-deps pgmpy
printf '%s\n' "$$interpreter" "$$requirements" >.venv/stamp
endef
export BUILD_ENVIRONMENT

define TEST_LOWEST
set -eu
if .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 13))'; then
    echo "Skipped: the oldest supported versions have no builds for this Python; run it with 3.11 or 3.12."
    exit 0
fi
if ! cat pyproject.toml constraints-lowest.txt | cmp -s - .venv-lowest/stamp; then
    echo "Creating .venv-lowest, with the oldest supported versions (about a minute) ..."
    rm -rf .venv-lowest
    .venv/bin/python -m venv .venv-lowest
    .venv-lowest/bin/python -m pip install -qq --no-input --disable-pip-version-check -c constraints.txt \
        hatchling editables
    .venv-lowest/bin/python -m pip install -qq --no-input --disable-pip-version-check -c constraints-lowest.txt \
        --no-build-isolation -e . pandas pyarrow pytest pytest-xdist hypothesis pyagrum
    .venv-lowest/bin/python -m pip install -qq --no-input --disable-pip-version-check -c constraints-lowest.txt \
        --no-deps pgmpy
    cat pyproject.toml constraints-lowest.txt >.venv-lowest/stamp
fi
.venv-lowest/bin/python -m pytest -n auto --maxprocesses=4
endef
export TEST_LOWEST
