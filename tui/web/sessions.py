"""The open tabs of one server: how many there may be, which upload is whose, and the end of all."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from aiohttp import web

from yak.tui.web.downloads import Downloads
from yak.tui.web.session import STOPPED, End, Session, farewell


class Sessions:
    """At most so many at once, each with a child of its own, all started with the same command."""

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
        """Whether a new tab would be turned away."""
        return len(self._open) >= self._count_max

    @property
    def full_words(self) -> End:
        """What a tab that is turned away says."""
        return End(f"{self._count_max} tabs are open, and more are not served.", "Close one, then reload this page.")

    async def serve(self, socket: web.WebSocketResponse, width: int, height: int) -> None:
        """One tab from its beginning to its end; the child is gone when this returns."""
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
        """Tell a tab's app what its page has uploaded; a tab that is gone by now needs no news."""
        session = self._open.get(session_id)
        if session is not None:
            await session.tell_uploaded(path)

    async def stop(self) -> None:
        """End all tabs at once, and take no new ones."""
        self._is_stopping = True
        ending = list(self._open.values())
        for session in ending:
            session.end = session.end or STOPPED
        await asyncio.gather(*(session.stop() for session in ending))
