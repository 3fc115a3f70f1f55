# The two commands of the README are `make demo` and `make test`; python3 (3.11 or newer) and the package index are all they need.

PYTHON ?= python3
BIN := .venv/bin
ROOMS := blueprint protocol workflows activities client testkit worker.py

.PHONY: demo test format lint typecheck contracts check bench fuzz picture all clean

all: check test

.venv/made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

.venv: .venv/made

demo: .venv/made
	@echo "The command is $(BIN)/holdfast. It leaves with 3 when the run waits for a person, which make calls an error." >&2
	@$(BIN)/holdfast run examples/clarify/clarify.yaml --input 'A poem for the office party'

test: .venv/made
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

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
	$(BIN)/python -m benchmarks.start

# Expressions and templates at random, for SECONDS: fails at the first that hangs, crashes or breaks a bound.
SECONDS ?= 60
fuzz: .venv/made
	$(BIN)/python -m tests.fuzz.expressions $(SECONDS) $(SEED)

picture: .venv/made
	$(BIN)/python docs/picture.py

clean:
	rm -rf .venv .holdfast build *.egg-info
