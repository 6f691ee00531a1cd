"""A server of `yak ui --web` around the tiny app, tabs that are opened in it without a browser, and a browser."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from yak.local.processes import identify, is_running, kill

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SCREEN = ".xterm-accessibility-tree"
SERVE = Path(__file__).with_name("serve_tiny_app.py")
PATIENCE_S = 20.0


class WebServer:
    """One server process. `stop` gives what it said on its standard error."""

    def __init__(self, settings: dict[str, Any], temporary: Path) -> None:
        self.temporary = temporary
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(SERVE), json.dumps({"port": 0, **settings})],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary), "YAK_UI_TOKEN": "not-for-children"},
        )
        assert self.process.stderr is not None
        line = ""
        self.said = ""
        while "://" not in line:
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        self.address = re.findall(r"https?://\S+", line)[0]
        self.url = self.address.partition("?")[0].rstrip("/")
        self.host = self.url.partition("://")[2]

    def stop(self, number: int = signal.SIGTERM) -> str:
        if self.process.poll() is None:
            self.process.send_signal(number)
        assert self.process.stderr is not None
        self.said += self.process.stderr.read()
        self.process.wait(PATIENCE_S)
        return self.said

    def upload_directories(self) -> list[Path]:
        return list(self.temporary.glob("yak-ui-uploads-*"))


class Tab:
    """One open websocket, and what the app has drawn: all text so far, without the escapes around it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.drawn = ""
        self.messages: list[list[Any]] = []

    async def see(self, text: str) -> str:
        """Read until these words were drawn since the last `see`; what came with them."""
        async with asyncio.timeout(PATIENCE_S):
            while text not in self.drawn:
                message = await self.socket.receive()
                if message.type is aiohttp.WSMsgType.BINARY:
                    self.drawn += re.sub(r"\x1b\[[0-9;?<>$]*[A-Za-z]", "", message.data.decode())
                elif message.type is aiohttp.WSMsgType.TEXT:
                    self.messages.append(message.json())
                else:
                    raise AssertionError(f"closed before {text!r} came: {self.messages} {self.drawn[-300:]!r}")
        found, self.drawn = self.drawn, ""
        return found

    async def hear(self, kind: str) -> Any:
        """Read until a message of this kind came; its value."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for each in self.messages:
                    if each[0] == kind:
                        return each[1]
                message = await self.socket.receive()
                if message.type is aiohttp.WSMsgType.TEXT:
                    self.messages.append(message.json())
                elif message.type is not aiohttp.WSMsgType.BINARY:
                    raise AssertionError(f"closed before {kind!r} came: {self.messages}")

    async def begun(self) -> int:
        """Wait for the app's first picture; its process id."""
        found = re.search(r"pid (\d+) tiny app is here", await self.see("tiny app is here"))
        assert found is not None
        return int(found[1])

    async def type(self, keys: str) -> None:
        await self.socket.send_json(["stdin", keys])

    async def click(self, column: int, row: int) -> None:
        await self.type(f"\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m")

    async def ended(self) -> dict[str, str]:
        """Wait for the end; what the page would say of it."""
        said: dict[str, str] = await self.hear("ended")
        async with asyncio.timeout(PATIENCE_S):
            while not (await self.socket.receive()).type.name.startswith("CLOS"):
                pass
        return said


@contextlib.asynccontextmanager
async def open_tab(session: aiohttp.ClientSession, url: str, token: str = "", **how: Any) -> AsyncIterator[Tab]:
    query = f"width=80&height=24{f'&token={token}' if token else ''}"
    async with session.ws_connect(f"{url}/ws?{query}", max_msg_size=0, **how) as socket:
        yield Tab(socket)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Callable[..., WebServer]]:
    """Start servers: `web(token=…, readonly=…)`. They are gone when the test ends."""
    started: list[WebServer] = []

    def start(**settings: Any) -> WebServer:
        started.append(WebServer(settings, tmp_path))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.stop()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """One server for all tests of a file that leave it as it was."""
    server = WebServer({}, tmp_path_factory.mktemp("web"))
    yield server
    server.stop()


@pytest.fixture
def tab() -> Callable[..., Any]:
    return open_tab


@pytest.fixture
def gone() -> Callable[[int], bool]:
    """Whether a process ends within our patience; it is killed if not."""

    def is_gone(pid: int) -> bool:
        process = identify(pid)
        if process is None:
            return True
        deadline = time.monotonic() + PATIENCE_S
        while is_running(process):
            if time.monotonic() > deadline:
                kill(process)
                return False
            time.sleep(0.02)
        return True

    return is_gone


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Not for longer than a file: Playwright keeps an event loop running, and other files' tests have their own."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (make setup)")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    with sync_api.sync_playwright() as playwright:
        # Without its sandbox: in a container as root Chromium has none, and it opens our own pages only.
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


class Page:
    """One page, with what it asked for and complained about, and the terminal's lines."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE_S * 1000)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("websocket", lambda socket: self.requests.append(socket.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda line: line.type == "error" and self.complaints.append(line.text))

    def see(self, text: str | re.Pattern[str]) -> None:
        """Wait until the terminal shows these words."""
        self.page.locator(SCREEN).filter(has_text=text).wait_for()

    def miss(self, text: str | re.Pattern[str]) -> None:
        """Wait until the terminal does not show these words any more."""
        self.page.locator(SCREEN).filter(has_text=text).wait_for(state="hidden")

    def click(self, label: str) -> None:
        """Click on the middle of the first place in the terminal where this label stands."""
        self.see(label)
        lines = self.page.locator(f"{SCREEN} > div").all_text_contents()
        row, text = next((row, text) for row, text in enumerate(lines) if label in text)
        box = self.page.locator(".xterm-screen").bounding_box()
        columns = max(map(len, lines))
        column = text.index(label) + len(label) / 2
        self.page.mouse.click(
            box["x"] + box["width"] * column / columns, box["y"] + box["height"] * (row + 0.5) / len(lines)
        )


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Page]]:
    """Open an address in a browser of its own (no cookie of another test), with the screen written as text."""
    with contextlib.ExitStack() as stack:

        def go(address: str, *, width: int = 1000) -> Page:
            context = browser.new_context(viewport={"width": width, "height": 600}, accept_downloads=True)
            stack.callback(context.close)
            opened = Page(context.new_page())
            opened.page.goto(address + ("&" if "?" in address else "?") + "reader=1")
            return opened

        yield go
