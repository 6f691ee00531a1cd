"""Ways to start `yak ui`: in this terminal, as plain lines, or as a self-test without a terminal."""

import asyncio
import os
import signal
import sys
import termios
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from yak.errors import UsageError, YakError
from yak.tui.formatter import Formatter
from yak.tui.rows.cluster import health_rows
from yak.tui.settings import UiSettings
from yak.tui.source.base import UNREADABLE, ClusterSource, Event, complete_topics, unreadable
from yak.tui.state.picture import Picture

_HEALTH_EVERY_MS = 10_000


async def watch(source: ClusterSource, settings: UiSettings, write: Callable[[str], None]) -> None:
    """Write the health when it changes, and each event, until cancelled."""
    picture, fmt = Picture(), Formatter(settings.zone, settings.is_ascii)  # type: ignore[arg-type]
    reported, health, checked_ms, was_lost = 0, [""], 0, False
    async for event in source.follow():
        now_ms = int(time.time() * 1000)
        try:
            picture.take(event)
            await complete_topics(source, picture, lambda: int(time.time() * 1000))
        except UNREADABLE as error:
            found = unreadable("an event of a broker", error)
            write(f"{fmt.time(now_ms, now_ms)}  {found.code}  {found.message}: {found.why}")
            continue
        for line in picture.activity.since(reported):
            write(f"{fmt.time(line.time_ms, now_ms)}  {line.kind}  {line.message}")
        reported = picture.activity.count
        is_lost = picture.lost_since_ms is not None
        if is_lost and not was_lost:
            write(f"{fmt.time(now_ms, now_ms)}  lost  no broker answers: {picture.lost_why}")
        was_lost = is_lost
        if picture.is_loaded and (event["kind"] != "progress" or now_ms - checked_ms > _HEALTH_EVERY_MS):
            checked_ms = now_ms
            now = [" ".join(cell.text for cell in row.cells) for row in health_rows(picture, fmt, now_ms)]
            if now != health:
                for text in now:
                    if text not in health:
                        write(f"{fmt.time(now_ms, now_ms)}  health  {text}")
                health = now


POLL_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 2.0
EXIT_CODE: Final = 129
"""The same as after SIGHUP."""


def watch_terminal(ask_to_end: Callable[[], None]) -> None:
    """Watch the terminal of the standard input, if it is one, until the process ends."""
    if sys.stdin is not None and sys.stdin.isatty():
        found = sys.stdin.fileno()
        threading.Thread(target=_watch, args=(found, ask_to_end), name="terminal-watch", daemon=True).start()


def _watch(terminal: int, ask_to_end: Callable[[], None]) -> None:
    while is_there(terminal):
        time.sleep(POLL_SECONDS)
    ask_to_end()
    time.sleep(PATIENCE_SECONDS)
    end_children()
    os._exit(EXIT_CODE)


def is_there(terminal: int) -> bool:
    """Whether the terminal's other end is open. After a hang-up it answers EIO (termios(3))."""
    try:
        termios.tcgetattr(terminal)
    except (termios.error, OSError):
        return False
    return True


def end_children() -> None:
    """Send SIGTERM to our child processes; each ends its own children."""
    import psutil

    for child in psutil.Process().children():
        try:
            child.terminate()
        except psutil.Error:
            continue


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
    """Run the app in this terminal; returns its exit code. Raises UsageError `no-terminal`, and the exception of a bug.

    SIGTERM, SIGHUP, and a hang-up of the terminal end it too.
    """
    require_terminal()
    from yak.tui.app import YakApp

    app = YakApp(source, settings, other_source=other_source)

    async def run() -> None:
        loop = asyncio.get_running_loop()

        def hang_up() -> None:
            with suppress(RuntimeError):  # the loop is closed: the app is ending already
                loop.call_soon_threadsafe(app.exit, EXIT_CODE)

        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, app.exit, 128 + number)
        watch_terminal(hang_up)
        await app.run_async()

    asyncio.run(run())
    if app.fault is not None:
        raise app.fault
    return app.return_value if app.return_value is not None else app.return_code or 0


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


def run_plain(
    source: ClusterSource, settings: UiSettings, write: Callable[[str], None], require_reader: Callable[[], None]
) -> None:
    """Write every change as a line, for screen readers and files, until interrupted.

    `require_reader` raises when nothing reads the lines any more, which no write finds out while nothing changes.
    """

    async def run() -> None:
        watching = asyncio.create_task(watch(source, settings, write))
        while not watching.done():
            require_reader()
            await asyncio.wait((watching,), timeout=POLL_SECONDS)
        watching.result()

    asyncio.run(run())


class _NoCluster:
    """A source that answers nothing."""

    title = bootstrap = progress = ""
    local: Any = None
    lacks = ()

    async def ask(self, *_: Any, **__: Any) -> Any:
        raise YakError("no-cluster", "a self-test has no cluster")

    kafka = ask

    async def follow(self) -> AsyncIterator[Event]:
        await asyncio.Event().wait()
        yield {}

    async def close(self) -> None:
        pass


def self_test(write: Callable[[str], None]) -> int:
    """Compose every screen without a terminal and a cluster, to check a packaged program. Raises what goes wrong."""
    from yak.tui.app import YakApp
    from yak.tui.keys import SCREENS

    async def try_all() -> None:
        app = YakApp(_NoCluster())
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
