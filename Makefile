# Everything runs in .venv, which `make` builds from the pinned constraints.
PYTHON ?= python3
PROGRAMS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := .venv/$(PROGRAMS)
BASE := build/base/$(PROGRAMS)

.PHONY: demo test test-base test-slow test-clients client-figures test-package test-page vendor test-faults fuzz soak storm bench compare scale lint audit docs bundle frozen clean
.DEFAULT_GOAL := demo

CONSTRAINTS := --constraint constraints.txt
PIP := python -m pip install --disable-pip-version-check $(CONSTRAINTS)
UV := $(BIN)/uv pip install --compile-bytecode $(CONSTRAINTS) --build-constraints constraints.txt

# What a user has: no torch. uv installs in a tenth of pip's time; where it cannot (a mirror that only pip is told of), pip does.
.venv/base: pyproject.toml constraints.txt
	@echo 'Installing thumbindex and what it needs into .venv: 500 MB, half a minute.'
	$(PYTHON) -m venv .venv
	$(BIN)/$(PIP) --quiet uv && $(UV) --python $(BIN)/python --editable . || $(BIN)/$(PIP) --editable .
	touch $@

# torch goes in first and alone, by pip: the pinned version is found as a CPU build where one is offered.
.venv/installed: .venv/base
	$(BIN)/$(PIP) --quiet torch==2.13.0
	$(UV) --quiet --python $(BIN)/python --editable '.[dev,models,plots,postgres,weights]' || $(BIN)/$(PIP) --quiet --editable '.[dev,models,plots,postgres,weights]'
	touch $@

# Index this project's own documentation and ask it a question.
demo: .venv/base
	$(BIN)/thumbindex index --folder docs
	$(BIN)/thumbindex query --folder docs --limit 3 "how are two notes that disagree shown?"

test: .venv/installed
	$(BIN)/python -m pytest -m "not slow" --numprocesses 2 --dist loadfile
	$(MAKE) --no-print-directory test-base

# What must work without the extra `models`, in an environment that lacks it.
test-base: build/base/installed
	$(BASE)/python -m pytest tests/test_base.py tests/encode/test_models.py tests/encode/test_card.py tests/encode/test_digest.py

build/base/installed: .venv/base
	$(PYTHON) -m venv build/base
	$(UV) --quiet --python $(BASE)/python --editable . pytest || $(BASE)/$(PIP) --quiet --editable . pytest
	touch $@

# Whole corpora, exports of models, and the figures that answers must not fall below: two at once. Then real servers, their children and faults, one by one: they look at times.
SIDE_BY_SIDE := tests/corpus tests/encode tests/study
test-slow: .venv/installed
	$(BIN)/python -m pytest -m slow --durations=5 --numprocesses 2 --dist loadfile $(SIDE_BY_SIDE)
	$(BIN)/python -m pytest -m slow --durations=5 $(addprefix --ignore=,$(SIDE_BY_SIDE))

# Clients of others, and the official conformance suite, on the server; the TypeScript ones need node and, the first time, the network.
test-clients: .venv/installed
	@command -v npm > /dev/null || echo 'node is missing: the TypeScript SDKs, MCP Inspector and the conformance suite are NOT tried, only the Python SDK.'
	@if command -v npm > /dev/null; then $(MAKE) --no-print-directory tests/clients/node_modules/.package-lock.json; fi
	THUMBINDEX_CLIENTS=1 $(BIN)/python -m pytest -rs tests/clients

tests/clients/node_modules/.package-lock.json: tests/clients/package-lock.json
	cd tests/clients && npm ci --no-progress --loglevel=error
	touch $@

# The tool calls that a model chose (tests/clients/recorded.json) on this project's docs: answers seen, turns and tokens, task by task.
client-figures: .venv/installed
	$(BIN)/python tests/clients/recorded.py

# The wheel and the sdist: built, looked into, installed by pip, uv and pipx into empty environments, and asked there. The network is for installing.
test-package: .venv/installed
	$(UV) --quiet --python $(BIN)/python --editable '.[package]' || $(BIN)/$(PIP) --quiet --editable '.[package]' \
		|| echo 'Not all tools of the extra `package` could be installed: the tests say what they skip.'
	THUMBINDEX_PACKAGE=1 $(BIN)/python -m pytest -rs --durations=8 tests/package

# Every screen of the page in a real browser: Debian's chromium, or the program that CHROMIUM names; skipped with a sentence where there is none.
# `make test-page PICTURES=docs/plots` keeps the pictures that README and documentation show.
test-page: .venv/installed
	$(UV) --quiet --python $(BIN)/python --editable '.[map,page-tests]' || $(BIN)/$(PIP) --quiet --editable '.[map,page-tests]'
	THUMBINDEX_PAGE=1 THUMBINDEX_PICTURES=$(PICTURES) $(BIN)/python -m pytest -rs --durations=5 tests/page

# Take what the page loads that is not ours (uPlot) from the npm registry anew, and write its hashes down: tests compare the files with them.
vendor:
	$(PYTHON) scripts/vendor.py

# Kill the writer, fill the disk and flip bytes, hundreds of times; `make test-slow` does a few of each.
test-faults: .venv/installed
	$(BIN)/python -m pytest tests/faults --faults=full

# Ten minutes of hostile notes, queries and arguments; `make test` tries a few hundred.
fuzz: .venv/installed
	$(BIN)/python tests/fuzz/run.py 600

# Ten minutes of edits and questions through two servers.
soak: .venv/installed
	$(BIN)/python tests/soak/soak.py

# A git checkout of ten thousand notes under a running server.
storm: .venv/installed
	$(BIN)/python tests/soak/storm.py

# What everything costs, beside its references: of made up notes, or of `make bench FOLDER=DIR`; ten minutes on two cores. With a chromium here
# (or CHROMIUM=PROGRAM) the page is measured in it, too; without one a sentence says that it is not.
# `make bench ARGS="query disk --folder DIR"` takes the options of tests/bench/run.py instead.
bench: .venv/installed
	mkdir -p build
	@if command -v $(or $(CHROMIUM),chromium) > /dev/null; then $(UV) --quiet --python $(BIN)/python --editable '.[map,page-tests]' || $(BIN)/$(PIP) --quiet --editable '.[map,page-tests]'; fi
	$(BIN)/python tests/bench/run.py --set encode.embed.model=all-MiniLM-L6-v2 $(or $(ARGS),$(if $(FOLDER),--folder $(FOLDER)) --plots build/bench --json build/bench.json)

# Other tools beside this one, asked the same questions over MCP: installed from PyPI and npm into build/compare the first time (2.5 GB, and some minutes for
# a stand-in model), then asked; an hour on two cores. EVAL=DIR asks labeled sets of it, FOLDER=DIR that folder, else this project's docs are asked by what
# they hold. What is measured stays in build/compare/compare.json: `make compare ARGS="--only qmd --again"` measures one tool anew.
compare: .venv/installed
	$(BIN)/python tests/compare/run.py $(if $(EVAL),--eval $(EVAL)) $(if $(CORPORA),--corpora $(CORPORA)) $(if $(FOLDER),--folder $(FOLDER)) $(ARGS)

# Fifty thousand files in build/scale, real ones and variants of them, for `make bench ARGS="--folder build/scale --words-only"`.
scale: .venv/installed
	$(BIN)/python tests/scale/assemble.py build/scale

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Known holes in what is installed, and its licenses; needs the network. A build of one's own (torch's `+cpu`) is looked up by the version that it is
# a build of, and what still cannot be looked up is a failure: else nobody would see that it was passed over.
audit: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[audit]'
	$(BIN)/pip-licenses --order=license --format=markdown
	mkdir -p build
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+[^ ]*//' > build/installed.txt
	$(BIN)/pip-audit --progress-spinner=off --strict --no-deps --disable-pip --requirement build/installed.txt

# Write config.toml and docs/configuration.md from the settings' one place.
docs: .venv/installed
	$(BIN)/python tests/reference.py

# Build the bundle for Claude Desktop (dist/thumbindex-VERSION.mcpb).
bundle: .venv/installed
	$(BIN)/python -m thumbindex.serve.clients.bundle

# Write the figures anew below which answers must not fall (tests/study/frozen.json).
frozen: .venv/installed
	$(BIN)/python tests/study/test_frozen.py

clean:
	rm -rf .venv .cache build dist
