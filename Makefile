# Everything a developer types. `make demo` and `make test` do all the set-up that they need.

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
# Tests on the real Slurm mostly wait; two at a time keep two cores busy without disturbing their timing.
WORKERS ?= 2
# Passed on to pytest: make test PYTEST="-k preemption".
PYTEST  ?=

.PHONY: help venv demo test test-docker test-plugin cluster-up cluster-down check format bench clean

help:
	@echo 'make demo          train on 2 nodes of a small Slurm, be preempted, go on; installs what is missing'
	@echo 'make test          every test, those on the real Slurm included; installs what is missing'
	@echo 'make test-docker   the tests of the cluster of containers, and on it; starts it where it is not there'
	@echo 'make test-plugin   every test of the plugin on the embedded Slurm; `make test` runs the quick ones'
	@echo 'make cluster-up    a Slurm of 4 nodes with accounting, in containers: docs/cluster.md'
	@echo 'make cluster-down  end it, and remove all of it but the image and the shared folder'
	@echo 'make venv          $(VENV) with everything for development'
	@echo 'make check         ruff, mypy, import-linter, shellcheck'
	@echo 'make format        let ruff put the sources in order'
	@echo 'make bench         the benchmarks; results under benchmarks/results'
	@echo 'make clean         remove what the above have made in this folder'

venv: $(VENV)/.complete

$(VENV)/.complete: setup.cfg pyproject.toml requirements-test.txt scripts/make-venv
	scripts/make-venv $(PYTHON) $(VENV)

# Without Slurm the demo still runs, and says what it then can't show.
demo: venv
	@scripts/install-packages --if-possible slurm
	$(BIN)/slurm-resilience demo

test: venv
	@scripts/install-packages slurm test spank
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --slurm=require $(PYTEST)

# The engine goes on running: scripts/docker-engine stop ends one that was started here, and removes its images.
test-docker: venv
	@scripts/install-packages docker
	scripts/docker-engine start
	scripts/cluster build
	$(BIN)/python -m pytest tests/integration tests/docker --slurm=docker $(PYTEST)

test-plugin: venv
	@scripts/install-packages slurm spank
	$(BIN)/python -m pytest tests/integration --slurm=embedded -k spank $(PYTEST)

cluster-up:
	@scripts/install-packages docker
	scripts/docker-engine start
	scripts/cluster up

cluster-down:
	scripts/cluster down

check: venv
	@scripts/install-packages check
	scripts/check $(BIN)

format: venv
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: venv
	@scripts/install-packages slurm
	scripts/bench $(BIN)

clean:
	rm -rf $(VENV) build dist .demo htmlcov .coverage .coverage.* benchmarks/results
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache *.egg-info
	find slurm_resilience tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
