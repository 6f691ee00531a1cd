"""Ways to start `yak ui`: in this terminal, as plain lines, or as a self-test without a terminal."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

from yak.errors import UsageError
from yak.tui.settings import UiSettings
from yak.tui.source.base import ClusterSource


def live_source(
    bootstrap: str, settings: UiSettings, *, title: str = "", token: str = "", data_dirs: tuple[str, ...] = ()
) -> ClusterSource:
    """The cluster at these addresses.

    Its processes can be controlled if `yak up` runs it in one of these directories.
    """
    from yak.tui.source.live import LiveSource
    from yak.tui.source.local_control import find_local

    local = find_local(bootstrap, data_dirs) if data_dirs else None
    http = {}
    if local is not None:
        http = {each.node_id: each.http_address for each in local.status().brokers if each.http_address}
    return LiveSource(bootstrap, title=title or settings.context, http=http, local=local, token=token or settings.token)


def run_app(
    source: ClusterSource, settings: UiSettings, other_source: Callable[[str], ClusterSource] | None = None
) -> int:
    """Run the app in this terminal; returns its exit code. Raises UsageError `no-terminal`.

    SIGTERM, SIGHUP, and a hang-up of the terminal end it too.
    """
    require_terminal()
    from yak.tui.app import YakApp
    from yak.tui.terminal_watch import EXIT_CODE, watch_terminal

    app = YakApp(source, settings, other_source=other_source)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, app.exit, 128 + number)
        watch_terminal(lambda: _ask(loop, lambda: app.exit(EXIT_CODE)))
        await app.run_async()

    asyncio.run(run())
    return app.return_value if app.return_value is not None else app.return_code or 0


def _ask(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed: the app is ending already
        loop.call_soon_threadsafe(what)


def require_terminal() -> None:
    """Raises UsageError `no-terminal`."""
    is_tab = "TEXTUAL_DRIVER" in os.environ  # set by `yak ui --web`, which draws to a pipe
    if not sys.stdout.isatty() and not is_tab:
        raise UsageError(
            "no-terminal",
            "yak ui needs a terminal",
            why="standard output is not one",
            try_=("yak ui --plain", "yak ui --web", "yak isr --watch"),
        )


def run_plain(source: ClusterSource, settings: UiSettings, write: Callable[[str], None]) -> int:
    """Write every change as a line, for screen readers and files, until interrupted."""
    from yak.tui.plain_watch import watch

    asyncio.run(watch(source, settings, write))
    return 0


def self_test(write: Callable[[str], None]) -> int:
    """Compose every screen without a terminal and a cluster, to check a packaged program. Raises what goes wrong."""
    from yak.tui.app import YakApp
    from yak.tui.screens.table import SCREENS
    from yak.tui.source.recorded import RecordedSource

    async def try_all() -> None:
        app = YakApp(RecordedSource({}, []))
        async with app.run_test(size=(80, 24)) as pilot:
            for entry in SCREENS:
                app.go(entry.name)
                await pilot.pause()
                write(f"{entry.name} ok")

    asyncio.run(try_all())
    return 0


def contexts_of(known: Mapping[str, Mapping[str, object]]) -> dict[str, Mapping[str, object]]:
    """The contexts that name brokers."""
    return {name: values for name, values in known.items() if values.get("bootstrap_servers")}
