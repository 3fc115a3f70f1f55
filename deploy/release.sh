#!/bin/sh
# Build the wheel and the sdist, check them, and run the demo with the wheel in a fresh environment. `make release` calls it;
# PYTHON is an interpreter with the extra `release`. Nothing is uploaded.
set -eu
cd "$(dirname "$0")/.."
PYTHON=$(cd "$(dirname "$PYTHON")" && pwd)/$(basename "$PYTHON")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

echo "== security of the source (bandit)"
"$PYTHON" -m bandit --quiet --configfile pyproject.toml --recursive \
    blueprint protocol workflows activities client testkit holdfast/plugin.py holdfast/__init__.py worker.py

echo "== known vulnerabilities of what it stands on (pip-audit)"
if "$PYTHON" -m pip_audit --requirement constraints.txt --no-deps --disable-pip --progress-spinner off --timeout 10 >"$scratch/audit" 2>&1
then result=clean
elif grep -q 'Found .* known vulnerabilit' "$scratch/audit"
then cat "$scratch/audit"; exit 1
else result=failed
fi
# Without the data it lists what it skipped, and calls that a success.
unaudited=
if [ $result = failed ]
then unaudited="$(grep -c == constraints.txt) packages of constraints.txt: $(tail -n 1 "$scratch/audit" | cut -c 1-200)"
elif grep -q 'could not be audited' "$scratch/audit"
then unaudited="$(grep -c 'could not be audited' "$scratch/audit") packages of constraints.txt, of which there is no data"
fi
echo "${unaudited:+NOT AUDITED: }${unaudited:-none is known}"

echo "== wheel and sdist"
rm -rf dist build
"$PYTHON" -m build --outdir dist . >"$scratch/build" 2>&1 || { cat "$scratch/build"; exit 1; }
"$PYTHON" -m twine check --strict dist/*.whl dist/*.tar.gz

echo "== the demo, with the wheel alone"
"$PYTHON" -m venv "$scratch/venv"
wheel=$(ls dist/*.whl)
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$wheel[embedded]"
"$PYTHON" -m cyclonedx_py environment --output-reproducible --output-file "dist/$(basename "$wheel" .whl).cdx.json" "$scratch/venv/bin/python"
mkdir "$scratch/project"
cd "$scratch/project"
PATH="$scratch/venv/bin:$PATH"
holdfast create --template agree_on_brief
cd agree_on_brief
holdfast test agree_on_brief.test.yaml
cat >answers.yaml <<'ANSWERS'
- {question: "*", content: {audience: my team, length: 80, tone: warm}}
- {question: "*", content: {verdict: unchanged}}
ANSWERS
holdfast run agree_on_brief.yaml --input 'A poem for the office party' --answers answers.yaml
holdfast down

echo "== done: dist/ holds what to publish"
if [ -n "$unaudited" ]
then echo "NOT CHECKED: known vulnerabilities of $unaudited. Where pip-audit reaches its data, run: pip-audit --requirement constraints.txt --no-deps --disable-pip"
fi
