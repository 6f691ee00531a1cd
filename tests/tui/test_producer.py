"""The producer on the recorded cluster: what is typed, judged, kept and asked; nothing is sent anywhere."""

import os
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace

import pytest
from driving import answered, drawn, on_recorded, on_top, press, typed, until
from pictures import recorded_source
from textual.containers import Vertical
from textual.widgets import Button, Input, Select, Static, TextArea
from textual.worker import WorkerFailed

from yak.client.produce import Acknowledged
from yak.errors import YakError
from yak.plain_text import one_line
from yak.tui.produce.files import checkpoint_path
from yak.tui.produce.form import Form
from yak.tui.produce.run import DeliveryStatistics
from yak.tui.screens.base import FileUploaded
from yak.tui.screens.producer import MessageForm, ProducerScreen
from yak.tui.widgets.dialogs import FormDialog
from yak.tui.widgets.file_picker import FilePicker
from yak.tui.widgets.frame import KeyBar
from yak.tui.widgets.grid import Grid


@pytest.fixture(autouse=True)
def own_config(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("YAK_CONFIG", raising=False)
    monkeypatch.delenv("YAK_UI_UPLOADS", raising=False)


class Sends:
    """Stands for the thread that sends: keeps what it was given, and says that it is done."""

    def __init__(self, error=None):
        self.runs = []
        self.error = error

    def __call__(self, run):
        self.runs.append(run)
        if self.error is not None:
            raise self.error
        acknowledged = (Acknowledged(0, run.plan.topic, 1, 41),)
        run.stats = DeliveryStatistics(
            "done", sent=1, acknowledged=1, few=acknowledged, p50_ms=3.0, p99_ms=3.0, max_ms=3.0
        )
        return run.stats


@asynccontextmanager
async def on_producer(*, error=None, **settings):
    """The app on this screen, its pilot, and what was sent."""
    source, sends = recorded_source(), Sends(error)
    source.calls["send"] = sends
    async with on_recorded(size=(140, 40), source=source, start="producer", **settings) as (app, pilot):
        yield app, pilot, sends


async def test_key_bar_names_the_keys_of_the_screen_again_when_escape_leaves_a_field():
    async with on_producer() as (app, pilot, _sends):

        def text():
            return [cell.text for cell in app.screen.query_one(KeyBar)._left]

        await pilot.press("e")
        await until(pilot, lambda: text()[:1] == ["^s send"], "the keys of a field")
        await pilot.press("escape")
        await until(pilot, lambda: "S send" in text(), "the keys of the screen")
        assert "e edit" in text()


def command(app):
    return str(app.screen.query_one("#one-command", Static).content)


async def test_s_sends_what_the_form_says_and_the_activity_has_it_as_a_command():
    async with on_producer() as (app, pilot, sends):
        await typed(app, pilot, form_topic="orders", form_key="u1", form_value='{"a":1}', form_headers="s=web")
        assert command(app) == """$ yak produce orders -k u1 -m '{"a":1}' -H s=web"""
        await pilot.press("S")
        await until(pilot, lambda: sends.runs and app.screen.running is None)
        (run,) = sends.runs
        record = next(run.feed.messages(None))[1]
        assert (run.plan.topic, run.plan.count, record.key, record.value) == ("orders", 1, b"u1", b'{"a":1}')
        assert record.headers == [("s", b"web")]
        assert "yak produce orders" in app.picture.activity.lines[-1].message
        assert "written to orders-1 at offset 41 in 3 ms" in app.notices[-1][1]


async def test_letters_are_text_in_a_field_ctrl_s_sends_from_there_and_escape_leaves_it():
    async with on_producer() as (app, pilot, sends):
        await pilot.press("e")
        assert isinstance(app.focused, TextArea)
        await pilot.press("tab", "shift+tab")
        await typed(app, pilot, form_topic="orders", form_value="")
        await pilot.press(*"5RSXq")
        assert app.screen.query_one("#form-value", TextArea).text == "5RSXq"
        await typed(app, pilot, form_value="5")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: sends.runs)
        await pilot.press("escape")
        assert app.focused is None
        assert app.current_mode == "producer"
        await pilot.press("escape")
        assert app.current_mode == "dashboard"


async def test_invalid_json_is_reported_while_typing_and_not_sent():
    async with on_producer() as (app, pilot, sends):
        await typed(app, pilot, form_topic="orders", form_value='{"a": 1,\n "b" 2}')
        problem = app.screen.query_one(MessageForm).problem
        assert (problem.line, problem.column) == (2, 6)
        assert app.screen.query_one("#send", Button).disabled
        *_, background, color = app.screen.query_one("#send", Button).colors
        assert abs(color.brightness - background.brightness) > 0.4, "a disabled button can be read"
        await pilot.press("S")
        await pilot.pause()
        assert not sends.runs
        value = app.screen.query_one("#form-value", TextArea)
        assert app.focused is value
        assert value.cursor_location == (1, 5)
        assert "line 2, column 6" in app.notices[-1][1]
        await typed(app, pilot, form_value='{"a": 1,\n "b": 2}')
        assert not app.screen.query_one("#send", Button).disabled


async def test_producer_screen_without_a_topic_sends_no_record_and_focuses_the_topic_field():
    async with on_producer() as (app, pilot, sends):
        await typed(app, pilot, form_value="1")
        await pilot.press("S")
        await pilot.pause()
        assert not sends.runs
        assert app.focused.id == "form-topic"
        await pilot.press("o", "r")
        await until(pilot, lambda: app.focused._suggestion == "orders", "the suggestion")
        await pilot.press("right")
        assert app.focused.value == "orders"


async def test_read_only_producer_screen_sends_no_records():
    async with on_producer(is_readonly=True) as (app, pilot, sends):
        await typed(app, pilot, form_topic="orders", form_value="1")
        await press(pilot, "S", "R", "ctrl+s")
        assert not sends.runs
        assert not isinstance(app.screen, FormDialog)
        assert app.screen.query_one("#send", Button).disabled


async def test_repeat_form_has_count_rate_and_command():
    async with on_producer() as (app, pilot, sends):
        await typed(app, pilot, form_topic="orders", form_value="{{i}}")
        await pilot.press("R")
        await on_top(pilot, FormDialog)
        await typed(app, pilot, field_count="20", field_rate="x")
        assert "is not a rate" in str(app.screen.query_one("#form-error", Static).content)
        await typed(app, pilot, field_rate="50")
        text = str(app.screen.query_one("#form-command", Static).content)
        assert text == "$ yak produce orders -m '{{i}}' --template --repeat 20 --rate 50"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: sends.runs)
        assert (sends.runs[0].plan.count, sends.runs[0].plan.rate) == (20, 50.0)


async def test_record_from_elsewhere_is_in_the_form_to_be_edited():
    async with on_producer() as (app, pilot, sends):
        app.go("dashboard")
        record = Form.of("orders", b"k", b"\xff\x00", (("a", b"b"), ("n", None)))
        app.go("producer", replace(record, partition="2"))
        await until(pilot, lambda: app.focused is not None and app.focused.id == "form-value", "the form")
        form = app.screen.query_one(MessageForm).form()
        assert (form.topic, form.partition, form.key, form.value_kind, form.value) == (
            "orders",
            "2",
            "k",
            "base64",
            "/wA=",
        )
        assert form.headers == "a=b\nn"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: sends.runs)
        assert next(sends.runs[0].feed.messages(None))[1].value == b"\xff\x00"


async def test_kinds_of_value_change_what_can_be_typed():
    async with on_producer() as (app, pilot, _sends):
        await typed(app, pilot, form_topic="orders", form_value="no json")
        await typed(app, pilot, form_value_kind="text")
        assert app.screen.query_one(MessageForm).problem is None
        await typed(app, pilot, form_value_kind="null")
        assert app.screen.query_one("#form-value", TextArea).disabled
        assert "--null-value" in command(app)


async def test_the_preview_counts():
    async with on_producer() as (app, pilot, _sends):
        await typed(app, pilot, form_topic="orders", form_value='{"n":{{i}}}')
        text = str(app.screen.query_one("#sample", Static).content)
        assert [line for line in text.splitlines() if "n" in line and "{" in line] == ['{"n":0}', '{"n":1}', '{"n":2}']


async def test_missing_topic_is_created_only_on_confirmation():
    async with on_producer(error=YakError("unknown-topic", 'topic "nosuch" does not exist')) as (app, pilot, sends):
        await typed(app, pilot, form_topic="nosuch", form_value="1")
        assert "no topic nosuch" in app.screen.query_one(MessageForm).border_title
        await pilot.press("S")
        await on_top(pilot, FormDialog)
        assert "yak topics create nosuch -p 3" in str(app.screen.query_one("#form-command", Static).content)
        await press(pilot, "escape")
        assert len(sends.runs) == 1
        assert ("POST", "/topics") not in [each[:2] for each in app.source.requests]


@pytest.fixture
def file(tmp_path):
    directory = tmp_path / "uploads"
    directory.mkdir()
    path = directory / "o.csv"
    path.write_text("id;total;src\nu1;12;web\n;13;web\nu3;14\n")
    return path


async def test_a_file_is_chosen_from_the_uploads_first(file, monkeypatch):
    monkeypatch.setenv("YAK_UI_UPLOADS", str(file.parent))

    async with on_producer(start_with=None) as (app, pilot, _sends):
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, FilePicker) and app.screen._entries)
        assert app.screen.query_one("#place-0", Button).label.plain == "uploads"
        assert app.screen.query_one("#picker-path", Input).value == f"{file.parent}{os.sep}"
        await pilot.press("backspace")
        await until(pilot, lambda: app.screen.query_one("#picker-path", Input).value == f"{file.parent.parent}{os.sep}")
        app.screen.query_one("#place-0", Button).press()
        await until(pilot, lambda: str(file) in app.screen._entries)
        await pilot.press("j", "enter")
        await until(pilot, lambda: app.screen.query_one("#csv-path", Input).value == str(file))


async def test_a_file_that_the_browser_sends_is_the_one_to_be_sent_unless_another_was_chosen(file, tmp_path):
    async with on_producer() as (app, pilot, _sends):
        app.post_message(FileUploaded(file))
        await until(pilot, lambda: app.screen.query_one("#csv-path", Input).value == str(file))
        assert isinstance(app.screen, ProducerScreen)
        assert app.screen.is_csv
        app.post_message(FileUploaded(tmp_path / "other.csv"))
        await until(pilot, lambda: len(app.notices) == 2, "the other file")
        await answered(pilot)
        assert app.screen.query_one("#csv-path", Input).value == str(file)


def rows(app):
    grid = app.screen.query_one("#preview", Grid)
    return [[cell.text for cell in row.cells] for row in grid._in_sight()]


async def with_file(app, pilot, file):
    app.screen.query_one("TabbedContent").active = "producer-csv"
    await typed(app, pilot, csv_path=str(file), csv_topic="orders")
    await until(pilot, lambda: rows(app), "the file's rows")


async def test_columns_are_mapped_and_the_first_rows_say_whether_they_can_be_sent(file):
    async with on_producer() as (app, pilot, _sends):
        await with_file(app, pilot, file)
        app.screen.query_one("#csv-key", Select).value = "id"
        await typed(app, pilot, csv_headers="src=source")
        await until(pilot, lambda: rows(app)[0][1] == "u1")
        first, second, third = rows(app)
        assert first == ["2", "u1", '{"total":"12"}', "source=web", app.fmt.sign("none"), "✓ yes"]
        assert second[5] == "▲ no key: any partition"
        assert third[5] == "✗ 2 columns, not 3"
        assert '3 rows, 37 B, delimiter ";", utf-8' in app.screen.query_one("#csv-form").border_subtitle.replace(
            " ", " "
        )
        app.screen.query_one("#csv-value", Select).value = "json:"
        await typed(app, pilot, csv_columns="src,id")
        await until(pilot, lambda: rows(app) and rows(app)[0][2] == '{"src":"web","id":"u1"}')
        app.screen.query_one("#csv-value", Select).value = "=total"
        await until(pilot, lambda: rows(app) and rows(app)[0][2] == "12")
        await typed(app, pilot, csv_headers="nosuch")
        await until(pilot, lambda: not rows(app))
        assert 'column "nosuch"' in str(app.screen.query_one("#csv-error", Static).content)
        assert app.screen.query_one("#csv-send", Button).disabled


async def test_public_producer_screen_shows_neither_files_nor_directories(file):
    async with on_producer(is_readonly=True, is_public=True) as (app, pilot, _sends):
        app.screen.query_one("TabbedContent").active = "producer-csv"
        await typed(app, pilot, csv_path=str(file))
        error = app.screen.query_one("#csv-error", Static)
        await until(pilot, lambda: "are not shown" in str(error.content))
        assert not rows(app)
        app.screen.set_focus(None)
        await pilot.press("f")
        await pilot.click("#csv-choose")
        await answered(pilot)
        assert isinstance(app.screen, ProducerScreen)


async def test_file_is_sent_after_confirmation_and_resumes_where_an_earlier_upload_stopped(file):
    from yak.client.checkpoint import Checkpoint

    Checkpoint(checkpoint_path(str(file), "orders"), str(file), "orders").write(1)

    async with on_producer() as (app, pilot, sends):
        await with_file(app, pilot, file)
        await pilot.press("S")
        await on_top(pilot, FormDialog)
        assert app.screen.query_one("#field-start", Select).value == "the first row that is not sent"
        assert "--resume" in str(app.screen.query_one("#form-command", Static).content)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: sends.runs)
        assert sends.runs[0].feed._skip == 1
        assert sends.runs[0].plan.count is None
        await until(pilot, lambda: app.screen.running is None)
        await pilot.press("S")
        await on_top(pilot, FormDialog)
        app.screen.query_one("#field-start", Select).value = "the first row"
        await pilot.pause()
        await pilot.press("ctrl+s")
        await until(pilot, lambda: len(sends.runs) == 2)
        assert sends.runs[1].feed._skip == 0


async def test_a_file_that_cannot_be_read_says_why(tmp_path):
    async with on_producer() as (app, pilot, sends):
        app.screen.query_one("TabbedContent").active = "producer-csv"
        await typed(app, pilot, csv_path=str(tmp_path / "none.csv"), csv_topic="orders")
        error = app.screen.query_one("#csv-error", Static)
        await until(pilot, lambda: "cannot be read" in str(error.content))
        await press(pilot, "S")
        assert not sends.runs
        assert "choose a file" in app.notices[-1][1]


@pytest.mark.parametrize("is_left", [True, False])
async def test_worker_that_misses_a_removed_widget_fails_only_while_its_pane_stays(is_left):
    with nullcontext() if is_left else pytest.raises(WorkerFailed):
        async with on_producer() as (app, pilot, _sends):
            pane = Vertical(Static(id="words"))
            await app.screen.mount(pane)

            async def late():
                await pane.query_one("#words").remove()
                if is_left:
                    pane.remove()
                pane.query_one("#words")

            with suppress(WorkerFailed):
                await pane.run_worker(late()).wait()
            await pilot.pause()


@pytest.mark.parametrize("topic", ["[/x]", "[red]orders", "[", "a\x1b[2Jb"])
async def test_topic_with_brackets_is_displayed_as_typed(topic):
    async with on_producer() as (app, pilot, _sends):
        await typed(app, pilot, form_topic=topic)
        title = app.screen.query_one(MessageForm)._border_title.plain
        assert f"no topic {one_line(topic)} yet" in title


async def test_csv_columns_are_no_markup(tmp_path):
    file = tmp_path / "orders.csv"
    file.write_text("id[/x],[@click=app.leave()]b\n1,2\n")

    async with on_recorded(size=(120, 40), start="producer") as (app, pilot):
        app.screen.query_one("#producer-tabs").active = "producer-csv"
        await typed(app, pilot, csv_path=str(file), csv_topic="orders")
        await until(pilot, lambda: app.screen.csv.form.columns, "the columns")
        key = app.screen.query_one("#csv-key", Select)
        key.value = "id[/x]"
        key.focus()
        await pilot.press("enter")
        await pilot.pause()
        assert "key: id[/x]" in drawn(app)
        assert [str(option.prompt) for option in app.focused.options][2] == "key: [@click=app.leave()]b"


async def test_missing_topic_of_the_cluster_before_is_not_created_in_another_context():
    async with on_recorded(size=(120, 40), start="producer") as (app, pilot):

        def switch_and_fail(_run):
            app.source = recorded_source()
            raise YakError("unknown-topic", 'topic "nosuch" does not exist')

        app.source.calls["send"] = switch_and_fail
        await typed(app, pilot, form_topic="nosuch", form_value="{}")
        await press(pilot, "ctrl+s")
        assert isinstance(app.screen, ProducerScreen)
        assert app.picture.activity.lines[-1].message.endswith('not sent: topic "nosuch" does not exist')
