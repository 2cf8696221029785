# Two commands for a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PYTEST = $(BIN)/python -m pytest -q --durations=10
# What runs on every backend.
ON_BACKENDS = tests/gates tests/permutation tests/regularizers tests/metrics tests/experts tests/mixture

.PHONY: demo test test-tensorflow test-backends-smoke test-backends test-minimum notebooks clean

demo: $(VENV)/demo.installed
	$(BIN)/python examples/demo.py

test: test-tensorflow test-backends-smoke

test-tensorflow: $(VENV)/dev.installed
	$(PYTEST) -n 2 tests

test-backends-smoke: $(VENV)/backends.installed
	KERAS_BACKEND=jax $(PYTEST) tests/integration/test_smoke.py
	KERAS_BACKEND=torch $(PYTEST) tests/integration/test_smoke.py

test-backends: $(VENV)/backends.installed
	KERAS_BACKEND=jax $(PYTEST) -n 2 $(ON_BACKENDS)
	KERAS_BACKEND=torch $(PYTEST) -n 2 $(ON_BACKENDS)

# The oldest versions that setup.py allows.
test-minimum:
	$(MAKE) VENV=.venv-minimum PIP_CONSTRAINT=tests/minimum.txt test-tensorflow

# Runs the notebooks and stores their outputs.
notebooks: $(VENV)/dev.installed
	$(BIN)/python notebooks/execute.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.installed: setup.py | $(VENV)/bin/python
	$(BIN)/python -m pip install -q -e ".[datasets,plots]"
	touch $@

$(VENV)/dev.installed: setup.py | $(VENV)/bin/python
	$(BIN)/python -m pip install -q -e ".[dev]"
	touch $@

$(VENV)/backends.installed: tests/backends.txt $(VENV)/dev.installed
	$(BIN)/python -m pip install -q -r tests/backends.txt
	touch $@

clean:
	rm -rf .venv .venv-minimum build *.egg-info
