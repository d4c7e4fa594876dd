# make demo         the whole job with no input, in about two minutes
# make test         the tests
# make lint         ruff and mypy
# make sanitize     the tests of the C code under AddressSanitizer and UBSan (GCC on Linux)
# make test-long    the tests that take half a minute and more each, before a release
# make test-oldest  part of the tests with the oldest versions of all packages that pyproject.toml allows
# make docs         the documents as a site, in build/site
# make wheel        a wheel, installed into a virtual environment of its own and tried there
#
# Each sets up .venv by itself and does nothing there when it is up to date. PYTHON=python3.12 chooses the interpreter.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := python -m pip install --quiet --disable-pip-version-check
INSTALL := $(BIN)/$(PIP) -c constraints.txt
SOURCES := pyproject.toml constraints.txt setup.py $(wildcard src/midline3d/*.[ch] src/midline3d/kernels/*.[ch] src/midline3d/rendering/*.[ch])
# Where the versions of packages show: files of every kind, arrays, pictures, the command line, one whole run.
OLDEST := test_cli test_store test_synth test_recording test_calibration test_curve test_tracking
SANITIZED := build/sanitized
CHECKED := -g -fsanitize=address,undefined -fno-sanitize-recover=all

.PHONY: demo test test-long lint docs sanitize test-oldest wheel clean
.NOTPARALLEL:

demo: $(VENV)/ready
	$(BIN)/midline3d demo

test: $(VENV)/ready-test
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-long: $(VENV)/ready-test
	$(BIN)/python -m pytest -n 2 -m long

lint: $(VENV)/ready-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/ready-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "build/site/index.html"

# A copy of the package with libraries that watch themselves, in a Python that was started with the watcher. Triton's
# kernels are not of C.
sanitize: $(VENV)/ready-test
	rm -rf $(SANITIZED)
	mkdir -p $(SANITIZED)
	cp -r src setup.py pyproject.toml README.md LICENSE $(SANITIZED)
	find $(SANITIZED) -name '*.so' -delete
	$(INSTALL) 'setuptools>=77'
	cd $(SANITIZED) && CFLAGS="$(CHECKED)" MIDLINE3D_REQUIRE_COMPILED=1 \
	  $(CURDIR)/$(BIN)/python setup.py --quiet build_ext --inplace
	PYTHONPATH=$(SANITIZED)/src ASAN_OPTIONS=detect_leaks=0 \
	  LD_PRELOAD=$$(gcc -print-file-name=libasan.so):$$(gcc -print-file-name=libubsan.so) \
	  $(BIN)/python -m pytest -n 2 -p no:cacheprovider -k "not Triton" tests/test_kernels.py tests/test_rendering.py

test-oldest: $(VENV)-oldest/ready
	$(VENV)-oldest/bin/python -m pytest -n 2 --dist loadfile $(OLDEST:%=tests/%.py)

wheel: | $(BIN)/python
	rm -rf build/wheel build/try
	MIDLINE3D_REQUIRE_COMPILED=1 $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	$(PYTHON) -m venv build/try || $(PYTHON) -m virtualenv --quiet build/try
	build/try/bin/$(PIP) -c constraints.txt build/wheel/*.whl
	cd build/try && bin/midline3d doctor && bin/midline3d simulate worm --preset clean --frames 2 --source npy

clean:
	rm -rf $(VENV) $(VENV)-oldest build demo

$(BIN)/python $(VENV)-oldest/bin/python:
	@echo "setting up $(@D:%/bin=%)"
	@# Some systems ship Python without the means to make a virtual environment: then pip brings them.
	@$(PYTHON) -m venv $(@D:%/bin=%) 2>/dev/null || { \
	  rm -rf $(@D:%/bin=%); \
	  $(PYTHON) -m pip install --quiet --target build/virtualenv virtualenv && \
	  PYTHONPATH=build/virtualenv $(PYTHON) -m virtualenv --quiet $(@D:%/bin=%); }

$(VENV)/ready: $(SOURCES) | $(BIN)/python
	$(INSTALL) -e .
	@touch $@

# With Triton, whose interpreter runs the GPU's kernels on the CPU; where there is no wheel of it, those tests say so.
$(VENV)/ready-test: $(SOURCES) | $(BIN)/python
	$(INSTALL) -e '.[test,gpu]' || $(INSTALL) -e '.[test]'
	@touch $@ $(VENV)/ready

$(VENV)/ready-lint: $(SOURCES) | $(BIN)/python
	$(INSTALL) -e '.[test,gpu,lint]' || $(INSTALL) -e '.[test,lint]'
	@touch $@ $(VENV)/ready $(VENV)/ready-test

$(VENV)/ready-docs: $(SOURCES) | $(BIN)/python
	$(INSTALL) -e '.[docs]'
	@touch $@ $(VENV)/ready

$(VENV)-oldest/ready: constraints-oldest.txt $(SOURCES) | $(VENV)-oldest/bin/python
	$(VENV)-oldest/bin/$(PIP) -c constraints-oldest.txt -e '.[test]'
	@touch $@
