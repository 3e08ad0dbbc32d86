# `make` installs into .venv, from the pinned constraints.
PYTHON ?= python3
PROGRAMS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := .venv/$(PROGRAMS)

.PHONY: demo test test-slow test-package test-page long lint subjects docs frozen lock sbom audit bundle soak fuzz bench compare clean
.DEFAULT_GOAL := demo

CONSTRAINTS := --constraint constraints.txt
PIP := python -m pip install -qq --disable-pip-version-check $(CONSTRAINTS)
UV := $(BIN)/uv pip install --quiet --compile-bytecode $(CONSTRAINTS) --build-constraints constraints.txt

# The base install. uv takes a tenth of pip's time; pip is the fallback, for a mirror that only pip
# is configured for.
.venv/base: pyproject.toml constraints.txt
	@echo 'Installing thumbindex into .venv (500 MB, about half a minute)'
	@$(PYTHON) -m venv .venv
	@$(BIN)/$(PIP) uv && $(UV) --python $(BIN)/python --editable . || $(BIN)/$(PIP) --editable .
	@touch $@

# The tools of a contributor, without torch.
.venv/installed: .venv/base
	$(UV) --python $(BIN)/python --editable '.[dev,postgres]' || $(BIN)/$(PIP) --editable '.[dev,postgres]'
	touch $@

# The packages that only `make long` needs, 2 GB. pip installs torch first: it finds the CPU build of
# the pinned version.
EXTRAS := dev,postgres,models,weights,page-tests,package
.venv/long: .venv/installed
	$(BIN)/$(PIP) torch==2.13.0
	$(UV) --python $(BIN)/python --editable '.[$(EXTRAS)]' || $(BIN)/$(PIP) --editable '.[$(EXTRAS)]'
	touch $@

# Index the example notes and ask them a question.
demo: .venv/base
	$(BIN)/thumbindex index --folder examples/notes
	$(BIN)/thumbindex query --folder examples/notes "who decided on PostgreSQL, and why?"
	@echo
	@echo 'Your own notes:      $(BIN)/thumbindex query --folder ~/notes "your question"'
	@echo 'Your AI client:      $(BIN)/thumbindex install claude-desktop --folder ~/notes'

# ------------------------------------------------------------------ tests

PYTEST := $(BIN)/python -m pytest -rs

# Three to seven minutes on two cores. One file: .venv/bin/python -m pytest FILE
test: .venv/installed
	$(PYTEST) --numprocesses 2 --dist loadfile -m "not (slow or long or page or package)"
	@echo 'Not run: real servers and faults (make test-slow), the page in a browser (make test-page),'
	@echo 'the built package (make test-package), torch, npm and full sizes (make long).'

# Processes, servers and faults at a small size. They mostly wait, so four run at once. Those that
# assert seconds run alone.
test-slow: .venv/installed
	$(PYTEST) --numprocesses 4 --dist loadfile --durations=5 -m "slow and not alone"
	$(PYTEST) -m "slow and alone"

# The wheel and the sdist: build them, check their content, install them with uv into an empty
# environment and ask a question there. Only the installation uses the network.
test-package: .venv/installed
	$(UV) --python $(BIN)/python build hatchling twine uv || $(BIN)/$(PIP) build hatchling twine uv
	$(PYTEST) -m "package and not long" tests/package

# Every screen of the page in Debian's chromium, or in the program that CHROMIUM names.
# `make test-page PICTURES=docs/plots` saves the pictures of the documentation.
test-page: .venv/installed
	$(UV) --python $(BIN)/python --editable '.[page-tests]' || $(BIN)/$(PIP) --editable '.[page-tests]'
	THUMBINDEX_PICTURES=$(PICTURES) $(PYTEST) --numprocesses 2 -m page tests/browser

# Before merging a large change, at most an hour on two cores: torch and a cross-encoder, faults at
# full size, hundreds of edits, whole corpora, clients from npm, the page in every look, all ways to
# install.
long: .venv/long
	if command -v npm > /dev/null; then cd tests/clients && npm ci --no-progress --loglevel=error; fi
	$(PYTEST) --numprocesses 2 --dist loadfile --durations=10 -m "long and not (alone or package)"
	$(PYTEST) --durations=10 -m "long and (alone or package)"
	$(PYTEST) --numprocesses 2 -m page --looks=all tests/browser

lint: .venv/installed subjects
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The subjects of the last commits that no remote has: at most 72 characters, a capital, no period.
subjects:
	@if git log --max-count=100 --format=%s HEAD --not --remotes | grep -vE '^[[:upper:]].{0,70}[^.]$$'; then \
		echo 'Reword these commits: at most 72 characters, a capital first, no period at the end.'; exit 1; fi

# ------------------------------------------------------------------ what is generated

# config.toml and docs/reference, from the settings, the commands' help, the docstrings and the tools.
docs: .venv/installed
	$(BIN)/python tests/reference.py

# The lower bounds of answer quality (tests/evaluation/frozen.json).
frozen: .venv/installed
	$(BIN)/python tests/evaluation/test_frozen.py

# ------------------------------------------------------------------ a release

# requirements.txt: the base install on all systems and Pythons, with hashes. Needs the network.
lock: .venv/base
	mkdir -p build
	{ echo '# The base install by hashes, made by `make lock`: `pip install --require-hashes --no-deps -r requirements.txt`.'; \
		$(BIN)/uv pip compile pyproject.toml --constraint constraints.txt --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet; \
	} > build/requirements.txt && mv build/requirements.txt requirements.txt

# The bill of materials (CycloneDX) of a base install made from the lock.
sbom: .venv/installed
	rm -rf build/locked && $(PYTHON) -m venv --without-pip build/locked
	$(BIN)/python -m pip --python build/locked install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement requirements.txt
	$(BIN)/python -m pip --python build/locked install --quiet --disable-pip-version-check --no-deps .
	$(UV) --python $(BIN)/python --editable '.[package]' || $(BIN)/$(PIP) --editable '.[package]'
	mkdir -p dist
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file "dist/thumbindex-$$(build/locked/$(PROGRAMS)/python -m thumbindex --version | cut -d ' ' -f 2).cdx.json" build/locked/$(PROGRAMS)/python

# Licenses and known vulnerabilities of the installed packages. Fails if one could not be looked up.
audit: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[audit]'
	$(BIN)/python scripts/audit.py

# The bundle for Claude Desktop (dist/thumbindex-VERSION.mcpb).
bundle: .venv/installed
	$(BIN)/python scripts/bundle.py

# ------------------------------------------------------------------ programs to run by hand

# Ten minutes of random edits, private marks, ignore files and kills under two servers, against a
# model of the vault: `make soak ARGS="--minutes 60 --seed 2 --burst 10000"`.
soak: .venv/installed
	$(BIN)/python tests/bench/soak.py $(ARGS)

# Ten minutes of hostile notes, queries and arguments, then 1 MB files that aim to exhaust time or
# memory. At full size: `make fuzz ARGS="--bombs headings --size 9900000"`.
fuzz: .venv/installed
	$(BIN)/python tests/fuzz/run.py $(ARGS)

# Cost of indexing and asking a folder (made-up notes, or FOLDER=DIR), as a table and in
# build/bench.json: `make bench ARGS="index disk --made 10000 --words-only --compare before.json"`.
bench: .venv/installed
	mkdir -p build
	$(BIN)/python tests/bench/run.py $(if $(FOLDER),--folder $(FOLDER)) --json build/bench.json $(ARGS)

# Ask other tools the same questions over MCP; installs them into build/compare the first time.
# FOLDER=DIR makes questions from that folder's links; EVAL=DIR CORPORA=DIR asks labeled ones.
compare: .venv/installed
	$(BIN)/python tests/bench/compare.py $(if $(EVAL),--eval $(EVAL) --corpora $(CORPORA)) $(if $(FOLDER),--folder $(FOLDER)) $(ARGS)

clean:
	rm -rf .venv .cache build dist
