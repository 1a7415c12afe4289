# The few commands there are. Each installs what it needs by itself, into .venv and build/; only python3, make and a
# package registry have to be there. PYTHON=... chooses the interpreter (else a Python 3.11, else python3).

INTERPRETER := $(shell PYTHON="$(PYTHON)" tools/interpreters.sh main)
OTHERS = $(shell PYTHON="$(PYTHON)" tools/interpreters.sh others)

# What is tested is the wheel, never src/, whatever the caller's environment says.
unexport PYTHONPATH PYTHONHOME

ENVIRONMENT = $(INTERPRETER) tools/environment.py
WHEEL = $(shell ls build/wheel/*.whl)
VENVS := build/venvs
TORCH := -r requirements/torch.txt

.PHONY: help demo test check bench wheel clean

help:
	@echo "make demo    run a real torchrun job with faults in it, then show what happened and why"
	@echo "make test    test the built wheel on every supported Python found here"
	@echo "             (ARGS='tests/tape -k torn' runs only that, on one Python)"
	@echo "make check   lint, types, arrows between the rooms, file lengths, documents"
	@echo "make bench   what recording costs, beside torch, and what reading large runs takes (kept in build/)"
	@echo "make clean   remove what the others made"

wheel:
	@test -n "$(INTERPRETER)"
	@$(ENVIRONMENT) $(VENVS)/build -r requirements/build.txt
	@$(VENVS)/build/bin/python tools/wheel.py

demo: wheel
	@$(ENVIRONMENT) .venv --wheel $(WHEEL) $(TORCH)
	@PATH="$(CURDIR)/.venv/bin:$$PATH" bash examples/demo.sh

# The Pythons without torch come first, so that the closing line is that of the whole suite.
test: wheel
ifndef ARGS
	@set -e; for python in $(OTHERS); do \
	    name=$$(basename $$python); \
	    $$python tools/environment.py $(VENVS)/test-$$name --wheel $(WHEEL) -r requirements/test.txt; \
	    echo "== $$name: what needs no torch"; \
	    JOBTAPE_WHEEL="$(CURDIR)/$(WHEEL)" $(VENVS)/test-$$name/bin/pytest -m "not torch and not torchrun"; \
	done
endif
	@$(ENVIRONMENT) $(VENVS)/test --wheel $(WHEEL) -r requirements/test.txt $(TORCH)
	@echo "== $(notdir $(INTERPRETER)): everything"
	@JOBTAPE_WHEEL="$(CURDIR)/$(WHEEL)" $(VENVS)/test/bin/pytest $(ARGS)

check: wheel
	@$(ENVIRONMENT) $(VENVS)/check --wheel $(WHEEL) -r requirements/check.txt
	$(VENVS)/check/bin/ruff check .
	$(VENVS)/check/bin/ruff format --check .
	$(VENVS)/check/bin/mypy
	$(VENVS)/check/bin/lint-imports
	$(VENVS)/check/bin/python tools/lengths.py
	$(VENVS)/check/bin/python tools/documents.py

bench: wheel
	@$(ENVIRONMENT) .venv --wheel $(WHEEL) $(TORCH)
	@.venv/bin/python bench/record.py --json build/bench.json
	@.venv/bin/python bench/scale.py --json build/scale.json

clean:
	rm -rf build .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} +
