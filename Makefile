# The two commands of the README are `make demo` and `make test`; python3 (3.11 or newer) and the package index are all they need.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all format lint typecheck contracts check bench fuzz measure picture all clean

all: check test-all

.venv/made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

.venv: .venv/made

demo: .venv/made
	@$(BIN)/holdfast run examples/clarify/clarify.yaml --input 'A poem for the office party' || \
	{ code=$$?; test $$code -eq 3 || exit $$code; \
	echo "The run waits, and nothing is lost. The commands above work after: . $(BIN)/activate" >&2; }

PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

# Everything but what takes long: true sizes, killed processes, the embedded server, the fuzz, a guest project.
test: .venv/made
	$(PYTEST) -m "not slow"

test-all: .venv/made
	$(PYTEST)

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

bench: .venv/made
	$(BIN)/python -m benchmarks.iteration
	$(BIN)/python -m benchmarks.long_loop 1000
	$(BIN)/python -m benchmarks.agents
	$(BIN)/python -m benchmarks.look_up
	$(BIN)/python -m benchmarks.start

# At random, for SECONDS: expressions and templates, a minute of them; then raw bytes at every kind of question, for the
# rest of the time, on a server of its own. Fails at the first that hangs, crashes, breaks a bound or strands a question.
SECONDS ?= 3600
fuzz: .venv/made
	$(BIN)/python -m tests.fuzz.expressions 60 $(SEED)
	$(BIN)/python -m tests.fuzz.door $(SECONDS) $(SEED)

# How the source reads, room by room.
measure: .venv/made
	$(BIN)/python -m benchmarks.measure

picture: .venv/made
	$(BIN)/python docs/picture.py

clean:
	rm -rf .venv .holdfast build *.egg-info
