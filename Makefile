# Everything runs in .venv, which `make` builds from the pinned constraints.
PYTHON ?= python3
PROGRAMS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := .venv/$(PROGRAMS)
BASE := build/base/$(PROGRAMS)

.PHONY: demo test test-base test-slow test-clients client-figures test-package test-page vendor fuzz soak bench compare lint audit lock sbom docs bundle frozen clean
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

.venv/installed: .venv/base
	$(UV) --quiet --python $(BIN)/python --editable '.[dev,postgres]' || $(BIN)/$(PIP) --quiet --editable '.[dev,postgres]'
	touch $@

# What only `make long` needs, 2 GB. torch goes in first and alone, by pip: the pinned version is found as a CPU build where one is offered.
EXTRAS := models,weights,plots,map,page-tests,package
.venv/long: .venv/installed
	$(BIN)/$(PIP) --quiet torch==2.13.0
	$(UV) --quiet --python $(BIN)/python --editable '.[dev,postgres,$(EXTRAS)]' || $(BIN)/$(PIP) --quiet --editable '.[dev,postgres,$(EXTRAS)]'
	touch $@

# Index this project's own documentation and ask it a question.
demo: .venv/base
	$(BIN)/thumbindex index --folder docs
	$(BIN)/thumbindex query --folder docs --limit 3 "how are two notes that disagree shown?"

# The promise to a contributor: four minutes on two cores.
PYTEST := $(BIN)/python -m pytest --dist loadfile
test: .venv/installed
	$(PYTEST) --numprocesses 2 -m "not (slow or long or page or package)"
	@echo 'Left out: real servers, kills and floods (make test-slow), the page in a browser (make test-page),'
	@echo 'the built package (make test-package); torch, npm and everything at full size (make long).'

# Processes, servers and faults, at a small size. They wait more than they compute: four at once; then, one by one, the few that assert seconds.
test-slow: .venv/installed
	$(PYTEST) --numprocesses 4 -m "slow and not (long or alone)"
	$(PYTEST) -m "slow and alone"

# At most an hour, before a release or a large change is merged: the extra `models`, kills and power cuts at full size, 500 edits,
# whole corpora, the clients of others (npm), the page in every look, all ways to install.
long: .venv/long
	@command -v npm > /dev/null || echo 'node is missing: the TypeScript SDKs, MCP Inspector and the conformance suite are NOT tried.'
	@command -v strace > /dev/null || echo 'strace is missing: no power cut is tried (Debian: apt-get install strace).'
	if command -v npm > /dev/null; then $(MAKE) --no-print-directory tests/clients/node_modules/.package-lock.json; fi
	$(PYTEST) --numprocesses 2 -m "long and not (package or alone)" -rs --durations=10
	$(PYTEST) -m "long and (package or alone)" -rs --durations=10
	$(PYTEST) --numprocesses 2 -m page --looks=all -rs

# Install the clients of others that need node (the TypeScript SDKs, MCP Inspector, the conformance suite), which `make long` runs. The first time it needs the network.
test-clients:
	@if command -v npm > /dev/null; then $(MAKE) --no-print-directory tests/clients/node_modules/.package-lock.json; \
		else echo 'node is missing: the TypeScript SDKs, MCP Inspector and the conformance suite are NOT tried, only the Python SDK.'; fi

tests/clients/node_modules/.package-lock.json: tests/clients/package-lock.json
	cd tests/clients && npm ci --no-progress --loglevel=error
	touch $@

# The tool calls that a model chose (tests/clients/recorded.json) on this project's docs: answers seen, turns and tokens, task by task.
client-figures: .venv/installed
	$(BIN)/python tests/clients/recorded.py

# The wheel and the sdist: built, looked into, installed by uv into an empty environment, and asked there. The network is for installing.
test-package: .venv/installed
	$(UV) --quiet --python $(BIN)/python build hatchling twine uv || $(BIN)/$(PIP) --quiet build hatchling twine uv
	$(BIN)/python -m pytest -m "package and not long" -rs tests/package

# Every screen of the page in a real browser, each state in one look: Debian's chromium, or the program that CHROMIUM names; skipped with a sentence where there is none.
# `make test-page PICTURES=docs/plots` keeps the pictures that README and documentation show; `make test-page ARGS=--looks=all` takes every state light, dark and narrow.
test-page: .venv/installed
	$(UV) --quiet --python $(BIN)/python --editable '.[map,page-tests]' || $(BIN)/$(PIP) --quiet --editable '.[map,page-tests]'
	THUMBINDEX_PICTURES=$(PICTURES) $(BIN)/python -m pytest -rs -m page --durations=5 --numprocesses 2 --dist load tests/page $(ARGS)

# Take what the page loads that is not ours (uPlot) from the npm registry anew, and write its hashes down: tests compare the files with them.
vendor:
	$(PYTHON) scripts/vendor.py

# Ten minutes of hostile notes, queries and arguments, then 85 files of 1 MB that are made to take for ever or all memory, each in a process of its own.
# `make fuzz ARGS="--bombs headings --size 9900000"` takes some of these at full size.
fuzz: .venv/installed
	$(BIN)/python tests/fuzz/run.py $(ARGS)

# Ten minutes of random edits, moves, private marks, ignore files and kills under two servers, against a model of the vault; with a burst of notes, and
# what memory comes to. `make soak ARGS="--minutes 60 --seed 2 --burst 10000"`.
soak: .venv/installed
	$(BIN)/python tests/bench/soak.py $(ARGS)

# What a folder costs, of made-up notes or of `make bench FOLDER=DIR`, as a table and in build/bench.json.
# `make bench ARGS="index disk --made 10000 --words-only --compare before.json"` takes the options of the program.
bench: .venv/installed
	mkdir -p build
	$(BIN)/python tests/bench/run.py $(if $(FOLDER),--folder $(FOLDER)) $(or $(ARGS),--json build/bench.json)

# Other tools, asked the same questions over MCP: installed from PyPI and npm into build/compare the first time. FOLDER=DIR asks that folder by what its
# notes link to, EVAL=DIR CORPORA=DIR labeled questions; else this project's docs are asked.
compare: .venv/installed
	$(BIN)/python tests/bench/compare.py $(if $(EVAL),--eval $(EVAL) --corpora $(CORPORA)) $(if $(FOLDER),--folder $(FOLDER)) $(ARGS)

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Licenses of what is installed, and its known vulnerabilities, which needs the network: what could not be looked up is said, and is no pass.
audit: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[audit]'
	$(BIN)/python scripts/audit.py

# Write requirements.txt anew: the base install on all systems and Pythons, at the versions of constraints.txt, by hashes. Needs the network.
lock: .venv/base
	mkdir -p build
	{ echo '# The base install by hashes, made by `make lock`: `pip install --require-hashes --no-deps -r requirements.txt`.'; \
		$(BIN)/uv pip compile pyproject.toml --constraint constraints.txt --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet; \
	} > build/requirements.txt && mv build/requirements.txt requirements.txt

# Write what a base install consists of (CycloneDX, dist/thumbindex-VERSION.cdx.json), from one that is made of the lock.
sbom: .venv/installed
	rm -rf build/locked && $(PYTHON) -m venv --without-pip build/locked
	$(BIN)/python -m pip --python build/locked install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement requirements.txt
	$(BIN)/python -m pip --python build/locked install --quiet --disable-pip-version-check --no-deps .
	$(UV) --quiet --python $(BIN)/python --editable '.[package]' || $(BIN)/$(PIP) --quiet --editable '.[package]'
	mkdir -p dist
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file "dist/thumbindex-$$(build/locked/$(PROGRAMS)/python -m thumbindex --version | cut -d ' ' -f 2).cdx.json" build/locked/$(PROGRAMS)/python

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
