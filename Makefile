# The two commands of the README are `make demo` and `make test`; python3 (3.11 or newer) and the package index are all they need.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all test-pythons format lint typecheck contracts check bench board drills cluster simulate simulate-cheaply fuzz measure picture release all clean

# Two at a time, as tests that wait leave a core idle: the types are checked and the schedules run beside them.
all: .venv/made
	$(MAKE) --jobs 2 check test-all simulate-cheaply

.venv/made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

.venv: .venv/made

demo: .venv/made
	@$(BIN)/holdfast run examples/revise_text/revise_text.yaml --input 'Tea for the office' || \
	{ code=$$?; test $$code -eq 3 || exit $$code; \
	echo "The run waits, and nothing is lost. The commands above work after: . $(BIN)/activate" >&2; }

PYTEST := $(BIN)/python -m pytest --maxprocesses 8 --dist worksteal
# While some tests wait, the others and the server have work for all cores; each process imports all that we have.
PROCESSES ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count() * 3 // 2)')

# Everything but what takes long: true sizes, killed processes, the embedded server, the fuzz, a guest project, and the pages in a
# browser, which `make test-all` needs Debian's chromium for: apt-get install chromium.
# TESTS=tests/blueprint (paths and options of pytest) for some of them, here and below.
test: .venv/made
	@echo "Each process collects the tests first, a quarter of a minute on an idle machine."
	$(PYTEST) --numprocesses $(PROCESSES) -m "not slow" $(TESTS)

test-all: .venv/made
	$(PYTEST) --numprocesses $(PROCESSES) $(TESTS)

# The same as `make test` with each Python that is supported and that the machine has, in environments of their own.
PYTHONS ?= 3.11 3.12 3.13
test-pythons:
	PROCESSES=$(PROCESSES) TESTS="$(TESTS)" sh tests/pythons.sh $(PYTHONS)

format: .venv/made
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: .venv/made
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

typecheck: .venv/made
	$(BIN)/mypy

contracts: .venv/made
	$(BIN)/lint-imports

check: lint typecheck contracts

# Kills, ends, freezes and cuts off worker, server and serve under runs of every kind, with wrong clocks and a full disk:
# make drills SECONDS=600 SEED=7
drills: .venv/made
	$(BIN)/python -m drills --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

# The same on a cluster: Temporal's server built with Go into FOLDER, on PostgreSQL, its hosts killed as well
cluster: .venv/made
	$(BIN)/python -m drills --cluster $(or $(FOLDER),.cluster) --seconds $(or $(SECONDS),300) $(if $(SEED),--seed $(SEED))

# Runs of random blueprints under a simulated server, in every order in which things may come, and one in a thousand on a
# real one: make simulate SCHEDULES=1000000
# SEED=7 repeats one of them, move by move, and shrinks it if it fails.
simulate: .venv/made
	$(BIN)/python -m drills.simulate --schedules $(or $(SCHEDULES),1000000) --real $(if $(SEED),--seed $(SEED))

# What `make all` can pay for of it, of what the tests leave of two cores: small blueprints, and fewer replays.
simulate-cheaply: .venv/made
	nice $(BIN)/python -m drills.simulate --schedules $(or $(SCHEDULES),20000) --cheap

BENCHMARKS := iteration "long_loop 1000" agents parked conversation look_up "record 60" "inbox 500" "scale 500 200" start processes

# Each benchmark in turn, or one: make bench ONLY=agents
bench: .venv/made
	for benchmark in $(or $(ONLY),$(BENCHMARKS)); do $(BIN)/python -m benchmarks.$$benchmark || exit 1; done

# Other people's tests, from folders into which they were installed (docs/board.md): make board AGENTDOJO=DIR CONFORMANCE=DIR
board: .venv/made
	$(BIN)/python -m benchmarks.board $(if $(AGENTDOJO),--agentdojo $(AGENTDOJO)) $(if $(CONFORMANCE),--conformance $(CONFORMANCE))

# At random, for SECONDS: expressions and templates, a minute of them; then raw bytes at every kind of question, for the
# rest of the time, on a server of its own. Fails at the first that hangs, crashes, breaks a bound or strands a question.
fuzz: .venv/made
	$(BIN)/python -m tests.fuzz.expressions 60 $(SEED)
	$(BIN)/python -m tests.fuzz.door $(or $(SECONDS),3600) $(SEED)

# How the source reads, room by room.
measure: .venv/made
	$(BIN)/python -m benchmarks.measure

picture: .venv/made
	$(BIN)/python docs/picture.py
	$(BIN)/python -m docs.pictures

# The wheel and the sdist in dist/, checked, with a bill of materials; the wheel runs the demo in an environment of its own.
release: .venv/made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt '.[release]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	PYTHON=$(BIN)/python sh deploy/release.sh

clean:
	rm -rf .venv .venv-* .holdfast build dist *.egg-info
