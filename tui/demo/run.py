"""The demo as the screen sees it: the supervisor's process, its reports, and its end. Independent of Textual.

Start it first: the cluster starts while the screen is loaded.
"""

import json
import os
import tempfile
from collections.abc import Callable
from typing import Final

from yak.local.broker_process import parse_error
from yak.local.cluster import LocalCluster
from yak.local.demo.child import Child
from yak.local.processes import end_processes_of
from yak.local.spawn import yak_argv
from yak.tui.demo.state import DemoState

PATIENCE_SECONDS: Final = 45.0


class DemoRun:
    """Call `start()`, read `state`, call `close()`. `on_change` is called from a thread of its own."""

    def __init__(self, *, keep: bool = False, data_dir: str | None = None) -> None:
        self.keep = keep
        self.data_dir = data_dir or tempfile.mkdtemp(prefix="yak-ui-demo-")
        self.state = DemoState()
        self.on_change: Callable[[], None] = lambda: None
        self._child: Child | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start the supervisor; it ends by itself when this process ends."""
        argv = ["demo", "cluster", "--data-dir", self.data_dir, *["--keep"] * self.keep]
        self._child = Child(yak_argv(*argv), self._on_line, self._on_end)

    def _on_line(self, line: bytes) -> None:
        self.state.take(json.loads(line))
        self.on_change()

    def _on_end(self, code: int, errors: str) -> None:
        if not self._is_closed:
            self.state.error = self.state.error or parse_error(errors, code)
        self.state.take_end(code, is_requested=self._is_closed)
        self.on_change()

    def close(self) -> None:
        """Request a last count and the cleanup, and wait for both. A second call does nothing.

        If the supervisor was killed, this method cleans up itself.
        """
        if self._is_closed:
            return
        self._is_closed = True
        code: int | None = 0
        if self._child is not None:
            self._child.write(b"end\n")
            self._child.close_input()
            code = self._child.end(PATIENCE_SECONDS)
        if not self.keep:
            if code != 0:
                end_processes_of(os.path.realpath(self.data_dir))
            LocalCluster(self.data_dir).discard()
