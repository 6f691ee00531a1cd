"""The open tabs of one server: their limit, their uploads, and their end."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from aiohttp import web

from yak.tui.web.downloads import Downloads
from yak.tui.web.session import STOPPED, End, Session, farewell


class Sessions:
    """A limited number of sessions, each with a child process started by the same command."""

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        count_max: int,
        problem: Callable[[str], None],
    ) -> None:
        self.downloads = Downloads()
        self._argv = list(argv)
        self._environment = dict(environment)
        self._count_max = count_max
        self._problem = problem
        self._open: dict[str, Session] = {}
        self._is_stopping = False

    @property
    def are_full(self) -> bool:
        """Whether a new tab would be refused."""
        return len(self._open) >= self._count_max

    @property
    def full_words(self) -> End:
        """The message for a refused tab."""
        return End(f"{self._count_max} tabs are open, and more are not served.", "Close one, then reload this page.")

    async def serve(self, socket: web.WebSocketResponse, width: int, height: int) -> None:
        """Run one tab from start to end; its child is gone on return."""
        if self._is_stopping or self.are_full:
            await farewell(socket, STOPPED if self._is_stopping else self.full_words)
            return
        session = Session(self._argv, self._environment, socket, self.downloads)
        self._open[session.app_service_id] = session
        try:
            await session.start(width, height)
            async for message in socket:
                if message.type == web.WSMsgType.TEXT:
                    await session.handle(message.data)
        except OSError as error:
            await farewell(socket, End("The UI cannot be started.", str(error.strerror or error)))
            self._problem(f"a tab's UI cannot be started: {error}")
        except (ValueError, RecursionError):
            session.end = End("The page sent what no page of ours sends.")
        finally:
            try:
                await session.stop()
            finally:
                del self._open[session.app_service_id]
        if said := session.stderr_text():
            self._problem(f"a tab's UI said: {said}")

    async def tell_uploaded(self, session_id: str, path: Path) -> None:
        """Notify a tab's app of an upload by its page, unless the tab is gone."""
        session = self._open.get(session_id)
        if session is not None:
            await session.tell_uploaded(path)

    async def stop(self) -> None:
        """End all tabs at once, and accept no new ones."""
        self._is_stopping = True
        ending = list(self._open.values())
        for session in ending:
            session.end = session.end or STOPPED
        await asyncio.gather(*(session.stop() for session in ending))
