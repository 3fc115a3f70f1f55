import re
from datetime import date
from pathlib import Path

import pytest

from holdfast.protocol.guard import Key
from holdfast.runtime.config import ConfigError, WorkerVariables, load_config, load_config_for
from holdfast.runtime.embedded.home import lock_home


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_HOME", "HOLDFAST_TASK_QUEUE", "HOLDFAST_IMPORTS", "HOLDFAST_PAYLOADS"):
        monkeypatch.delenv(name, raising=False)


def refusal(folder: Path, text: str) -> str:
    (folder / "holdfast.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(folder)
    return str(caught.value).removeprefix(f"{folder}/")


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    config = load_config(tmp_path)
    assert (config.path, config.folder, config.home) == (None, tmp_path, tmp_path / ".holdfast")
    assert (config.worker.imports, config.worker.task_queue) == ([], "holdfast")
    assert config.answer_keys() == []


def test_the_file_of_a_parent_folder_is_found_and_the_state_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text('[worker]\nimports = ["my_tools"]\n[groups]\neditors = ["user:ana"]\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    config = load_config(below)
    assert (config.path, config.home) == (tmp_path / "holdfast.toml", tmp_path / ".holdfast")
    assert config.worker.imports == ["my_tools"]
    assert config.groups == {"editors": ["user:ana"]}


def make_state(folder: Path) -> Path:
    """Make a state folder on which a server has run."""
    home = folder / ".holdfast"
    home.mkdir(parents=True)
    (home / "server.json").write_text("{}")
    return home


def test_a_state_folder_is_found_upwards_the_nearest_first(tmp_path: Path) -> None:
    below = tmp_path / "deep" / "er"
    below.mkdir(parents=True)
    above = make_state(tmp_path)
    assert (load_config(below).home, load_config(below).folder) == (above, tmp_path)
    nearest = make_state(below)
    assert load_config(below).home == nearest


def test_a_file_of_the_project_decides_where_its_state_is(tmp_path: Path) -> None:
    make_state(tmp_path)
    project = tmp_path / "project"
    project.mkdir()
    (project / "holdfast.toml").touch()
    assert load_config(project).home == project / ".holdfast"


def test_a_state_folder_of_another_user_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_state(tmp_path)
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.setattr("os.getuid", lambda: -1)
    assert load_config(below).home == below / ".holdfast"


@pytest.mark.parametrize(
    ("files", "counts", "told"),
    [
        ([], None, ""),
        (["."], ".", ""),
        (["approval"], "approval", "approval/holdfast.toml counts; its runs are kept beside it: cd approval"),
        ([".", "approval"], ".", "approval/holdfast.toml is not read, as here holdfast.toml counts; to use it: cd "),
    ],
)
def test_the_file_beside_a_blueprint_counts_where_the_current_folder_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], counts: str | None, told: str
) -> None:
    (tmp_path / "approval").mkdir()
    for folder in files:
        (tmp_path / folder / "holdfast.toml").touch()
    monkeypatch.chdir(tmp_path)
    texts: list[str] = []
    config = load_config_for(Path("approval/approval.yaml"), texts.append)
    assert config.path == (None if counts is None else tmp_path / counts / "holdfast.toml")
    assert "".join(texts).startswith(told) and bool(texts) == bool(told)


async def test_git_ignores_the_state_folder(tmp_path: Path) -> None:
    async with lock_home(tmp_path / ".holdfast"):
        assert (tmp_path / ".holdfast" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("store", ["postgresql:///record?host=/run/postgresql", "postgresql://holdfast@db:5432/record"])
def test_a_record_is_in_a_database_by_its_name_or_behind_a_socket(tmp_path: Path, store: str) -> None:
    (tmp_path / "holdfast.toml").write_text(f'[record]\nstore = "{store}"\n')
    assert load_config(tmp_path).record.store == store


def test_models_are_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text('[models.fast]\nmodel = "scripted:a.yaml"\napi_key_env = "A_KEY"\n')
    fast = load_config(tmp_path).models["fast"]
    assert (fast.model, fast.api_key_env) == ("scripted:a.yaml", "A_KEY")


def test_the_environment_wins_and_an_empty_variable_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "holdfast.toml").write_text('[worker]\nimports = ["theirs"]\ntask_queue = "file"\n')
    monkeypatch.setenv("HOLDFAST_IMPORTS", "mine, my.other")
    monkeypatch.setenv("HOLDFAST_TASK_QUEUE", "")
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "elsewhere"))
    config = load_config(tmp_path)
    assert config.worker.imports == ["mine", "my.other"]
    assert config.worker.task_queue == "file"
    assert config.home == tmp_path / "elsewhere"


def test_a_worker_is_on_hold_by_file_or_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "holdfast.toml").write_text("[worker]\nhold = true\n")
    assert load_config(tmp_path).worker.hold
    monkeypatch.setenv("HOLDFAST_HOLD", "false")
    assert not load_config(tmp_path).worker.hold
    monkeypatch.setenv("HOLDFAST_HOLD", "perhaps")
    with pytest.raises(ConfigError, match="HOLDFAST_HOLD=perhaps"):
        load_config(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[worker\n", r"holdfast.toml:1:8: not valid TOML: expected ']'"),
        ('\n[worker]\nimprots = ["a"]\n', r"holdfast.toml:3: worker.improts: unknown key \(did you mean 'imports'\?\)"),
        ("[wroker]\n", r"holdfast.toml:1: wroker: unknown key \(did you mean 'worker'\?\)"),
        ('[worker]\n\ntask_queue = ""\n', r"holdfast.toml:3: worker.task_queue: must not be empty, not ''"),
        ('[worker]\nimports = "a"\n', r"holdfast.toml:2: worker.imports: must be a list in brackets, not 'a'"),
        ("worker = 3\n", r"holdfast.toml:1: worker: must be a table, not 3$"),
        ("[worker]\ntask_queue = true\n", r"holdfast.toml:2: worker.task_queue: must be a text in quotes, not true"),
        ('[worker]\nhold = "on"\n', r"holdfast.toml:2: worker.hold: must be true or false, not 'on'"),
        ("[limits.answer]\nbytes = 0\n", r"holdfast.toml:2: limits.answer.bytes: must be 1 or more, not 0"),
        ("[limits.answer]\ndepth = 201\n", r"holdfast.toml:2: limits.answer.depth: must be 200 or less, not 201"),
        ('[worker]\nimports = ["a b"]\n', r"holdfast.toml:2: worker.imports.0: must be a module .*my_tools, not 'a b'"),
        ('[models.fast]\napi_key_env = "X"\n', r"holdfast.toml:1: models.fast.model: missing; add model = "),
        ('[models."fast"]\nmodle = "x"\nmodel = "x"\n', r"holdfast.toml:2: models.fast.modle: unknown key"),
        ("[limits.answr]\nbytes = 1\n", r"holdfast.toml:1: limits.answr: unknown key \(did you mean 'answer'\?\)"),
        ("[limits.answer]\nbyte = 1\n", r"holdfast.toml:2: limits.answer.byte: unknown key .*mean 'bytes'\?\)"),
        ('[limits.answer]\nbytes = "1"\n', r"holdfast.toml:2: limits.answer.bytes: must be a whole number, not '1'"),
        ("answers.key = 1\n", r"holdfast.toml:1: answers.key: unknown key \(did you mean 'keys'\?\)"),
        ('[mcp.files]\nurl = "u"\n', r"holdfast.toml:2: mcp.files.url: must be an http:// or https:// URL"),
        ("[mcp.files]\n", r'holdfast.toml:1: mcp.files: must have either command = \["…"\] or url = "…"'),
        ('[payloads]\nextrenal = ""\n', r"holdfast.toml:2: payloads.extrenal: unknown key .*mean 'external'\?\)"),
        ('[payloads]\nexternal = "/a"\n', r"holdfast.toml:2: payloads.external: must be dir:PATH, s3://.*, not '/a'"),
        ('[secrets]\nstore = "hunter2"\n', r"holdfast.toml:2: secrets.store: must be dir:PATH, a folder[^']*$"),
        ('[secrets]\nenv = ["a=hunter2"]\n', r"holdfast.toml:2: secrets.env.0: must be the name of [^']*$"),
        ('[people.ana]\nemail = "ana"\n', r"holdfast.toml:2: people.ana.email: must be an e-mail address, not 'ana'"),
        ('[people.ana]\naway_until = "x"\n', r"holdfast.toml:2: people.ana.away_until: must be a date such as"),
        ("[people.ana]\naway_till = 1\n", r"holdfast.toml:2: people.ana.away_till: unknown key .*mean 'away_until'"),
        ('[people.ana]\ndeputy = "group:a"\n', r'holdfast.toml:2: people.ana.deputy: must be "user:NAME"'),
        ("[notify.ops]\n", r"holdfast.toml:1: notify.ops: must have one of webhook = "),
        ('[notify.ops]\nwebhok = "x"\n', r"holdfast.toml:2: notify.ops.webhok: unknown key .*mean 'webhook'"),
        ('[notify.ops]\nwebhook = "http://u:p@h/"\n', r"holdfast.toml:2: notify.ops.webhook: must be an http[^']*$"),
        ('[notify.a]\ncommand = ["a"]\nevents = ["askd"]', r"holdfast.toml:3: notify.a.events.0: must be 'asked', "),
        ('[notify.a]\ncommand = ["a"]\nto = ["ana"]', r'holdfast.toml:3: notify.a.to.0: must be "user:NAME", "group:'),
        ('[notify.a]\ncommand = ["a"]\nsecret_env = "A"', r"holdfast.toml:1: notify.a: must have no secret_env"),
        ('[notify]\nfallback = "ops"\n', r"holdfast.toml:1: notify: fallback must be the name of a channel"),
        ("[notify]\nfallbck = 3\n", r"holdfast.toml:2: notify.fallbck: must be a table, not 3"),
        ('[encryption]\nkey = "K"\n', r"holdfast.toml:2: encryption.key: unknown key .*mean 'keys'"),
        ('[encryption]\nkeys = [{id = "a"}]\n', r"holdfast.toml:2: encryption.keys.0: must have one of env"),
    ],
)
def test_a_bad_file_names_line_key_and_way_out(tmp_path: Path, text: str, expected: str) -> None:
    assert re.match(expected, refusal(tmp_path, text).splitlines()[0])


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    assert len(refusal(tmp_path, "[mpc]\n[worker]\na = 1\nb = 2\n").splitlines()) == 3


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path)


def test_bad_imports_in_the_environment_name_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_IMPORTS", "a-b")
    with pytest.raises(ConfigError, match="HOLDFAST_IMPORTS=a-b: must be module names"):
        load_config(tmp_path)


def test_an_answer_key_that_is_named_must_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "holdfast.toml").write_text('[answers]\nkey_env = "MY_ANSWER_KEY"\n')
    monkeypatch.delenv("MY_ANSWER_KEY", raising=False)
    with pytest.raises(ConfigError, match="answers.key_env: MY_ANSWER_KEY is not set; export"):
        load_config(tmp_path).answer_keys()
    monkeypatch.setenv("MY_ANSWER_KEY", "secret")
    assert load_config(tmp_path).answer_keys() == [Key("default", "secret")]


def test_a_client_may_have_some_of_the_answer_keys_and_a_worker_needs_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = '{id = "inbox", env = "INBOX_KEY", proves = "person"}, {id = "ops", env = "OPS_KEY", scope = ["steer"]}'
    (tmp_path / "holdfast.toml").write_text(f"[answers]\nkeys = [{keys}]\n")
    monkeypatch.delenv("INBOX_KEY", raising=False)
    monkeypatch.setenv("OPS_KEY", "secret")
    config = load_config(tmp_path)
    assert config.answer_keys() == [Key("ops", "secret", scope=frozenset(["steer"]))]
    with pytest.raises(ConfigError, match="answers.keys: INBOX_KEY is not set"):
        config.answer_keys(every=True)
    monkeypatch.delenv("OPS_KEY")
    with pytest.raises(ConfigError, match="is not set"):
        config.answer_keys()  # else it would start runs that are not guarded


@pytest.mark.parametrize(
    "text",
    [
        '[answers]\nkey_env = "A"\nkeys = [{id = "a", env = "B"}]\n',
        '[answers]\nkeys = [{id = "a", env = "A"}, {id = "a", env = "B"}]\n',
        '[answers]\nkeys = [{id = "a.b", env = "A"}]\n',
        '[answers]\nkeys = [{id = "a", env = "A", scope = []}]\n',
    ],
)
def test_answer_keys_that_cannot_be_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "holdfast.toml").write_text(text)
    with pytest.raises(ConfigError, match="holdfast.toml:[123]: answers"):
        load_config(tmp_path)


def test_secrets_lie_in_the_state_folder_or_where_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_SECRETS", raising=False)
    monkeypatch.delenv("HOLDFAST_HOME", raising=False)
    unset = load_config(tmp_path)
    assert unset.secret_folder(embedded=True) == tmp_path / ".holdfast" / "secrets"
    assert unset.secret_folder(embedded=False) is None
    (tmp_path / "holdfast.toml").write_text('[secrets]\nstore = "dir:mine"\n')
    assert load_config(tmp_path).secret_folder(embedded=False) == tmp_path / "mine"
    monkeypatch.setenv("HOLDFAST_SECRETS", "dir:/srv/secrets")
    assert load_config(tmp_path).secret_folder(embedded=True) == Path("/srv/secrets")
    monkeypatch.setenv("HOLDFAST_SECRETS", "hunter2")
    with pytest.raises(ConfigError, match=r"^HOLDFAST_SECRETS: must be dir:PATH[^']*$"):
        load_config(tmp_path)


def test_limits_that_are_not_set_keep_their_defaults(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text("[limits.answer]\nbytes = 2000\n[limits.input]\nvalues = 7\n")
    limits = load_config(tmp_path).limits
    assert (limits.answer.bytes, limits.answer.values) == (2000, 10_000)
    assert (limits.input.bytes, limits.input.values) == (8 * 1024 * 1024, 7)


def test_channels_are_read_by_name_beside_the_fallback(tmp_path: Path) -> None:
    text = '[notify]\nfallback = "ops"\n[notify.ops]\nwebhook = "https://ops.example.com/x"\n'
    (tmp_path / "holdfast.toml").write_text(f"{text}[people.ana]\naway_until = 2026-12-24\n")
    config = load_config(tmp_path)
    assert (config.notify.fallback, list(config.notify.channels)) == ("ops", ["ops"])
    assert config.notify.channels["ops"].events == [
        "asked",
        "reminded",
        "escalated",
        "expired",
        "run_failed",
        "run_stuck",
    ]
    assert config.people["ana"].away_until == date(2026, 12, 24)


LINES = ["task_queue", "build_id", "deployment", "home"]


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("value", [" ", "two\nlines", "a\tb"])
def test_a_variable_is_one_line_with_something_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    variable = f"HOLDFAST_{name.upper()}"
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=rf"^{variable}={re.escape(repr(value))}: must (not be blank|be one line)"):
        load_config(tmp_path) if name in ("task_queue", "home") else WorkerVariables.read()


@pytest.mark.parametrize(
    "text",
    [
        '[worker]\ntask_queue = " "',
        '[worker]\nattachments = ["a\\nb"]',
        '[models.fast]\nmodel = "\\t"',
        '[serve]\nhosts = [" "]',
        '[serve]\nblueprints = ["a\\nb"]',
    ],
)
def test_a_text_of_the_file_is_one_line_with_something_in_it(tmp_path: Path, text: str) -> None:
    assert re.search(r"holdfast.toml:2: .*: must (not be blank|be one line)", refusal(tmp_path, text))


@pytest.mark.parametrize("below", ["", "/state"])
def test_a_state_folder_that_is_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str) -> None:
    (tmp_path / "taken").touch()
    monkeypatch.setenv("HOLDFAST_HOME", f"{tmp_path}/taken{below}")
    with pytest.raises(ConfigError, match=r"^HOLDFAST_HOME=.*: .*/taken is a file, and no folder; name "):
        load_config(tmp_path)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[payloads]\nexternal = "dir:taken"', "payloads.external: dir:taken"),
        ('[secrets]\nstore = "dir:taken/x"', "secrets.store: dir:taken/x"),
        ('[worker]\nattachments = ["files", "taken"]', "worker.attachments: taken"),
    ],
)
def test_a_folder_that_is_a_file_is_refused_when_the_file_is_read(tmp_path: Path, text: str, place: str) -> None:
    (tmp_path / "taken").touch()
    assert re.search(rf"holdfast.toml: {place}: .*/taken is a file, and no folder", refusal(tmp_path, text))
