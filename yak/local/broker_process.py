"""One `yak serve` as a child process: start it, wait until it is ready, and report the error when it fails.

A broker writes its ready file (JSON: node_id, address, pid) once it answers clients. When the broker ends earlier, the
last three-part error of its log is raised here under the same slug.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from yak.errors import CheckFailed, StartRefused, Unreachable, UsageError, WaitTimeout, YakError
from yak.local.log_file import has_event, last_line, read_end, size
from yak.local.processes import ProcessId, identify
from yak.local.quorum import BOTH, REDIS, QuorumSpec
from yak.local.spawn import spawn_detached, yak_argv, yak_environment
from yak.private_files import make_directory

READY_TIMEOUT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.005
_FROZEN_CHECK_SECONDS: Final = 0.5
_NO_MORE_FROZEN: Final = "metadata-unfrozen"
_OF_FREEZING: Final = ("metadata-frozen", "metadata-restore-offered", _NO_MORE_FROZEN)
"""Log events of a broker that waits for the cluster's history, and of the end of that."""
_FROZEN_PATIENCE_SECONDS: Final = 3.0
"""For so long the metadata store may still get its history, or the broker may still offer its image."""
_WAITS_FOR_QUORUM: Final = "waiting for the metadata quorum:"
"""A broker begins a line of its log with this after five seconds without a leader of the quorum."""
_HAS_LEADER: Final = "quorum-leader-"
"""In the log's lines about a leader that was elected, or is followed."""
_ERROR_LINE = re.compile(r"^error\[([a-z0-9-]+)\]: (.*)$")
_REASON: Final = re.compile(r'''reason(?:=|": )"((?:[^"\\]|\\.)*)"''')
"""In a line of text or JSON."""
_BY_EXIT_CODE: Final[dict[int, type[YakError]]] = {
    kind.exit_code: kind for kind in (StartRefused, UsageError, Unreachable, CheckFailed, WaitTimeout)
}


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """The settings of one broker. `configs` are `name=value` pairs for `yak serve -c`; `role` is leader or follower.

    With a `quorum`, `redis_url` is unused, except while the metadata move.
    """

    node_id: int
    host: str
    port: int
    data_dir: str
    redis_url: str
    configs: tuple[str, ...] = ()
    role: str = "leader"
    http_port: int | None = None
    """None: no HTTP listener."""
    quorum: QuorumSpec | None = None
    listeners: tuple[str, ...] = ()
    """Arguments of `yak serve` with all listeners (`yak.local.listeners`), in the place of host and port."""

    def serve_arguments(self, ready_file: str) -> list[str]:
        """The arguments of `yak serve` for this spec."""
        arguments = ["serve", "--node-id", str(self.node_id)]
        arguments += self.listeners
        if not self.listeners and not any(config.startswith("listeners=") for config in self.configs):
            arguments += ["--host", self.host, "--port", str(self.port)]
        arguments += [
            "--role",
            self.role,
            "--data-dir",
            self.data_dir,
            *self._metadata_arguments(),
            "--ready-file",
            ready_file,
        ]
        arguments += ["--no-http"] if self.http_port is None else ["--http-port", str(self.http_port)]
        for config in self.configs:
            arguments += ["-c", config]
        return arguments

    def _metadata_arguments(self) -> list[str]:
        if self.quorum is None:
            return ["--metadata", REDIS, "--redis-url", self.redis_url]
        redis = ["--redis-url", self.redis_url] if self.quorum.metadata == BOTH else []
        return [*self.quorum.serve_arguments(), *redis]


@dataclass(frozen=True, slots=True)
class ReadyBroker:
    """A broker that answers clients at `address` (host:port), with its broker epoch."""

    node_id: int
    address: str
    process: ProcessId
    broker_epoch: int | None = None
    http_port: int | None = None
    http_tls: bool = False


def read_ready_file(path: Path) -> ReadyBroker | None:
    """The broker that wrote this ready file, and runs; None without such a broker."""
    try:
        ready = json.loads(path.read_text("utf-8"))
        node_id, address, pid = int(ready["node_id"]), str(ready["address"]), int(ready["pid"])
    except (FileNotFoundError, ValueError, KeyError):
        return None
    # The pid is the broker's: in the one-file executable our child process is the bootloader.
    process = identify(pid)
    if process is None:
        return None
    http_port, http_tls = ready.get("http_port"), bool(ready.get("http_tls"))
    return ReadyBroker(node_id, address, process, ready.get("broker_epoch"), http_port, http_tls)


class StartingBroker:
    """A started broker process that is not ready yet."""

    def __init__(self, spec: BrokerSpec, *, log_path: str, ready_file: str, is_alone: bool = False) -> None:
        """`is_alone`: no other broker is started with it, so a quorum that has no majority will not get one."""
        self.spec = spec
        self._is_alone = is_alone
        self.log_path = log_path
        self._ready_file = Path(ready_file)
        make_directory(str(self._ready_file.parent))
        self._ready_file.unlink(missing_ok=True)
        self._log_start = size(log_path)
        self._started_at = self._frozen_checked_at = self._said_last_at = time.monotonic()
        self._said_last = ""
        self._child: subprocess.Popen[bytes] = spawn_detached(
            yak_argv(*spec.serve_arguments(ready_file)), log_path=log_path, environment=yak_environment()
        )
        process = identify(self._child.pid)
        self.process = process if process is not None else ProcessId(self._child.pid, "ended")

    def wait_ready(self, timeout_seconds: float = READY_TIMEOUT_SECONDS) -> ReadyBroker:
        """Wait for the ready file. Raises the errors of `poll`."""
        while True:
            ready = self.poll(timeout_seconds)
            if ready is not None:
                return ready
            time.sleep(_POLL_SECONDS)

    def poll(self, timeout_seconds: float = READY_TIMEOUT_SECONDS) -> ReadyBroker | None:
        """Return the broker if it is ready, else None.

        Raises the broker's own YakError when it ended. Raises WaitTimeout after the timeout, and StartRefused when
        the metadata store does not hold the broker's history; both kill the process. So does WaitTimeout
        (`quorum-incomplete`) when a broker alone waits for its quorum.
        """
        ready = read_ready_file(self._ready_file)
        if ready is not None:
            return ready
        exit_code = self._child.poll()
        if exit_code is not None:
            raise self._why_it_ended(exit_code)
        now = time.monotonic()
        if now >= self._started_at + timeout_seconds:
            self.abandon()
            raise WaitTimeout(
                "broker-not-ready",
                f"node {self.spec.node_id} was not ready after {timeout_seconds:.0f} s",
                why=last_line(self.log_path, self._log_start) or "its log is empty",
                try_=(f"tail {self.log_path}",),
            )
        if now - self._frozen_checked_at >= _FROZEN_CHECK_SECONDS:
            self._frozen_checked_at = now
            if self.spec.quorum is None or self.spec.quorum.metadata != BOTH:
                self._check_not_frozen()  # with both, a store that has no metadata now is usual
            if self._is_alone:
                self._check_quorum()
        return None

    def _check_quorum(self) -> None:
        """Fail the start of one broker when it waits for voters that do not run."""
        lines = [
            line for line in self._new_log().splitlines() if line.startswith(_WAITS_FOR_QUORUM) or _HAS_LEADER in line
        ]
        line = lines[-1].strip() if lines else ""
        if not line.startswith(_WAITS_FOR_QUORUM):
            return
        self.abandon()
        raise WaitTimeout(
            "quorum-incomplete",
            f"node {self.spec.node_id} cannot start alone: the metadata quorum has no leader",
            why=f"a majority of its voters must run, and this one was {line.removeprefix(_WAITS_FOR_QUORUM).strip()}",
            try_=("yak up          starts every broker that does not run",),
        )

    def _check_not_frozen(self) -> None:
        """Fail the start at once when the metadata store lacks the history, for which a broker alone would wait
        forever."""
        # the broker goes on to log other events, of peers that are gone or of a slow machine
        lines = [line for line in self._new_log().splitlines() if any(has_event(line, each) for each in _OF_FREEZING)]
        line, now = lines[-1].strip() if lines else "", time.monotonic()
        if line != self._said_last:
            self._said_last, self._said_last_at = line, now
        is_frozen = line and not has_event(line, _NO_MORE_FROZEN)
        if not is_frozen or now - self._said_last_at < _FROZEN_PATIENCE_SECONDS:
            return
        self.abandon()
        raise StartRefused(
            "broker-frozen",
            f"node {self.spec.node_id} cannot start: the metadata store does not hold its history",
            why=reason[1] if (reason := _REASON.search(line)) else line,
            try_=(
                "bring the metadata store's own data back, then start again",
                "yak cluster restore, then start again",
            ),
        )

    def abandon(self) -> None:
        """Kill the process and its session; in the one-file executable these are the bootloader and the broker."""
        if self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(5.0)

    def _new_log(self) -> str:
        return read_end(self.log_path, self._log_start)

    def _why_it_ended(self, exit_code: int) -> YakError:
        found = parse_error(self._new_log(), exit_code)
        if found is not None:
            return found
        how = f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
        return StartRefused(
            "broker-ended",
            f"node {self.spec.node_id} ended before it was ready ({how})",
            why=last_line(self.log_path, self._log_start) or "its log is empty",
            try_=(f"tail {self.log_path}",),
        )


def wait_all_ready(starting: Sequence[StartingBroker], on_ready: Callable[[int, ReadyBroker], None]) -> None:
    """Wait for all brokers together; call `on_ready` with the index of each as it becomes ready. Raises the first
    error."""
    waiting = dict(enumerate(starting))
    while waiting:
        for index, child in list(waiting.items()):
            ready = child.poll()
            if ready is not None:
                del waiting[index]
                on_ready(index, ready)
        if waiting:
            time.sleep(_POLL_SECONDS)


def parse_error(text: str, exit_code: int) -> YakError | None:
    """Parse the last three-part error (`error[slug]: what`, `why:`, `try:`) of a text into its YakError.

    The exit code selects the class. None when the text has no such error.
    """
    code, message, why = "", "", ""
    tries: list[str] = []
    in_try = False
    for line in text.splitlines():
        head = _ERROR_LINE.match(line)
        if head:
            code, message, why, tries, in_try = head[1], head[2], "", [], False
        elif code and line.startswith("  why:"):
            why, in_try = line[6:].strip(), False
        elif code and line.startswith("  try:"):
            tries.append(line[6:].strip())
            in_try = True
        elif in_try and line.startswith("        ") and line.strip():
            tries.append(line.strip())
        else:
            in_try = False
    if not code:
        return None
    return _BY_EXIT_CODE.get(exit_code, StartRefused)(code, message, why=why, try_=tuple(tries))
