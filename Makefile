# Everything runs in .venv, which `make` builds from the pinned constraints.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow test-clients test-faults fuzz soak storm bench scale lint audit docs bundle frozen clean
.DEFAULT_GOAL := demo

# torch goes in first and alone: the pinned version is found as a CPU build where one is offered.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,plots]'
	touch $@

# Index this project's own documentation and ask it a question.
demo: .venv/installed
	$(BIN)/thumbindex index --folder docs
	$(BIN)/thumbindex query --folder docs --limit 3 "what happens to my index when the disk is full?"

test: .venv/installed
	$(BIN)/python -m pytest -m "not slow" --numprocesses 2 --dist loadfile

# Real servers and their children, whole corpora, faults, exports of models, tuning and the figures that answers must not fall below; one by one.
test-slow: .venv/installed
	$(BIN)/python -m pytest -m slow

# Clients of others, and the official conformance suite, on the server; the TypeScript ones need node and, the first time, the network.
test-clients: .venv/installed
	@command -v npm > /dev/null || echo 'node is missing: the TypeScript SDKs, MCP Inspector and the conformance suite are NOT tried, only the Python SDK.'
	@if command -v npm > /dev/null; then $(MAKE) --no-print-directory tests/clients/node_modules/.package-lock.json; fi
	THUMBINDEX_CLIENTS=1 $(BIN)/python -m pytest -rs tests/clients

tests/clients/node_modules/.package-lock.json: tests/clients/package-lock.json
	cd tests/clients && npm ci --no-progress --loglevel=error
	touch $@

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

# What everything costs, beside its references: of made up notes, or of `make bench FOLDER=DIR`; under ten minutes on two cores.
# `make bench ARGS="query disk --folder DIR"` takes the options of tests/bench/run.py instead.
bench: .venv/installed
	mkdir -p build
	$(BIN)/python tests/bench/run.py --set encode.embed.model=all-MiniLM-L6-v2 $(or $(ARGS),$(if $(FOLDER),--folder $(FOLDER)) --plots build/bench --json build/bench.json)

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
