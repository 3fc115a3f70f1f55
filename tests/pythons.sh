#!/bin/sh
# Run tests with each of these versions of Python that the machine has: `make test-pythons`. A version that it has not is
# named. TESTS are paths and options of pytest, PROCESSES as for `make test`.
set -eu
cd "$(dirname "$0")/.."

interpreter() { # VERSION: its path, from the PATH or from pyenv
    for python in "$(command -v "python$1" || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        # A shim of pyenv is there for versions that it does not run.
        if [ -x "$python" ] && "$python" --version 2>/dev/null | grep -q "^Python $1\."; then
            echo "$python"
            return
        fi
    done
}

environment() { # VERSION INTERPRETER: makes .venv-VERSION, unless it is newer than what it is made from
    made=.venv-$1/made
    if [ ! -e "$made" ] || [ pyproject.toml -nt "$made" ] || [ constraints.txt -nt "$made" ]; then
        "$2" -m venv ".venv-$1"
        ".venv-$1/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
        touch "$made"
    fi
}

ran= failed= missing=
for version in "$@"; do
    python=$(interpreter "$version")
    if [ -z "$python" ]; then
        missing="$missing $version"
        continue
    fi
    environment "$version" "$python"
    echo "== $("$python" --version)"
    # shellcheck disable=SC2086  # several words
    if ".venv-$version/bin/python" -m pytest --maxprocesses 8 --dist worksteal --numprocesses "${PROCESSES:-auto}" -m "not slow" ${TESTS:-}
    then ran="$ran $version"
    else failed="$failed $version"
    fi
done
echo "passed:${ran:- none}; failed:${failed:- none}; not on this machine:${missing:- none}"
[ -z "$failed" ] && [ -n "$ran" ]
