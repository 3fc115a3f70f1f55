"""Temporal's server as a cluster of processes on PostgreSQL: frontend, two history hosts, matching, its own worker.

The server is built with Go, in the version that docker-compose.yml pins; PostgreSQL is Debian's. `deploy/schema.sh` and
`deploy/setup.sh` prepare it as they prepare a deployment.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import yaml

from drills.disturbances import Processes
from holdfast.runtime.embedded.server import find_temporal_binary
from tests.crash.machines import LONGEST_START, find_free_port, wait_for_port
from tests.repository import ROOT

MODULE = "go.temporal.io/server"
COMMANDS = (f"{MODULE}/cmd/server", f"{MODULE}/cmd/tools/sql")
SHARDS = 8
SERVICES = ("frontend", "history-1", "history-2", "matching", "system-worker")
DISTURBED = (
    "worker",
    "worker",
    "serve",
    "frontend",
    "history-1",
    "history-1",
    "history-2",
    "history-2",
    "matching",
    "postgres",
)
"""What a drill disturbs: the history hosts hold the runs, so they are hit twice as often."""
POSTGRES = "/usr/lib/postgresql"
USER = "temporal"
RECORD = "holdfast"
"""The database of the record, beside Temporal's own two."""
RECORD_URL = "HOLDFAST_RECORD_URL"


class NoToolchain(RuntimeError):
    """Something that the cluster is made of is not on this machine."""


def read_version() -> str:
    """Return the version of Temporal's server that docker-compose.yml pins."""
    match = re.search(r"temporalio/server:(\S+)", (ROOT / "docker-compose.yml").read_text())
    assert match is not None
    return f"v{match[1]}"


def build(folder: Path) -> Path:
    """Build the server and its schema tool into a folder, unless they are there; return the folder of the programs.

    Raises `NoToolchain`.
    """
    programs = folder / "bin"
    if not (programs / "server").exists() or not (programs / "temporal-sql-tool").exists():
        if shutil.which("go") is None:
            raise NoToolchain("Temporal's server is built with Go, which is not on this machine: https://go.dev/dl")
        source = folder / "source"
        source.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "GOBIN": str(programs)}
        commands = [f"{command}@{read_version()}" for command in COMMANDS]
        if not (source / "go.mod").exists():
            _run(["go", "mod", "init", "cluster"], cwd=source, env=environment)
        _run(["go", "get", *commands], cwd=source, env=environment)
        _run(["go", "install", *COMMANDS], cwd=source, env=environment)
        (programs / "sql").rename(programs / "temporal-sql-tool")
        schema = _run(["go", "list", "-m", "-f", "{{.Dir}}", MODULE], cwd=source, env=environment).strip()
        shutil.copytree(Path(schema, "schema"), folder / "schema", dirs_exist_ok=True)
    return programs


def _run(command: Sequence[str | Path], **how: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **how)  # type: ignore[call-overload]
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stdout[-1000:]}{done.stderr[-3000:]}")
    return str(done.stdout)


def find_postgres() -> Path:
    """Return the folder of PostgreSQL's programs. Raises `NoToolchain`."""
    found = sorted(Path(POSTGRES).glob("*/bin/initdb"))
    if not found:
        raise NoToolchain("there is no PostgreSQL on this machine: apt-get install postgresql")
    return found[-1].parent


class ClusterProcesses(Processes):
    """The processes of a drill, with a cluster in place of the development server.

    Args:
        folder: For state and logs. PostgreSQL runs as its own user, who must be able to reach it.
        built: The folder of `build`.
    """

    names = DISTURBED
    record = f'url_env = "{RECORD_URL}"'

    def __init__(self, folder: Path, built: Path) -> None:
        super().__init__(folder)
        del self.disks["server's disk"]  # PostgreSQL's is the machine's
        self._built = built
        self._postgres = find_postgres()
        self._sql_port = find_free_port()
        self._ports = {name: (find_free_port(), find_free_port()) for name in SERVICES}
        self._ports["frontend"] = (self.port, find_free_port())

    async def begin_server(self) -> None:
        """See base class: PostgreSQL, its schema, the services one after another, the namespace."""
        if not self._data.exists():
            self._init_database()
        self.start("postgres")
        await self._wait_for_database()
        await self._run_tool("sh", ROOT / "deploy/schema.sh")
        await self._run_tool("temporal-sql-tool", "--db", RECORD, "create")
        for name in SERVICES:  # the frontend first: all at once they race for the metadata of the cluster
            self.start(name)
            await wait_for_port(self._ports[name][0])
        await self.make_namespace("default")

    async def make_namespace(self, name: str) -> None:
        """Make a namespace, as a deployment does."""
        await self._run_tool("sh", ROOT / "deploy/setup.sh", TEMPORAL_NAMESPACE=name)

    async def _run_tool(self, *command: str | Path, **more: str) -> None:
        """Run a command with the programs, the database and the address of the cluster."""
        environment = {
            **os.environ,
            "PATH": f"{self._built / 'bin'}:{Path(find_temporal_binary()).parent}:{os.environ['PATH']}",
            "TEMPORAL_SCHEMA": str(self._built / "schema"),
            "SQL_PLUGIN": "postgres12",
            "SQL_HOST": "127.0.0.1",
            "SQL_PORT": str(self._sql_port),
            "SQL_USER": USER,
            "SQL_PASSWORD": USER,
            "TEMPORAL_ADDRESS": self.address,
            **more,
        }
        await asyncio.to_thread(_run, command, env=environment)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that tell a worker and `serve` where the record is."""
        return {RECORD_URL: self.record_place}

    @property
    def record_place(self) -> str:
        """See base class."""
        return f"postgresql://{USER}:{USER}@127.0.0.1:{self._sql_port}/{RECORD}"

    def start(self, name: str) -> None:
        """See base class."""
        if name == "postgres":
            options = [
                f"--port={self._sql_port}",
                "--listen_addresses=127.0.0.1",
                f"--unix_socket_directories={self._data}",
            ]
            self._start(name, _as_postgres([self._postgres / "postgres", "-D", self._data, *options]))
        elif name in SERVICES:
            file = self.folder / f"{name}.yaml"
            file.write_text(yaml.safe_dump(self._configure(name)))
            service = "worker" if name == "system-worker" else name.partition("-")[0]
            command = [
                self._built / "bin/server",
                "--config-file",
                file,
                "--allow-no-auth",
                "start",
                "--service",
                service,
            ]
            self._start(name, [str(word) for word in command])
        else:
            super().start(name)

    def _start(self, name: str, command: list[str], **more: str) -> None:
        super()._start(name, command, **self.environment, **more)

    async def disturb(self, name: str, by: signal.Signals, dice: random.Random) -> signal.Signals:
        """See base class. PostgreSQL is many processes: SIGQUIT ends them all, as a crash does."""
        return await super().disturb(name, signal.SIGQUIT if name == "postgres" else by, dice)

    @property
    def _data(self) -> Path:
        return self.folder / "postgres"

    async def _wait_for_database(self) -> None:
        """Wait until PostgreSQL takes connections: one that was killed recovers first, and listens meanwhile."""
        ready = [str(self._postgres / "pg_isready"), "--host=127.0.0.1", f"--port={self._sql_port}", "--quiet"]
        async with asyncio.timeout(LONGEST_START):
            while await asyncio.to_thread(lambda: subprocess.run(ready, check=False).returncode):
                await asyncio.sleep(0.2)

    def _init_database(self) -> None:
        self.folder.chmod(0o755)
        self._data.mkdir()
        password = self.folder / "password"
        password.write_text(USER)
        if os.getuid() == 0:
            shutil.chown(self._data, "postgres", "postgres")
        init: list[str | Path] = [
            self._postgres / "initdb",
            "-D",
            self._data,
            "-U",
            USER,
            f"--pwfile={password}",
            "-A",
            "md5",
        ]
        _run(_as_postgres(init), cwd="/")

    def _configure(self, name: str) -> dict[str, object]:
        """Return the configuration of a service: every service knows the places of all others."""
        store = {
            "pluginName": "postgres12",
            "connectAddr": f"127.0.0.1:{self._sql_port}",
            "connectProtocol": "tcp",
            "user": USER,
            "password": USER,
            "maxConns": 10,
            "maxIdleConns": 10,
        }
        history = name if name.startswith("history") else "history-1"
        places = {"frontend": "frontend", "history": history, "matching": "matching", "worker": "system-worker"}
        address = f"127.0.0.1:{self.port}"
        return {
            "log": {"stdout": True, "level": "warn"},
            "persistence": {
                "defaultStore": "default",
                "visibilityStore": "visibility",
                "numHistoryShards": SHARDS,
                "datastores": {
                    "default": {"sql": {**store, "databaseName": "temporal"}},
                    "visibility": {"sql": {**store, "databaseName": "temporal_visibility"}},
                },
            },
            "global": {"membership": {"maxJoinDuration": "30s", "broadcastAddress": "127.0.0.1"}},
            "services": {service: {"rpc": self._configure_ports(place)} for service, place in places.items()},
            "clusterMetadata": {
                "enableGlobalNamespace": False,
                "failoverVersionIncrement": 10,
                "masterClusterName": "active",
                "currentClusterName": "active",
                "clusterInformation": {
                    "active": {
                        "enabled": True,
                        "initialFailoverVersion": 1,
                        "rpcName": "frontend",
                        "rpcAddress": address,
                    }
                },
            },
            "dcRedirectionPolicy": {"policy": "noop"},
            "publicClient": {"hostPort": address},
            "dynamicConfigClient": {
                "filepath": str(ROOT / "deploy/dynamicconfig/holdfast.yaml"),
                "pollInterval": "60s",
            },
        }

    def _configure_ports(self, name: str) -> dict[str, object]:
        rpc, membership = self._ports[name]
        return {"grpcPort": rpc, "membershipPort": membership, "bindOnLocalHost": True}


def make_cluster(folder: Path, built: Path) -> ClusterProcesses:
    """Return the processes of a drill on a cluster, whose server is built into an absolute path.

    Raises `NoToolchain`.
    """
    processes = ClusterProcesses(folder, built)
    build(built)
    return processes


def _as_postgres(command: Sequence[str | Path]) -> list[str]:
    """Return a command as PostgreSQL's own user, as root may not run it."""
    prefix = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if os.getuid() == 0 else []
    return [*prefix, *map(str, command)]
