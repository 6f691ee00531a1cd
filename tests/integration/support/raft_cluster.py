"""Brokers that are their own metadata quorum: real `yak serve --metadata raft` processes, without Redis."""

import contextlib
import json
import os
import secrets
import subprocess
from pathlib import Path

import httpx
from support.waiting import wait_until

from yak.local import ports
from yak.local.processes import ProcessId, identify, kill, pause, resume, stop
from yak.local.spawn import yak_argv


class RaftCluster:
    """`get(1, "/health")` asks the first broker. Nodes beyond `voters` are observers."""

    def __init__(self, folder: Path, *, brokers: int = 3, voters: int = 3, flags: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.nodes = tuple(range(1, brokers + 1))
        self._flags = flags
        self._ports = {node: ports.find_lasting("127.0.0.1") for node in self.nodes}
        self._voters = ",".join(f"{node}@127.0.0.1:{self._ports[node]}" for node in self.nodes[:voters])
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.client = httpx.Client(timeout=30.0, trust_env=False)
        secret = folder / "secret"
        secret.write_text(f"{secrets.token_hex(32)}\n")
        secret.chmod(0o600)

    def start(self, *nodes: int) -> "RaftCluster":
        """Start these brokers, or all, and wait until each is ready."""
        for node in nodes or self.nodes:
            with contextlib.suppress(FileNotFoundError):
                self._ready_file(node).unlink()
            argv = yak_argv(
                *("serve", "--metadata", "raft", "--node-id", str(node), "--voters", self._voters),
                *("--cluster-secret-file", str(self.folder / "secret"), "--port", str(self._ports[node])),
                *("--http-port", "0", "--data-dir", str(self.folder / f"node-{node}")),
                *("--ready-file", str(self._ready_file(node)), *self._flags),
            )
            with self.log_path(node).open("ab") as log:
                environment = {name: value for name, value in os.environ.items() if not name.startswith("YAK_")}
                self._processes[node] = subprocess.Popen(argv, stdout=log, stderr=log, env=environment)
        for node in nodes or self.nodes:
            wait_until(lambda node=node: self._is_ready(node), f"broker {node}", seconds=60.0)
        return self

    def _ready_file(self, node: int) -> Path:
        return self.folder / f"ready-{node}.json"

    def _is_ready(self, node: int) -> bool:
        assert self._processes[node].poll() is None, f"broker {node} ended:\n{self.log_path(node).read_text()}"
        return self._ready_file(node).exists()

    def log_path(self, node: int) -> Path:
        """The output of a broker's process."""
        return self.folder / f"node-{node}.log"

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def process(self, node: int) -> ProcessId:
        """A broker's process, which runs."""
        found = identify(self._processes[node].pid)
        assert found is not None, f"broker {node} does not run"
        return found

    def kill9(self, node: int) -> None:
        """SIGKILL, and wait until it is gone."""
        kill(self.process(node))
        self._processes[node].wait()

    def stop(self, node: int) -> None:
        """SIGTERM, and wait."""
        stop(self.process(node), patience_seconds=20.0)
        self._processes[node].wait()

    def pause(self, node: int) -> None:
        """SIGSTOP."""
        pause(self.process(node))

    def resume(self, node: int) -> None:
        """SIGCONT."""
        resume(self.process(node))

    def close(self) -> None:
        """Kill what is left."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        self.client.close()

    def url(self, node: int, path: str = "") -> str:
        """Where a node answers HTTP."""
        port = json.loads(self._ready_file(node).read_text())["http_port"]
        return f"http://127.0.0.1:{port}{path}"

    def ask(self, node: int, method: str, path: str, **more: object) -> httpx.Response:
        """One request to one node."""
        return self.client.request(method, self.url(node, path), **more)  # type: ignore[arg-type]

    def get(self, node: int, path: str, **more: object) -> httpx.Response:
        """GET."""
        return self.ask(node, "GET", path, **more)

    def post(self, node: int, path: str, **more: object) -> httpx.Response:
        """POST."""
        return self.ask(node, "POST", path, **more)

    def quorum_leader(self, of: int = 1) -> int:
        """The quorum's leader, as this broker knows it."""
        found: list[int | None] = []

        def is_known() -> bool:
            found[:] = [self.get(of, "/api/quorum").json()["leader_id"]]
            return found[0] is not None

        wait_until(is_known, "a leader of the quorum")
        assert found[0] is not None
        return found[0]
