"""What `yak ui` does with answers that it cannot read, and with its own bugs: a sentence, and no traceback on the screen."""

import pytest
from pictures import recorded_source

from yak.tui import launch
from yak.tui.app import YakApp
from yak.tui.settings import UiSettings


def test_bug_ends_the_app_with_its_exception_and_no_traceback_on_the_terminal(monkeypatch, capfd):
    source = recorded_source()

    async def fail():
        raise ZeroDivisionError("a bug")
        yield {}

    source.follow = fail
    in_terminal = YakApp.run_async
    monkeypatch.setattr(launch, "require_terminal", lambda: None)
    monkeypatch.setattr(YakApp, "run_async", lambda app: in_terminal(app, headless=True, size=(80, 24)))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        launch.run_app(source, UiSettings())
    assert "Traceback" not in "".join(capfd.readouterr())
