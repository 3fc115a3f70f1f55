"""Files and texts to blueprints, and everything that is wrong at once."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.blueprint import validate as validation
from holdfast.blueprint.core import expand
from holdfast.blueprint.errors import BlueprintError, Problem
from holdfast.blueprint.kinds import KINDS, Blueprint, Operation
from holdfast.blueprint.load import files, load, loads, parse, parse_file
from holdfast.blueprint.parts import Part
from holdfast.blueprint.source import read
from tests.blueprint.written import ALL, FULL, yaml
from tests.effort import SECOND, effort

BRIEF = yaml(
    """
    name: brief
    steps:
      - name: draft
        uses: stringify
      - kind: aproval
        name: ok
      - kind: loop
        name: again
        when: steps.drfat.output == 'x'
        loop:
          max_lops: 3
          init:
            - set: {target: notes, value: "{{ steps.draft.output | jion(', ') }}"}
          body:
            - {name: one, input: "drfat {{ drfat }}"}
          output_template: "x"
          output: {a: b}
    """
)


def problems_of(text: str, **how: Any) -> list[Problem]:
    with pytest.raises(BlueprintError) as caught:
        loads(text, **how)
    return caught.value.problems


def test_everything_that_is_wrong_is_told_at_once_with_place_and_hint() -> None:
    assert [str(problem) for problem in problems_of(BRIEF, file="brief.yaml")] == [
        f"brief.yaml:5:11 steps[1].kind: unknown kind 'aproval' (known kinds: {', '.join(KINDS)})",
        "brief.yaml:9:17 steps[2].when: unknown name 'drfat' (did you mean 'draft'?)",
        "brief.yaml:11:7 steps[2].loop.max_lops: unknown key 'max_lops' (did you mean 'max_loops'?)",
        "brief.yaml:13:25 steps[2].loop.init[0].set.target: the target 'notes' is outside the context"
        " (did you mean 'context.notes'?)",
        "brief.yaml:13:64 steps[2].loop.init[0].set.value: unknown filter 'jion' (did you mean 'join'?)",
        "brief.yaml:15:40 steps[2].loop.body[0].input: unknown name 'drfat' (did you mean 'steps.draft.output'?)",
        "brief.yaml:17:7 steps[2].loop.output: 'output' and 'output_template' both say what the loop gives"
        " (keep one of them)",
    ]


def test_codes_are_stable() -> None:
    codes = [problem.code for problem in problems_of(BRIEF)]
    assert codes == [
        *("unknown_kind", "unknown_name", "unknown_key", "bad_target", "unknown_filter", "unknown_name", "conflict")
    ]


def test_a_problem_is_json() -> None:
    problem = problems_of("steps: []", file="f.yaml")[0]
    assert json.loads(json.dumps(problem.to_json())) == {
        "file": "f.yaml",
        "line": 1,
        "column": 8,
        "path": "steps",
        "code": "bad_value",
        "message": "'steps' is empty",
        "hint": "at least one is needed",
        "severity": "error",
    }


@pytest.mark.parametrize("name", ALL)
def test_the_examples_load(name: str) -> None:
    assert loads(ALL[name], name="example").steps


@pytest.mark.parametrize("name", ALL)
def test_core_form_loads_again_to_an_equal_blueprint(name: str) -> None:
    blueprint = loads(ALL[name], name="example")
    core = expand(blueprint)
    assert loads(core) == blueprint
    assert expand(loads(core)) == core


@pytest.mark.parametrize(
    "text", ["yes", "0o17", "0x1F", "1e3", "012", "~", "True", "2026-01-01", "<<", "=", " a ", "a\n", "\r"]
)
def test_core_form_keeps_text_that_looks_like_something_else(text: str) -> None:
    blueprint = loads(json.dumps({"context": {"a": text, "b": {text: text}}, "steps": [{"name": "a"}]}))
    assert loads(expand(blueprint)).context == {"a": text, "b": {text: text}}


def test_core_form_keeps_what_a_conversation_would_change() -> None:
    loop = "{conversation: true, propagation: previous_output, exit_expression: output, body: [{name: a}]}"
    blueprint = loads(f"steps: [{{kind: loop, name: l, loop: {loop}}}]")
    assert loads(expand(blueprint)) == blueprint


def test_a_blueprint_is_the_same_after_its_way_through_json() -> None:
    blueprint = loads(FULL)
    assert Blueprint.model_validate_json(blueprint.model_dump_json()) == blueprint


def test_a_json_document_is_a_blueprint() -> None:
    text = json.dumps(loads(FULL).model_dump(mode="json", exclude_defaults=True), indent="\t")
    assert loads(text, file="brief.json") == loads(FULL)


def test_a_typical_blueprint_loads_in_under_30_ms() -> None:
    loads(FULL)
    assert effort(lambda: loads(FULL.replace("tone", "tint"))) < 0.03 * SECOND


def test_the_name_is_the_files_stem_by_default(tmp_path: Path) -> None:
    file = tmp_path / "my brief.yaml"
    file.write_text("steps: [{name: a}]")
    assert load(file).name == "my-brief"
    assert loads("steps: [{name: a}]").name == "blueprint"


def test_a_file_is_called_as_it_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text("stps: []")
    with pytest.raises(BlueprintError, match=r"^x\.yaml:1:1 stps: unknown key 'stps' \(did you mean 'steps'\?\)"):
        load("x.yaml")


@pytest.mark.parametrize(
    ("name", "raw", "said"),
    [
        ("no.yaml", None, "no such file or directory"),
        (".", None, "is a directory"),
        ("latin.yaml", "é".encode("latin-1"), "it is not UTF-8 text (byte 0)"),
        ("long.yaml", b"#" * (1024 * 1024 + 1), "it has more than 1,024 KiB"),
    ],
)
def test_an_unreadable_file_is_one_clear_problem(tmp_path: Path, name: str, raw: bytes | None, said: str) -> None:
    if raw is not None:
        (tmp_path / name).write_bytes(raw)
    with pytest.raises(BlueprintError) as caught:
        load(tmp_path / name)
    assert [problem.code for problem in caught.value.problems] == ["unreadable_file"]
    assert said in str(caught.value)


def test_a_misspelt_file_name_has_a_hint(tmp_path: Path) -> None:
    (tmp_path / "brief.yaml").write_text("")
    with pytest.raises(BlueprintError, match="did you mean 'brief.yaml'?"):
        load(tmp_path / "breif.yaml")


@pytest.mark.parametrize(("text", "what"), [("[1]", "a list"), ("7", "a single value"), ("---\n", "empty")])
def test_a_document_is_an_object(text: str, what: str) -> None:
    assert problems_of(text)[0].message == f"a blueprint is an object with keys, this is {what}"


def test_what_names_a_step_of_a_wrong_name_hears_the_same_name() -> None:
    told = [problem.hint for problem in problems_of("steps: [{name: größe}, {name: b, input: '{{ steps.größe }}'}]")]
    assert told == ["a name has letters, digits, _ and -, such as 'grosse'", "steps known here: grosse"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps: [{name: größte Länge}]", "such as 'grosste-Lange')"),
        (
            "steps: [{name: a, agent: {id: writer, model: echo}}]",
            "unknown key 'id' (remove it: an agent has the name of",
        ),
        ("steps: [{name: a b}]", "1:16 steps[0].name: 'a b' is not a valid name (a name has letters, digits, _ and -"),
        ("steps: [{name: 5}]", "1:16 steps[0].name: 'name' must be text, not 5 (put it into quotes)"),
        ("steps: [{uses: t}]", "1:9 steps[0].name: 'name' is missing (Unique in its list and the lists around it:"),
        ("steps: [7]", "1:9 steps[0]: an item here must be a step, not 7"),
        ("steps: [{name: a, updates_context: yes}]", "must be true or false, not 'yes' (write true)"),
        ("steps: [{name: a, uses: t, timeout: soon}]", "steps[0].timeout: 'soon' is not a duration; write it like"),
        ("agents: {e: object}\nsteps: [{name: a, agent: e}]", "agents.e: 'e' must be an object, not 'object'"),
        ("steps: [{name: a, on_error: contineu}]", "must be 'fail', 'continue' or 'ask', not 'contineu'"),
        ("steps: [{name: a, on_error: contineu}]", "(did you mean 'continue'?)"),
        ("steps: [{name: a, on_error: {fallbck: {}}}]", "unknown key 'fallbck' (did you mean 'fallback'?)"),
        ("steps: [{kind: hitl, name: a, ask: descision, options: [x, y]}]", "(did you mean 'decision'?)"),
        ("version: '0.2'\nsteps: [{name: a}]", "version: 'version' must be '0.1', not '0.2'"),
        ("steps: [{name: a, agent: {modl: echo}}]", "steps[0].agent.modl: unknown key 'modl' (did you mean 'model'?)"),
        ("agents: {a b: {model: echo}}\nsteps: [{name: a}]", "1:10 agents.a b: 'a b' is not a valid name"),
        ("steps: [{kind: loop, name: l, loop: {body: [], max_loops: 1}}]", "steps[0].loop.body: 'body' is empty"),
        ("steps: [{kind: loop, name: l, loop: {body: [{name: a}], max_loops: 0}}]", "must be at least 1, not 0"),
        (
            "steps: [{kind: loop, name: l, exit_expression: output, loop: {body: {name: a}, max_loops: 1}}]",
            "it belongs under `loop:`, as loop.exit_expression",
        ),
        (
            "steps: [{kind: hitl, name: h, retry: {}}]",
            "unknown key 'retry' (only step, agentic_loop and workflow steps have it)",
        ),
        ("steps: [{kindd: hitl, name: h, message: Well?}]", "unknown key 'kindd' (did you mean 'kind'?)"),
        ("steps: [{name: h, message: Well?}]", "'kind' is missing: only hitl steps have 'message' (add kind: hitl)"),
        (
            "agents: {e: {modl: echo}}\nsteps: [{name: a, agent: e}]",
            "agents.e.modl: unknown key 'modl' (did you mean 'model'?)",
        ),
        ("agents: {e: 5}\nsteps: [{name: a, agent: e}]", "agents.e: 'e' must be an object, not 5"),
        ("steps: [{kind: lop, name: l, loop: {body: {name: a}, max_loops: 1}}]", "(did you mean 'loop'?)"),
        ("context: [1]\nsteps: [{name: a}]", "context: 'context' must be an object, not a list"),
        ("steps: [{name: a, retry: {atempts: 3}, uses: t}]", "unknown key 'atempts' (did you mean 'attempts'?)"),
        ("steps: [{kind: hitl, name: h, options: {a: 1}}]", "'options' must be a list or text, not an object"),
        (
            "steps: [{kind: hitl, name: h, options: [yes, null]}]",
            "options[1]: an item here must be text or an object, not null",
        ),
        ("steps: [{kind: hitl, name: h, verify: 3}]", "'verify' must be text or an object, not 3"),
    ],
)
def test_a_wrong_value_is_told_in_plain_words(text: str, said: str) -> None:
    told = "\n".join(map(str, problems_of(text)))
    assert said in told
    assert len(told.splitlines()) == (2 if "fallbck" in text else 1), told


def test_an_empty_text_resembles_nothing() -> None:
    assert [problem.hint for problem in problems_of("steps: [{name: a, updates_context: ''}]")] == [None]


def test_no_message_is_pydantics() -> None:
    text = (
        "steps: [{kind: hitl, name: 1, multiple: x, options: [{id: ''}, [1]], timeout: {}, on_decline: [], zz: 1}, 3]"
    )
    told = "\n".join(map(str, problems_of(text)))
    assert not any(word in told for word in ("Input", "permitted", "Field required", "valid dictionary", "NoneType"))


def test_a_mistake_does_not_hide_those_inside_its_step() -> None:
    text = "steps: [{kind: loop, name: l, zz: 1, loop: {boddy: {name: a, when: nope}, max_loops: x}}]"
    assert [problem.path for problem in problems_of(text)] == [
        "steps[0].zz",
        "steps[0].loop.boddy",
        "steps[0].loop.body[0].when",
        "steps[0].loop.max_loops",
    ]


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder / "main.yaml"


def test_an_import_is_read_beside_its_file(tmp_path: Path) -> None:
    main = write(tmp_path, main="imports: {r: ./r.yaml}\nsteps: [{name: a, uses: imports.r}]", r="steps: [{name: b}]")
    blueprint = load(main)
    assert blueprint.imports["r"].name == "r"
    assert loads(expand(blueprint)) == blueprint


def test_problems_of_an_import_carry_its_own_file_and_the_importers_are_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, main="imports: {r: ./r.yaml}\nsteps: [{name: a, uses: import}, {name: a}]", r="steps: [{nme: b}]")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BlueprintError) as caught:
        load("main.yaml")
    assert [(one.file, one.line, one.code) for one in caught.value.problems] == [
        ("main.yaml", 2, "duplicate_name"),
        ("r.yaml", 1, "unknown_key"),
    ]


def test_a_missing_import_is_a_problem_at_its_place(tmp_path: Path) -> None:
    main = write(tmp_path, main="imports:\n  r: ./no.yaml\nsteps: [{name: a, uses: imports.r}]")
    with pytest.raises(BlueprintError) as caught:
        load(main)
    assert [(one.line, one.column, one.code) for one in caught.value.problems] == [(2, 6, "unreadable_file")]


def test_a_cycle_of_imports_names_its_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = "\nsteps: [{name: a}]"
    write(
        tmp_path,
        main="imports: {b: b.yaml}" + steps,
        b="imports: {c: c.yaml}" + steps,
        c="imports: {m: main.yaml}" + steps,
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BlueprintError) as caught:
        load("main.yaml")
    assert [str(problem) for problem in caught.value.problems] == [
        "c.yaml:1:14 imports.m: imports itself: main.yaml -> b.yaml -> c.yaml -> main.yaml (remove one of them)"
    ]


def test_each_file_is_read_once(tmp_path: Path) -> None:
    steps = "\nsteps: [{name: a}]"
    blueprint = load(write(tmp_path, main="imports: {a: r.yaml, b: ./r.yaml}" + steps, r="steps: [{name: b}]"))
    assert blueprint.imports["a"] is blueprint.imports["b"]


def test_a_problem_of_a_file_imported_twice_is_told_once(tmp_path: Path) -> None:
    steps = "\nsteps: [{name: a}]"
    main = write(tmp_path, main="imports: {a: r.yaml, b: r.yaml}" + steps, r="steps: [{nme: b}]")
    with pytest.raises(BlueprintError) as caught:
        load(main)
    assert [one.code for one in caught.value.problems] == ["unknown_key"]


@pytest.mark.slow
def test_imports_that_multiply_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_VALUES", 1_000)
    steps = "\nsteps: [{name: a}]"
    doubling = {f"f{n}": f"imports: {{a: f{n + 1}.yaml, b: f{n + 1}.yaml}}{steps}" for n in range(10)}
    main = write(tmp_path, main="imports: {a: f0.yaml}" + steps, f10="steps: [{name: b}]", **doubling)
    with pytest.raises(BlueprintError, match="more than 1,000 values with all imports"):
        load(main)


def test_a_long_chain_of_imports_is_refused(tmp_path: Path) -> None:
    files = {f"f{n}": f"imports: {{a: f{n + 1}.yaml}}\nsteps: [{{name: a}}]" for n in range(40)}
    main = write(tmp_path, main="imports: {a: f0.yaml}\nsteps: [{name: a}]", **files)
    with pytest.raises(BlueprintError, match="nested deeper than 20 levels"):
        load(main)


def test_paths_in_an_import_are_relative_to_the_import(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    agent = "agents: {e: {model: 'scripted:r.yaml'}}\nsteps: [{name: a, agent: e}]"
    write(tmp_path, main="imports: {s: sub/main.yaml}\nsteps: [{name: a}]")
    write(tmp_path / "sub", main=agent)
    assert load(tmp_path / "main.yaml").imports["s"].agents["e"].model == f"scripted:{tmp_path}/sub/r.yaml"


def test_problems_of_an_inline_import_are_told_by_their_path() -> None:
    problem = problems_of("imports: {r: {steps: [{name: a, when: nope}]}}\nsteps: [{name: a}]")[0]
    assert problem.path == "imports.r.steps[0].when"


def test_a_file_that_is_no_utf_8_is_told_to_be_saved_so(tmp_path: Path) -> None:
    (tmp_path / "k.yaml").write_text("steps: [{name: a}]")
    (tmp_path / "j.yaml").write_bytes("# größe\nsteps: [{name: a}]".encode("latin-1"))
    with pytest.raises(BlueprintError) as caught:
        load(tmp_path / "j.yaml")
    assert caught.value.problems[0].hint == "save it as UTF-8"


def test_parsing_gives_problems_as_a_value() -> None:
    parsed = parse("steps: [{name: a, when: nope}]")
    assert [problem.code for problem in parsed.problems] == ["unknown_name"]


names = st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20).filter(lambda text: "{" not in text)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
common = {"input": values, "when": st.sampled_from(["true", "input == 'x'"]), "updates_context": st.booleans()}


def keys(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional={**common, **optional})


def steps(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    body = st.lists(inner, min_size=1, max_size=2)
    plain = keys({"kind": st.just("step")}, {"uses": st.sampled_from(["t", "agents.e", "stringify"])})
    asked = keys({"kind": st.just("hitl")}, {"options": st.lists(names, max_size=3, unique_by=str.casefold)})
    extras = {
        "conversation": st.booleans(),
        "propagation": st.sampled_from(["auto", "context", "previous_output", {"next_input": "{{ output }}"}]),
        "init": st.lists(st.builds(lambda value: {"set": "context.x", "value": value}, values), max_size=2),
        "output": st.sampled_from([{"text": "conversation_history"}, {"fields": {"fields": {"a": "b"}}}, {"a": "x"}]),
    }
    block = st.fixed_dictionaries({"body": body, "max_loops": st.integers(1, 9)}, optional=extras)
    chosen = {
        "branches": st.dictionaries(texts, body, min_size=1, max_size=2),
        "condition_expression": st.just("input"),
    }
    loop = keys({"kind": st.just("loop"), "loop": block}, {})
    return st.one_of(plain, asked, loop, keys({"kind": st.just("conditional"), **chosen}, {}))


def named(value: Any, count: list[int]) -> Any:
    """Every step with a name of its own."""
    match value:
        case {"kind": _}:
            count[0] += 1
            name = f"s{count[0]}"
            parts = {key: named(part, count) for key, part in value.items()}
            if value.get("uses") != "t":
                parts["updates_context"] = False  # what is certainly no object is refused
            return {"name": name, **parts}
        case dict():
            return {key: named(part, count) for key, part in value.items()}
        case list():
            return [named(part, count) for part in value]
    return value


leaves = keys({"kind": st.just("step")}, {})
documents = st.lists(st.recursive(leaves, steps), min_size=1, max_size=3)


@pytest.mark.slow
@settings(max_examples=60)
@given(documents, st.dictionaries(texts, values, max_size=3))
def test_any_core_form_loads_again_to_an_equal_blueprint(steps: list[Any], context: dict[str, Any]) -> None:
    document = {"agents": {"e": {"model": "echo"}}, "context": context, "steps": named(steps, [0])}
    blueprint = loads(json.dumps(document))
    core = expand(blueprint)
    assert loads(core) == blueprint
    assert expand(loads(core)) == core


def test_an_unknown_kind_is_one_problem() -> None:
    found = parse("steps: [{kind: lop, name: again}]").problems
    assert [(one.code, one.path) for one in found] == [("unknown_kind", "steps[0].kind")]


def test_what_is_missing_beside_an_unknown_kind_elsewhere_is_told() -> None:
    found = parse("steps: [{kind: lop, name: again}, {kind: loop, name: other}]").problems
    assert [(one.code, one.path) for one in found] == [
        ("unknown_kind", "steps[0].kind"),
        ("missing_key", "steps[1].loop"),
    ]


@pytest.mark.parametrize("text", ["steps: [{name: a, when: 1 ==}]", "steps: [{name: a, input: '{{ 1 == }}'}]"])
def test_an_expression_that_is_cut_short_is_told_in_words_of_the_language(text: str) -> None:
    [problem] = parse(text).problems
    assert "cut short" in problem.message and "template" not in problem.message


def test_a_file_of_python_is_told_to_be_no_blueprint(tmp_path: Path) -> None:
    (tmp_path / "flows.py").write_text("x = 1\n")
    [problem] = parse_file(tmp_path / "flows.py").problems
    assert problem.message.endswith("flows.py' is Python, not a blueprint")
    assert problem.hint == "name a pipeline in it by its module, such as flows:NAME for one in flows.py"


def test_a_file_of_toml_is_told_to_be_no_blueprint(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text("[worker]\nhold = true\n\n[x]\n")
    [problem] = parse_file(tmp_path / "holdfast.toml").problems
    assert (problem.code, "not a blueprint" in problem.message) == ("unreadable_file", True)


def test_a_rule_of_a_part_is_reported_where_another_form_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Holder(Part):
        write: str | Operation

    monkeypatch.setattr(validation, "Blueprint", Holder)
    tree = read("write: {}", "x.yaml")[0]
    [problem] = validation.validate(tree, {}).problems
    assert (problem.path, problem.message) == ("write", "an operation is exactly one of set, append, merge")
