"""docs/ui.md says the numbers that the terminal UI and its demo have."""

from pathlib import Path

import pytest

from yak.limits import UI_SESSIONS_MAX, UI_UPLOAD_BYTES_MAX, UI_UPLOADS_BYTES_MAX
from yak.local.demo.order_flow import RECORDS_PER_SECOND
from yak.tui.app import STALE_FPS
from yak.tui.messages.reader import DISPLAYED_PER_SECOND
from yak.tui.messages.store import MAX_ROWS
from yak.tui.produce.run import QUEUE_MESSAGES_MAX
from yak.tui.screens.groups import _UNREAD_EVERY_S
from yak.tui.screens.metadata import _IMAGES_MAX
from yak.tui.state.metadata_log import RECORDS_MAX

PAGE = " ".join((Path(__file__).resolve().parents[3] / "docs" / "ui.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize(
    "words",
    [
        f"sends {RECORDS_PER_SECOND} JSON records a second",
        f"Above {DISPLAYED_PER_SECOND:g} records a second one of",
        f"The list holds {MAX_ROWS:,} records",
        f"At most {QUEUE_MESSAGES_MAX:,}".replace(",", " ") + " records or",
        f"every {_UNREAD_EVERY_S:g} s and with `t`",
        f"caches at most {RECORDS_MAX:,} records",
        f"caches the last {_IMAGES_MAX} states",
        f"the limit is {UI_SESSIONS_MAX} tabs",
        f"A file may have {UI_UPLOAD_BYTES_MAX >> 20} MiB, all together {UI_UPLOADS_BYTES_MAX >> 30} GiB",
    ],
)
def test_figure_of_the_page_is_the_programs(words: str) -> None:
    assert words in PAGE


def test_terminal_without_focus_is_drawn_as_often_as_the_page_says() -> None:
    assert STALE_FPS == 1 / 5
    assert "In a terminal without focus the UI draws once in five seconds." in PAGE
