"""`yak ui --plain`: lines until it is interrupted, or until nothing reads them."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from yak.commands.output import Output
from yak.tui import launch
from yak.tui.settings import UiSettings


class Silent:
    """A cluster in which nothing changes."""

    async def follow(self) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield


def test_plain_lines_of_a_silent_cluster_end_when_their_reader_closes_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "POLL_SECONDS", 0.01)
    read, write = os.pipe()
    with os.fdopen(write, "w") as pipe:
        out = Output(stdout=pipe)
        polls: list[int] = []

        def require_reader() -> None:
            polls.append(1)
            if len(polls) == 3:
                os.close(read)
            out.require_reader()

        source: Any = Silent()
        with pytest.raises(BrokenPipeError):
            launch.run_plain(source, UiSettings(), print, require_reader)
    assert len(polls) == 3
