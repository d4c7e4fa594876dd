# make demo    the whole job with no input, in about two minutes
# make test    the tests
# make lint    ruff and mypy
#
# Each sets up .venv by itself and does nothing there when it is up to date. PYTHON=python3.12 chooses the interpreter.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SOURCES := pyproject.toml constraints.txt setup.py $(wildcard src/midline3d/*.[ch] src/midline3d/rendering/*.[ch])

.PHONY: demo test lint clean
.NOTPARALLEL:

demo: $(VENV)/ready
	$(BIN)/midline3d demo

test: $(VENV)/ready-test
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(VENV)/ready-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build demo

$(BIN)/python:
	@echo "setting up $(VENV)"
	@# Some systems ship Python without the means to make a virtual environment: then pip brings them.
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { \
	  rm -rf $(VENV); \
	  $(PYTHON) -m pip install --quiet --target build/virtualenv virtualenv && \
	  PYTHONPATH=build/virtualenv $(PYTHON) -m virtualenv --quiet $(VENV); }

$(VENV)/ready: $(SOURCES) | $(BIN)/python
	$(INSTALL) -e .
	@touch $@

$(VENV)/ready-test: $(SOURCES) | $(BIN)/python
	$(INSTALL) -e '.[test]'
	@touch $@ $(VENV)/ready

$(VENV)/ready-lint: $(SOURCES) | $(BIN)/python
	$(INSTALL) -e '.[test,lint]'
	@touch $@ $(VENV)/ready $(VENV)/ready-test
