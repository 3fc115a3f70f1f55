"""The manifests in deploy/kubernetes hold together, and agree with the image, the code and docker-compose.yml."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer.main
import yaml

from holdfast.cli.app import app
from holdfast.runtime.config import WorkerSettings, load_config
from holdfast.runtime.config.variables import Overrides
from holdfast.runtime.health import READY
from holdfast.runtime.probe import ALIVE
from holdfast.runtime.shutdown import LEAVING_SECONDS
from holdfast.runtime.supervisor import MARGIN_SECONDS
from holdfast.server.web.metrics import HEALTH
from tests.repository import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
DOCUMENTS: list[dict[str, Any]] = [
    document
    for file in sorted(FOLDER.glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text())
    if document["kind"] != "Kustomization"
]
WORKLOADS = {one["metadata"]["name"]: one["spec"] for one in DOCUMENTS if one["kind"] == "Deployment"}
PODS = {name: spec["template"]["spec"] for name, spec in WORKLOADS.items()}
CONTAINERS = {name: pod["containers"][0] for name, pod in PODS.items()}
TEMPORAL_READS = {"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_API_KEY", "TEMPORAL_TLS"}
LONGEST = WorkerSettings().grace + LEAVING_SECONDS + MARGIN_SECONDS


def found(kind: str, name: str) -> dict[str, Any]:
    [document] = [one for one in DOCUMENTS if (one["kind"], one["metadata"].get("name")) == (kind, name)]
    return document


def sources(container: dict[str, Any]) -> list[tuple[str, str]]:
    """The kind and the name of what its environment comes from."""
    kinds = {"configMapRef": "ConfigMap", "secretRef": "Secret"}
    return [(kinds[key], ref["name"]) for source in container["envFrom"] for key, ref in source.items()]


def environment(container: dict[str, Any]) -> set[str]:
    """The names of its variables."""
    names = {one["name"] for one in container.get("env", [])}
    for kind, name in sources(container):
        document = found(kind, name)
        names |= {**document.get("data", {}), **document.get("stringData", {})}.keys()
    return names


def named_by_file() -> set[str]:
    """The variables that holdfast.toml names."""
    text = found("ConfigMap", "holdfast-config")["data"]["holdfast.toml"]
    return set(re.findall(r'(?:_env|env) = "(\w+)"', text))


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_variable_is_one_that_the_code_reads(name: str) -> None:
    ours = {f"HOLDFAST_{key.upper()}" for key in (*Overrides.model_fields, *WorkerSettings.model_fields)}
    assert environment(CONTAINERS[name]) <= ours | TEMPORAL_READS | named_by_file()


def test_every_variable_that_the_file_names_is_set_where_it_is_needed() -> None:
    assert named_by_file() <= environment(CONTAINERS["holdfast-serve"])
    assert {"HOLDFAST_ANSWER_KEY", "HOLDFAST_INBOX_KEY"} <= environment(CONTAINERS["holdfast-worker"])


def test_the_file_is_a_configuration(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "holdfast.toml").write_text(found("ConfigMap", "holdfast-config")["data"]["holdfast.toml"])
    for name in named_by_file():
        monkeypatch.setenv(name, "k" * 64)
    config = load_config(tmp_path)
    assert len(config.answer_keys(every=True)) == 2


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_command_is_one_that_the_command_line_takes(name: str) -> None:
    program, command, *arguments = CONTAINERS[name]["args"]
    assert program == "holdfast"
    taken = typer.main.get_command(app).get_command(None, command)  # type: ignore[attr-defined]
    taken.make_context(command, list(arguments))


def test_probes_ask_ports_and_paths_that_are_served() -> None:
    paths = {"holdfast-worker": {ALIVE, READY}, "holdfast-serve": {route.path for route in HEALTH}}  # type: ignore[attr-defined]
    for name, container in CONTAINERS.items():
        ports = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container[probe]["httpGet"]
            assert asked["port"] in ports and asked["path"] in paths[name]


def test_ports_are_those_that_the_processes_are_told() -> None:
    told = {one["name"]: one["value"] for one in CONTAINERS["holdfast-worker"]["env"]}
    ports = {port["name"]: str(port["containerPort"]) for port in CONTAINERS["holdfast-worker"]["ports"]}
    assert ports == {"health": told["HOLDFAST_HEALTH_PORT"], "metrics": told["HOLDFAST_METRICS_PORT"]}
    [port] = CONTAINERS["holdfast-serve"]["ports"]
    assert CONTAINERS["holdfast-serve"]["args"][-2:] == ["--port", str(port["containerPort"])]


@pytest.mark.parametrize("name", CONTAINERS)
def test_pods_have_no_privilege_and_write_only_where_the_image_has_its_state(name: str) -> None:
    own, pod = CONTAINERS[name]["securityContext"], PODS[name]["securityContext"]
    assert own == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["runAsNonRoot"] and f"--uid {pod['runAsUser']} " in DOCKERFILE
    writable = {one["mountPath"] for one in CONTAINERS[name]["volumeMounts"] if not one.get("readOnly")}
    assert writable == {"/tmp", "/var/lib/holdfast"} and "HOLDFAST_HOME=/var/lib/holdfast " in DOCKERFILE
    assert {one["name"] for one in CONTAINERS[name]["volumeMounts"]} == {one["name"] for one in PODS[name]["volumes"]}


@pytest.mark.parametrize("name", ["worker", "inbox"])
def test_containers_of_compose_have_no_privilege_either(name: str) -> None:
    service = COMPOSE[name]
    assert (service["read_only"], service["cap_drop"], service["init"]) == (True, ["ALL"], True)
    assert service["security_opt"] == ["no-new-privileges:true"] and service["user"] == "10001:10001"
    writable = {place.partition(":")[0] for place in service["tmpfs"]}
    assert writable | {mount.partition(":")[2] for mount in service.get("volumes", [])} == {"/tmp", "/var/lib/holdfast"}


def test_what_ends_a_worker_by_force_waits_longer_than_a_worker_takes() -> None:
    seconds = PODS["holdfast-worker"]["terminationGracePeriodSeconds"]
    assert seconds > LONGEST and COMPOSE["worker"]["stop_grace_period"] == f"{seconds}s"
    page = (ROOT / "docs" / "deploying.md").read_text()
    assert f"`HOLDFAST_GRACE` and {LEAVING_SECONDS + MARGIN_SECONDS:.0f} seconds" in page


def test_selectors_find_the_pods() -> None:
    labels = {name: spec["template"]["metadata"]["labels"] for name, spec in WORKLOADS.items()}
    selectors = [
        *(spec["selector"]["matchLabels"] for spec in WORKLOADS.values()),
        *(one["spec"]["podSelector"]["matchLabels"] for one in DOCUMENTS if one["kind"] == "NetworkPolicy"),
        found("Service", "holdfast-serve")["spec"]["selector"],
        found("PodDisruptionBudget", "holdfast-worker")["spec"]["selector"]["matchLabels"],
    ]
    assert all(any(one.items() <= pod.items() for pod in labels.values()) for one in selectors)


def test_workers_scale_by_the_task_queue_that_they_poll() -> None:
    scaled = found("ScaledObject", "holdfast-worker")["spec"]
    assert scaled["scaleTargetRef"]["name"] in WORKLOADS and "replicas" not in WORKLOADS["holdfast-worker"]
    [trigger] = scaled["triggers"]
    shared = found("ConfigMap", "holdfast-env")["data"]
    metadata = trigger["metadata"]
    assert (metadata["endpoint"], metadata["namespace"]) == (shared["TEMPORAL_ADDRESS"], shared["TEMPORAL_NAMESPACE"])
    assert metadata["taskQueue"] == load_config(ROOT).worker.task_queue


def test_the_list_of_resources_is_whole() -> None:
    listed = set(yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"])
    there = {file.name for file in FOLDER.glob("*.yaml")} - {"kustomization.yaml", "secrets.yaml"}
    assert {name.replace(".example", "") for name in there} == listed
