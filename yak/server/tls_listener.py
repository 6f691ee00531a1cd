"""The TLS of one listener: the contexts of new connections, made again when the files behind them change."""

import contextlib
import os
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import trio

from yak.errors import YakError
from yak.security.tls import Contexts, TlsSettings, make_contexts
from yak.server import log

if TYPE_CHECKING:
    from yak.server.tls_connection import TlsConnection

_CHECK_EVERY_SECONDS: Final = 10.0
_DATES_EVERY_SECONDS: Final = 86_400.0
"""A certificate that had years when it was read is warned of in time."""


class ListenerTls:
    """Contexts and unfinished handshakes of a listener. Raises YakError when its files cannot be used."""

    def __init__(self, listener: str, configs: Mapping[str, str], *, uses_sasl: bool = False) -> None:
        self.listener = listener
        self.handshake_turns = trio.Lock()
        """One step of a handshake, with its private-key operation, per pass of the event loop."""
        self.handshaking: dict[TlsConnection, None] = {}
        """The oldest first."""
        self._configs, self._uses_sasl = configs, uses_sasl
        self._overrides: Mapping[str, str] = {}
        self._reloading = threading.Lock()
        self.settings = TlsSettings.of_listener(listener, configs, uses_sasl=uses_sasl)
        self._seen = self._signatures()
        self.contexts: Contexts = self._made()
        self._failure: dict[str, object] | None = None
        """The last failure that was logged: the files are tried at each check until they can be used."""

    def reload_if_changed(self) -> bool:
        """Make the contexts again if a file changed, and once a day. If the files cannot be used, the old contexts stay.

        The files are tried again at the next call: one may have been half-written, or the temporary directory full. A
        failure is logged once. Returns whether there are new contexts.
        """
        if self._signatures() == self._seen and time.monotonic() < self._dates_due_s:
            return False
        with self._reloading:
            return self._reload(None)

    def reload(self, overrides: Mapping[str, str] | None = None) -> bool:
        """As `reload_if_changed`, also from unchanged files; `overrides` go over the configs of the start.

        Without them the last ones count, whose files may be usable now.
        """
        with self._reloading:
            self._failure = None
            self._overrides = self._overrides if overrides is None else overrides
            return self._reload({**self._configs, **self._overrides})

    def _reload(self, configs: Mapping[str, str] | None) -> bool:
        before, seen = self.settings, self._seen
        try:
            if configs is not None:
                self.settings = TlsSettings.of_listener(self.listener, configs, uses_sasl=self._uses_sasl)
            self._seen = self._signatures()
            self.contexts = self._made()
        except YakError as error:
            what = {"code": error.code, "what": error.message, "why": error.why}
            fields: dict[str, object] = {"listener": self.listener, **what}
            if fields != self._failure:
                log.write("error", "tls-reload-failed", fields)
            self.settings, self._seen, self._failure = before, seen, fields
            return False
        self._failure = None
        if configs is not None or self._seen != seen:
            log.write("info", "tls-reloaded", {"listener": self.listener})
        return True

    async def watch(self, every_seconds: float = _CHECK_EVERY_SECONDS) -> None:
        """The task that checks for changed files, until cancelled."""
        while True:
            await trio.sleep(every_seconds)
            with contextlib.suppress(RuntimeError):  # the system starts no thread; as in `run_in_thread`
                await trio.to_thread.run_sync(self.reload_if_changed, abandon_on_cancel=True)

    def _made(self) -> Contexts:
        self._dates_due_s = time.monotonic() + _DATES_EVERY_SECONDS
        contexts = make_contexts(self.settings, self.listener, time.time_ns() // 1_000_000)
        for event, fields in contexts.warnings:
            log.write("warning", event, {"listener": self.listener, **fields})
        return contexts

    def _signatures(self) -> list[tuple[int, int, int] | None]:
        return [_signature(path) for path in self.settings.files]


def _signature(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # a name with a NUL is a ValueError
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
