"""The deployment: what stands in docker-compose.yml holds together, and the set-up script does its work on a server."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import yaml
from temporalio.testing import WorkflowEnvironment

from client.connect import missing_search_attributes
from tests.conftest import temporal_binary
from tests.test_architecture import HOME

COMPOSE = yaml.safe_load((HOME / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]


def test_every_dependency_is_a_service_and_waits_for_the_right_state() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            wanted = how["condition"]
            assert other in SERVICES, f"{name} depends on {other}"
            assert wanted != "service_healthy" or "healthcheck" in SERVICES[other]
            assert wanted != "service_completed_successfully" or SERVICES[other]["restart"] == "on-failure"


def test_images_are_pinned_and_none_is_the_deprecated_one() -> None:
    images = [service["image"] for service in SERVICES.values() if "image" in service]
    assert all(":" in image.partition("/")[2] or ":" in image for image in images)
    assert not any("auto-setup" in image or image.endswith(":latest") for image in images)


def test_what_is_mounted_is_there() -> None:
    mounts = [mount for service in SERVICES.values() for mount in service.get("volumes", [])]
    for mount in mounts:
        source = mount.partition(":")[0]
        assert source in COMPOSE["volumes"] or (HOME / source).exists()


def test_the_image_holds_every_room_and_no_tests() -> None:
    copied = [line for line in (HOME / "Dockerfile").read_text().splitlines() if line.startswith("COPY")]
    assert {line.split()[1] for line in copied} >= {"blueprint", "protocol", "workflows", "activities", "client"}
    assert not any("tests" in line for line in copied)


async def test_the_set_up_script_makes_a_namespace_ready_and_may_run_twice() -> None:
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=temporal_binary()) as server:
        address = server.client.service_client.config.target_host
        environment = {
            "PATH": f"{Path(temporal_binary()).parent}:{os.environ['PATH']}",
            "TEMPORAL_ADDRESS": address,
            "TEMPORAL_NAMESPACE": "people",
        }
        for _ in range(2):
            script = ["sh", str(HOME / "deploy" / "setup.sh")]
            done = await asyncio.to_thread(subprocess.run, script, env=environment, capture_output=True, text=True)
            assert (done.returncode, done.stdout) == (0, "namespace people is ready\n"), done.stderr
        assert await missing_search_attributes(server.client, "people") == []
