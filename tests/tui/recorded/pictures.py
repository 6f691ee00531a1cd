"""The app on the recorded cluster: the same picture each time. For snapshot tests, and for looking (`tests/tui/look.py`)."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from yak.tui.app import YakApp
from yak.tui.settings import UiSettings
from yak.tui.source.recorded import RecordedSource

RECORDED = Path(__file__).parent / "cluster.json"
CALLS: dict[str, Any] = {}
"""By function name: what `source.kafka(function)` gives."""


@cache
def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def recorded_source(**more: Any) -> RecordedSource:
    """The cluster out of the file."""
    found = _read()
    return RecordedSource(found["answers"], found["events"], calls=CALLS, **more)


def recorded_app(*, empty: bool = False, source: RecordedSource | None = None, **settings: Any) -> YakApp:
    """The app, its clock standing still a moment after the last event. `empty`: of a cluster that has not answered yet."""
    made = source or (RecordedSource({}, []) if empty else recorded_source())
    app = YakApp(made, UiSettings(**{"context": "local", **settings}), now_ms=lambda: int(_read()["now_ms"]))
    app.animation_level = "none"  # what flashes for a moment is another picture each time
    return app
