# make demo | make test | make test-all | make test-gpu | make check | make docs
# Each sets up .venv first, and again only when its inputs change.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
READY  := $(VENV)/.ready

.PHONY: demo test test-all test-gpu check docs format clean

demo: $(READY)
	$(BIN)/shieldwall demo

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 -m "not slow" $(ARGS)

test-all: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 $(ARGS)

# On a machine with an NVIDIA GPU: what measured numbers rest on and no CPU runs.
test-gpu: $(READY)
	SHIELDWALL_GPU=required $(BIN)/python -m pytest tests/gpu $(ARGS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)
	$(BIN)/sphinx-build -W --keep-going -q -d build/doctrees docs build/docs

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# torch goes first, at the pinned version, so that no later requirement resolves to another build of it.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) build runs .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
