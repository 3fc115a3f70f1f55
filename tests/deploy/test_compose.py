"""The deployment: docker-compose.yml holds together, and the set-up script makes a server ready for a worker."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from holdfast.runtime.embedded.server import find_temporal_binary
from holdfast.runtime.namespace import find_missing_search_attributes
from tests.conftest import until
from tests.repository import ROOT

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SERVER_READS = {
    *("DB", "DB_PORT", "POSTGRES_SEEDS", "POSTGRES_USER", "POSTGRES_PWD"),
    *("NUM_HISTORY_SHARDS", "BIND_ON_IP", "DYNAMIC_CONFIG_FILE_PATH"),
}
"""Variables of the configuration that temporalio/server 1.32 carries; any other is ignored in silence."""
SQL_TOOL_READS = {"SQL_PLUGIN", "SQL_HOST", "SQL_PORT", "SQL_USER", "SQL_PASSWORD"}


def test_every_dependency_is_a_service_that_can_reach_the_awaited_state() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            wanted = how["condition"]
            assert other in SERVICES, f"{name} depends on {other}"
            assert wanted != "service_healthy" or "healthcheck" in SERVICES[other]
            assert wanted != "service_completed_successfully" or SERVICES[other]["restart"] == "on-failure"


def test_images_are_pinned_to_a_full_version_and_none_is_the_deprecated_one() -> None:
    images = [service["image"] for service in SERVICES.values() if "image" in service]
    assert all(re.search(r":\d+\.\d+(\.\d+)?$", image) for image in images)
    assert not any("auto-setup" in image for image in images)
    versions = {image.partition(":")[2] for image in images if re.match("temporalio/(server|admin-tools):", image)}
    assert len(versions) == 1, "the schema must be the server's"


def test_the_images_know_the_variables_that_they_are_given() -> None:
    assert set(SERVICES["temporal"]["environment"]) == SERVER_READS
    assert set(SERVICES["schema"]["environment"]) == SQL_TOOL_READS
    password = SERVICES["postgres"]["environment"]["POSTGRES_PASSWORD"]
    assert SERVICES["temporal"]["environment"]["POSTGRES_PWD"] == password
    assert SERVICES["schema"]["environment"]["SQL_PASSWORD"] == password


def test_what_is_mounted_is_there_and_volumes_are_declared() -> None:
    for service in SERVICES.values():
        for mount in service.get("volumes", []):
            source = mount.partition(":")[0]
            assert source in COMPOSE["volumes"] or (source.startswith("./") and (ROOT / source).exists())
    folder, name = Path(SERVICES["temporal"]["environment"]["DYNAMIC_CONFIG_FILE_PATH"]).parts[-2:]
    assert yaml.safe_load((ROOT / "deploy" / folder / name).read_text())


def test_ports_are_published_to_this_machine_alone() -> None:
    assert all(port.startswith("127.0.0.1:") for service in SERVICES.values() for port in service.get("ports", []))


def test_what_stays_up_comes_back_and_tells_its_health() -> None:
    assert {SERVICES[name]["restart"] for name in ("postgres", "temporal", "ui", "worker", "inbox")} == {
        "unless-stopped"
    }
    assert "healthcheck" in SERVICES["postgres"] and "healthcheck" in SERVICES["temporal"]
    assert SERVICES["worker"]["build"] == SERVICES["inbox"]["build"] == "."
    assert "HEALTHCHECK" in DOCKERFILE and "HOLDFAST_HEALTH_PORT=" in DOCKERFILE


def test_the_image_holds_every_room_and_nothing_else() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    rooms = {path.name for path in (ROOT / "holdfast").iterdir() if path.is_symlink()}
    assert copied == {"holdfast", *rooms, "examples", "pyproject.toml", "constraints.txt", "README.md", "LICENSE"}
    assert all((ROOT / name).exists() for name in copied)


def probe_of_the_image() -> list[str]:
    """Return the arguments of `python` that the image checks its health with."""
    found = re.search(r"^HEALTHCHECK .* CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert found is not None
    python, *words = json.loads(found[1])
    assert python == "python"
    return list(words)


def test_the_health_check_of_the_image_imports_no_worker(tmp_path: Path) -> None:
    """It is a process of its own every 30 seconds."""
    options, _, module = probe_of_the_image()
    code = f"import sys, runpy; runpy.run_module({module!r}); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, options, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert {"temporalio", "pydantic", "holdfast.worker"}.isdisjoint(done.stdout.split())


@pytest.mark.parametrize(
    ("port", "code", "problem"),
    [
        ("", 2, "HOLDFAST_HEALTH_PORT is not set; set it for the worker and for the health check alike"),
        ("99999", 2, "HOLDFAST_HEALTH_PORT=99999: must be a whole number, 0 to 65535"),
        ("1", 1, "no worker answers on port 1: "),
    ],
)
def test_the_health_check_tells_what_is_wrong(tmp_path: Path, port: str, code: int, problem: str) -> None:
    asks = [sys.executable, *probe_of_the_image()]
    done = subprocess.run(asks, cwd=tmp_path, env={"HOLDFAST_HEALTH_PORT": port}, capture_output=True, text=True)
    assert (done.returncode, done.stderr.startswith(problem)) == (code, True)


def test_it_runs_as_nobody_special_without_the_embedded_server() -> None:
    assert re.search(r"^USER holdfast$", DOCKERFILE, re.MULTILINE)
    assert "embedded" not in DOCKERFILE


def test_the_inbox_keeps_its_state_and_has_what_it_needs() -> None:
    [mount] = SERVICES["inbox"]["volumes"]
    volume, _, folder = mount.partition(":")
    assert volume in COMPOSE["volumes"] and f"HOLDFAST_HOME={folder} " in DOCKERFILE
    assert re.search(
        rf"^RUN install --directory --owner=holdfast --mode=0700 {folder} /var/lib/secrets$", DOCKERFILE, re.MULTILINE
    )
    extras = re.search(r'"\.\[([\w,]+)\]"', DOCKERFILE)
    assert extras is not None and {"serve", "postgres", "notify", "mcp"} <= set(extras[1].split(","))


@pytest.mark.slow
async def test_the_inbox_starts_and_its_health_check_finds_it(bare: WorkflowEnvironment, tmp_path: Path) -> None:
    await set_up(bare, "inbox")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    inbox = SERVICES["inbox"]
    assert inbox["ports"] == ["127.0.0.1:8090:8090"] and inbox["environment"]["HOLDFAST_HEALTH_PORT"] == "8090"
    environment = {
        **inbox["environment"],
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TEMPORAL_ADDRESS": bare.client.service_client.config.target_host,
        "TEMPORAL_NAMESPACE": "inbox",
        "HOLDFAST_HOME": str(tmp_path / "state"),
        "HOLDFAST_HEALTH_PORT": port,
    }
    command = [port if word == "8090" else word for word in inbox["command"]]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
    asks = [sys.executable, *probe_of_the_image()]

    async def healthy() -> bool:
        asked = await asyncio.to_thread(subprocess.run, asks, cwd=tmp_path, env=environment, capture_output=True)
        return asked.returncode == 0 or process.poll() is not None

    try:
        await until(healthy, "a healthy inbox")
    finally:
        process.send_signal(signal.SIGTERM)
        _, told = await asyncio.to_thread(process.communicate, None, 30)
    assert process.returncode == 0, told.decode()
    assert f"The inbox: http://127.0.0.1:{port}/?once=" in told.decode()


@pytest.mark.parametrize("script", ["setup.sh", "schema.sh"])
def test_the_scripts_are_plain_sh(script: str) -> None:
    subprocess.run(["sh", "-n", str(ROOT / "deploy" / script)], check=True)


@pytest.fixture(scope="module")
async def bare() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=find_temporal_binary()) as environment:
        yield environment


async def set_up(server: WorkflowEnvironment, namespace: str) -> None:
    environment = {
        "PATH": f"{Path(find_temporal_binary()).parent}:{os.environ['PATH']}",
        "TEMPORAL_ADDRESS": server.client.service_client.config.target_host,
        "TEMPORAL_NAMESPACE": namespace,
    }
    command = ["sh", str(ROOT / "deploy" / "setup.sh")]
    done = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"namespace {namespace} is ready\n"), done.stderr


async def kept(client: Client, namespace: str) -> timedelta:
    described = await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace=namespace), retry=True
    )
    return described.config.workflow_execution_retention_ttl.ToTimedelta()


@pytest.mark.slow
async def test_the_set_up_makes_a_namespace_ready_and_may_run_twice(bare: WorkflowEnvironment) -> None:
    for _ in range(2):
        await set_up(bare, "people")
        assert await find_missing_search_attributes(bare.client, "people") == []
        assert await kept(bare.client, "people") == timedelta(days=90)


@pytest.mark.slow
async def test_the_set_up_raises_how_long_closed_runs_are_kept_and_never_lowers_it(bare: WorkflowEnvironment) -> None:
    for before, after in (("24h", timedelta(days=90)), ("8760h", timedelta(days=365))):
        namespace = f"kept-{before}"
        address = bare.client.service_client.config.target_host
        create = ["operator", "namespace", "create", "--namespace", namespace, "--retention", before]
        command = [find_temporal_binary(), *create, "--address", address]
        await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
        await set_up(bare, namespace)
        assert await kept(bare.client, namespace) == after


@pytest.mark.slow
async def test_a_worker_of_a_project_with_folders_named_like_ours_gets_healthy(
    bare: WorkflowEnvironment, tmp_path: Path
) -> None:
    for name in ("client", "workflows"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not ours')")
    await set_up(bare, "healthy")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {
        "PATH": os.environ["PATH"],
        "TEMPORAL_ADDRESS": bare.client.service_client.config.target_host,
        "TEMPORAL_NAMESPACE": "healthy",
        "HOLDFAST_HEALTH_PORT": str(port),
    }
    holdfast = [str(Path(sys.executable).parent / "holdfast"), "worker"]
    asks = [sys.executable, *probe_of_the_image()]
    process = subprocess.Popen(holdfast, cwd=tmp_path, env=environment, stderr=subprocess.PIPE)

    async def healthy() -> bool:
        asked = await asyncio.to_thread(subprocess.run, asks, cwd=tmp_path, env=environment, capture_output=True)
        return asked.returncode == 0 or process.poll() is not None

    try:
        await until(healthy, "a healthy worker")
    finally:
        process.send_signal(signal.SIGTERM)
        _, told = await asyncio.to_thread(process.communicate, None, 30)
    assert process.returncode == 0, told.decode()
