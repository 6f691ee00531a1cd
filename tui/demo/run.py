"""The demo as the screen sees it: the supervisor's process, its reports, and its end. Independent of Textual.

Start it first: the cluster starts while the screen is loaded.
"""

import contextlib
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable
from typing import IO, Final

from yak.errors import YakError
from yak.local.broker_process import parse_error
from yak.local.cluster import LocalCluster
from yak.local.leftovers import end_processes_of
from yak.local.spawn import yak_argv, yak_environment
from yak.tui.demo.state import DemoState

PATIENCE_SECONDS: Final = 45.0
_ERRORS_SHOWN_BYTES: Final = 8_192


class DemoRun:
    """Call `start()`, read `state`, call `close()`. `on_change` is called from a thread of its own."""

    def __init__(self, *, keep: bool = False, brokers: int = 3, data_dir: str | None = None) -> None:
        self.keep = keep
        self.brokers = brokers
        self.data_dir = data_dir or tempfile.mkdtemp(prefix="yak-ui-demo-")
        self.state = DemoState()
        self.on_change: Callable[[], None] = lambda: None
        self._child: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._is_closed = False

    def start(self) -> None:
        """Start the supervisor; it ends by itself when this process ends."""
        words = ["demo", "cluster", "--data-dir", self.data_dir, "--brokers", str(self.brokers)]
        self._child = subprocess.Popen(  # noqa: S603 - our own command, no shell
            yak_argv(*words, *(["--keep"] if self.keep else [])),
            env=yak_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        assert self._child.stdout is not None, "asked for above"
        self._reader = threading.Thread(target=self._read, args=(self._child.stdout,), name="demo", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int | None:
        """The supervisor's process id."""
        return None if self._child is None else self._child.pid

    def _read(self, stdout: IO[bytes]) -> None:
        assert self._child is not None, "started"
        with stdout:
            for line in stdout:
                self.state.take(json.loads(line))
                self.on_change()
        code = self._child.wait()
        if not self._is_closed:
            self.state.error = self.state.error or self._why_it_ended(code)
        self.state.take_end(code, is_asked=self._is_closed)
        self.on_change()

    def _why_it_ended(self, code: int) -> YakError | None:
        self._errors.seek(0)
        text = self._errors.read()[-_ERRORS_SHOWN_BYTES:].decode("utf-8", "replace")
        return parse_error(text, code)

    def close(self) -> None:
        """Request a last count and the cleanup, and wait for both. A second call does nothing.

        If the supervisor was killed, this method cleans up itself.
        """
        if self._is_closed:
            return
        self._is_closed = True
        child = self._child
        if child is not None:
            assert child.stdin is not None, "asked for at the start"
            with contextlib.suppress(OSError):  # it has ended already
                child.stdin.write(b"end\n")
                child.stdin.close()
            try:
                child.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            if self._reader is not None:
                self._reader.join(1.0)
        self._errors.close()
        if not self.keep:
            if child is not None and child.returncode != 0:
                end_processes_of(os.path.realpath(self.data_dir))
            LocalCluster(self.data_dir).discard()
