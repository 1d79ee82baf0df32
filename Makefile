# Everything runs in a virtual environment of its own; the first target that needs it makes it.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP_INSTALL = $(BIN)/python -m pip install --quiet --constraint .ci/constraints.txt
# One worker for each core, which then needs its core alone.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: help demo test test-fast bench lint types docs clean

help: ## show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.plot ## GridSearchCV by agreement and by accuracy on drifting digits; saves a picture
	$(BIN)/python examples/plot_drifting_scanner.py --save drifting_scanner.png

test: $(VENV)/.test ## the whole suite, with the docstrings' examples
	$(PYTEST)

test-fast: $(VENV)/.test ## without the tests marked slow
	$(PYTEST) -m "not slow"

bench: $(VENV)/.test ## time ratios of the solver, measured in one run
	$(BIN)/python -m pytest tests/benchmarks --benchmark-enable --benchmark-only -s

lint: $(VENV)/.dev ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## static types
	$(BIN)/mypy

docs: $(VENV)/.docs ## the documentation, warnings are errors
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -j auto -W --keep-going -b html docs docs/_build/html

clean: ## remove the environment and what was built
	rm -rf $(VENV) build dist *.egg-info docs/_build docs/gallery docs/api/generated

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp for each extra: what an extra installs is remembered until pyproject changes.
$(VENV)/.%: pyproject.toml .ci/constraints.txt | $(BIN)/python
	$(PIP_INSTALL) --editable ".[$*]"
	@touch $@
