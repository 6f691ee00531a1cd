"""Sends records: one, many with placeholders, or the rows of a CSV file."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Button, Checkbox, Input, Label, Select, Static, TabbedContent, TabPane, TextArea

from yak.client.numbers import parse_long
from yak.client.produce import Outgoing
from yak.client.record_template import PLACEHOLDERS, RecordTemplate
from yak.errors import UsageError, YakError
from yak.tui.keys import keys
from yak.tui.produce.form import (
    KEY_KINDS,
    VALUE_KINDS,
    Form,
    FormError,
    display_command,
    produce_command,
    samples,
)
from yak.tui.produce.run import DeliveryStatistics, Plan, Producers, Run, TemplateFeed, parse_rate, send
from yak.tui.rows.cells import Cell
from yak.tui.rows.delivery import statistics_lines, statistics_title
from yak.tui.screens.base import FileUploaded, YakScreen
from yak.tui.screens.producer_csv import ACKS_OPTIONS, CODEC_OPTIONS, CsvPane, TopicField, ask_to_create, selection
from yak.tui.widgets.dialogs import Check, Field
from yak.tui.widgets.frame import Line, Lines, Panel, plain_title

if TYPE_CHECKING:
    from yak.tui.app import YakApp


CHECK_AFTER_S = 0.1
"""The delay before validating: checking a megabyte at each letter would be noticeable."""
_KIND_LABELS = {"json": "JSON", "text": "text", "null": "null", "none": "no key", "base64": "base64"}


class MessageForm(Vertical):
    """The user's input, as a `Form`."""

    app: "YakApp"

    class Changed(Message):
        """The input changed and was validated."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes="panel")
        self._title = self.border_title = "Record"
        self.problem: FormError | None = None
        self._is_quiet = False

    def compose(self) -> ComposeResult:
        with Horizontal(classes="row"):
            yield Label("Topic", classes="name")
            yield TopicField(id="form-topic")
            yield Label("Partition", classes="name inner")
            yield Input(placeholder="by key", compact=True, id="form-partition")
        with Horizontal(classes="row"):
            yield Label("Key", classes="name")
            yield selection("form-key-kind", [(_KIND_LABELS[each], each) for each in KEY_KINDS])
            yield Input(placeholder="empty: no key", compact=True, id="form-key", select_on_focus=False)
        with Horizontal(classes="row"):
            yield Label("Value", classes="name")
            yield selection("form-value-kind", [(_KIND_LABELS[each], each) for each in VALUE_KINDS])
            yield Line(id="form-status")
        yield TextArea(id="form-value", compact=True, highlight_cursor_line=False, soft_wrap=True)
        with Horizontal(id="form-headers-row"):
            yield Label("Headers", classes="name")
            yield TextArea(
                id="form-headers", compact=True, highlight_cursor_line=False, placeholder="NAME=VALUE, a line each"
            )
        with Horizontal(classes="row"):
            yield Label("Send", classes="name")
            yield selection("form-acks", ACKS_OPTIONS)
            yield selection("form-compression", CODEC_OPTIONS)
            yield Check("fill {{i}}", value=True, id="form-template")

    def _widget(self, field: str) -> Any:
        """The widget of a field of `Form`."""
        return self.query_one(f"#form-{field.removeprefix('is_').replace('_', '-')}")

    def form(self) -> Form:
        values: dict[str, Any] = {}
        for each in fields(Form):
            widget = self._widget(each.name)
            values[each.name] = widget.text if isinstance(widget, TextArea) else widget.value
        return Form(**values | {"topic": values["topic"].strip()})

    def fill(self, form: Form) -> None:
        for name, value in asdict(form).items():
            widget = self._widget(name)
            if isinstance(widget, TextArea):
                widget.load_text(value)
            else:
                widget.value = value
        self.check_form()

    def on_mount(self) -> None:
        self.check_form()

    @on(Input.Changed)
    @on(Select.Changed)
    @on(TextArea.Changed)
    @on(Checkbox.Changed)
    def check_form_soon(self) -> None:
        if not self._is_quiet:
            self._is_quiet = True
            self.set_timer(CHECK_AFTER_S, self.check_form)

    def check_form(self) -> None:
        """Show the first problem and its position, or the record's kind and size."""
        self._is_quiet = False
        form = self.form()
        self.problem = form.problem()
        self.query_one("#form-key", Input).disabled = form.key_kind == "none"
        self.query_one("#form-value", TextArea).disabled = form.value_kind == "null"
        self.query_one("#form-status", Line).show(self._status(form))
        self.show_topic()
        self.post_message(self.Changed())

    def show_topic(self) -> None:
        name = self.query_one("#form-topic", Input).value.strip()
        text = f"Record: {self._topic_title(name)}" if name and self.app.picture.is_loaded else "Record"
        if text != self._title:
            self._title = text
            self.border_title = plain_title(text)

    def _topic_title(self, name: str) -> str:
        fmt = self.app.fmt
        found = self.app.picture.topics.get(name)
        if not found:
            return f"{fmt.sign('warn')} no topic {name} yet, S asks to create it"
        leaderless = sum(each.leader is None for each in found)
        if leaderless:
            return f"{fmt.sign('bad')} {name} has {leaderless} of {len(found)} partitions without a leader"
        copies = max(len(each.replicas) for each in found)
        return f"{name}, {fmt.counted(len(found), 'partition')} of {fmt.counted(copies, 'replica')}"

    def _status(self, form: Form) -> list[Cell]:
        fmt = self.app.fmt
        if form.value_kind == "json" and not form.value.strip():
            return [Cell("JSON; {{i}} counts, i: others", "dim")]
        wrong = form.value_problem() or self.problem
        if wrong is not None and not (wrong.field == "topic" and not form.topic):
            return [Cell(f"{fmt.sign('bad')} {wrong.text}", "bad")]
        try:
            value = samples(form.message(), 1)[0].value
        except FormError as error:
            return [Cell(f"{fmt.sign('bad')} {error.why}", "bad")]
        if value is None:
            return [Cell("a tombstone: it deletes its key where a topic is compacted", "dim")]
        size = fmt.size(len(value))
        kind = {"json": "JSON, ", "base64": "bytes, "}.get(form.value_kind, "")
        about = "" if form.message().is_plain else "about "
        return [Cell(f"{fmt.sign('good')} {kind}{about}{size}", "good")]


REPAINT_S = 0.25
SAMPLES = 3
SAMPLE_BYTES_MAX = 8_192
"""The longest part of a value shown in the panel beside the form."""
ONE, CSV = "producer-one", "producer-csv"


class ProducerScreen(YakScreen):
    """A form and the results of what it sent; a second tab for files."""

    CRUMB = "producer"
    CLI_TWIN = "yak produce"
    AUTO_FOCUS = ""
    CSS_PATH = "../producer.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys("producer")]
    EXPLAINED = (
        ("Partition", "The partition of the record. Empty: chosen by the key (murmur2, as in Java clients); without a key, any partition."),
        ("Acks", "The replicas that must have a record before it is acknowledged. all: every in-sync replica. 1: the leader. 0: none, and no acknowledgement is sent."),
        ("Acknowledged", "Written, as the brokers confirmed. Sent is the sum of acknowledged, failed and waiting."),
        ("Unknown", "Failed, but possibly written: the broker was lost before it answered. Sending the record again may duplicate it."),
        ("Latency", "From sending to acknowledgement, with the time in the queue. p99: 99 of 100 records took at most this long."),
        ("Placeholders", f"{PLACEHOLDERS} are replaced in each record: a counter, a UUID, the time, a random number."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.running: Run | None = None
        self._run: Run | None = None
        self._producers = Producers()

    # contents

    def body(self) -> ComposeResult:
        with TabbedContent(id="producer-tabs"):
            with TabPane("One record", id=ONE), Horizontal(id="one-body"):
                with Vertical(id="one-left"):
                    yield MessageForm(id="message-form")
                    yield Static("", id="one-command", markup=False)
                    with Horizontal(id="one-buttons"):
                        yield Button("Send ^s", id="send", variant="primary", compact=True)
                        yield Button("Repeat R", id="repeat", compact=True)
                        yield Button("Stop X", id="stop", compact=True)
                with Vertical(id="one-right"):
                    yield Panel("As they would be", Static("", id="sample", markup=False), id="sample-panel")
                    yield Panel("Sent", Lines(id="statistics", wraps=True), id="statistics-panel")
            with TabPane("CSV file", id=CSV):
                yield CsvPane(self._producers, id="csv-pane")

    def on_mount(self) -> None:
        """Connect early, so that the first record does not wait for it."""
        if self.app.is_readonly:
            for button in self.query("#send, #repeat").results(Button):
                button.disabled = True
        self.query_one(MessageForm).border_subtitle = "e edits the value, tab goes on, esc leaves a field"
        self.set_interval(REPAINT_S, self._paint_running)
        self.connect()

    @property
    def csv(self) -> CsvPane:
        return self.query_one(CsvPane)

    @property
    def is_csv(self) -> bool:
        return self.query_one("#producer-tabs", TabbedContent).active == CSV

    def paint(self, now_ms: int) -> None:
        del now_ms
        self.query_one(MessageForm).show_topic()
        self._paint_statistics()
        self.csv.paint()

    def _paint_running(self) -> None:
        if self.is_current and self.running is not None:
            self._paint_statistics()
            self.csv.paint()

    def _paint_statistics(self) -> None:
        stats = self._run.stats if self._run is not None else None
        lines = self.query_one("#statistics", Lines)
        lines.show(statistics_lines(stats, self.fmt, lines.size.width or 74))
        self.entitle("#statistics-panel", statistics_title(stats, self.fmt))
        self.query_one("#stop", Button).disabled = self.running is None

    def opened(self, what: object) -> None:
        self.query_one("#producer-tabs", TabbedContent).active = ONE
        if isinstance(what, Form):
            form = self.query_one(MessageForm)
            how = form.form()
            form.fill(replace(what, acks=how.acks, compression=how.compression))
            self.query_one("#form-value", TextArea).focus()
        elif isinstance(what, str):
            self.query_one("#form-topic", Input).value = what
            self.query_one("#csv-topic", Input).value = what

    @on(FileUploaded)
    def take_uploaded(self, event: FileUploaded) -> None:
        """Take an uploaded file, unless another one is chosen."""
        if not self.csv.form.path:
            self.query_one("#producer-tabs", TabbedContent).active = CSV
            self.csv.form.choose(str(event.path))

    def go_back(self) -> bool:
        if isinstance(self.focused, Input | TextArea | Select):
            self.set_focus(None)
            return True
        return super().go_back()

    # the form

    @on(MessageForm.Changed)
    def show_form(self) -> None:
        form = self.query_one(MessageForm)
        is_fine = form.problem is None and not self.app.is_readonly
        self.query_one("#send", Button).disabled = not is_fine
        self.query_one("#repeat", Button).disabled = not is_fine
        problem = form.problem.text if form.problem is not None and form.form().topic else ""
        self.query_one("#one-command", Static).update(problem or display_command(self._command()))
        self.query_one("#sample", Static).update(_sample_text(form.form(), self.app.now_ms()))

    def _command(self) -> str:
        try:
            plan, message = self._what()
        except FormError:
            return ""
        return produce_command(plan, message)

    def _what(self, count: int | None = 1, rate: float | None = None) -> tuple[Plan, RecordTemplate]:
        form = self.query_one(MessageForm).form()
        return form.plan(count=count, rate=rate), form.message()

    @on(Button.Pressed, "#send, #repeat, #stop")
    def press(self, event: Button.Pressed) -> None:
        action = str(event.button.id)
        if self.check_action(action, ()):
            getattr(self, f"action_{action}")()

    def action_value(self) -> None:
        self.query_one("#csv-path" if self.is_csv else "#form-value").focus()

    def action_file(self) -> None:
        self.query_one("#producer-tabs", TabbedContent).active = CSV
        self.csv.choose()

    # sending

    @work(group="connect")
    async def connect(self) -> None:
        """Open a producer, so that it has its id in time. The banner and a send report an unreachable cluster."""
        try:
            await self.app.source.kafka(self._producers.get, "all", "none")
        except YakError:
            return

    def action_send(self) -> None:
        if self.is_busy():
            return
        if self.is_csv:
            self.csv.send()
            return
        try:
            plan, message = self._what()
        except FormError as wrong:
            self._show_problem(wrong)
            return
        self.start(plan, message)

    @work(exclusive=True, group="ask")
    async def action_repeat(self) -> None:
        if self.is_busy():
            return
        if self.is_csv:
            self.app.notice("a file is sent once, with S; R is for records of a form", "warn")
            return
        try:
            self._what()
        except FormError as wrong:
            self._show_problem(wrong)
            return
        fields = [
            Field("count", "Records", "", "empty: until X stops it"),
            Field("rate", "In a second", "10", "empty: as fast as the cluster takes them"),
        ]
        values = await self.fill_form(
            "Send repeatedly",
            fields,
            lambda given: produce_command(*self._what(*_how_often(given))),
            yes="Send",
        )
        if values is not None:
            self.start(*self._what(*_how_often(values)))

    def action_stop(self) -> None:
        """The first time, stop and wait for records in flight; the second time, do not wait."""
        run = self.running
        if run is None:
            self.app.notice("nothing is being sent")
        elif run.is_stopping:
            run.drop()
        else:
            run.stop()
            self.app.notice("stopping; X again does not wait for acknowledgements")

    def is_busy(self) -> bool:
        """Whether a run is under way, which a notice reports: runs are exclusive."""
        if self.running is not None:
            self.app.notice("something is being sent; X stops it", "warn")
            return True
        return False

    @work(group="send")
    async def start(self, plan: Plan, message: RecordTemplate) -> None:
        def made() -> Run:
            self._run = Run(plan, TemplateFeed(plan, message), producers=self._producers)
            return self._run

        stats = await self.execute(made, produce_command(plan, message), self._outcome)
        if self.is_attached:
            self._paint_statistics()
        if stats is not None:
            self._report_outcome(stats)

    async def execute(
        self, made: Callable[[], Run], command: str, outcome: Callable[[DeliveryStatistics], str]
    ) -> DeliveryStatistics | None:
        """Make a run and wait for it; None if it could not begin. If the topic does not exist, offer to create it."""
        run, source = made(), self.app.source
        self.running = run
        try:
            stats = await source.kafka(send, run)
        except YakError as error:
            self.app.note_command(command, f"not sent: {error.message}")
            if error.code != "unknown-topic":
                self.app.show_error(error)
                return None
        else:
            self.app.note_command(command, outcome(stats))
            return stats
        finally:
            run.drop()  # for an app that ends during the run; otherwise it does nothing
            if self.running is run:
                self.running = None
        if source is self.app.source and await ask_to_create(self.app, run.plan.topic):
            return await self.execute(made, command, outcome)
        return None

    def _outcome(self, stats: DeliveryStatistics) -> str:
        number = self.fmt.number
        text = f"{number(stats.acknowledged)} of {number(stats.sent)} acknowledged"
        return text + (f", {number(stats.failed)} failed" if stats.failed else "")

    def _report_outcome(self, stats: DeliveryStatistics) -> None:
        if stats.first_failure is not None:
            self.app.show_error(stats.first_failure.error)
        elif stats.acknowledged == 1 and stats.few[0].offset >= 0:
            at = stats.few[0]
            took = "" if stats.max_ms is None else f" in {stats.max_ms:.0f} ms"
            self.app.notice(
                f"written to {at.topic}-{at.partition} at offset {self.fmt.number(at.offset)}{took}", "good"
            )

    def _show_problem(self, problem: FormError) -> None:
        self.app.notice(f"not sent: {problem.text}", "bad")
        field: Widget = self.query_one(f"#form-{problem.field}")
        field.focus()
        if isinstance(field, TextArea):
            field.cursor_location = (problem.line - 1, problem.column - 1)


def _how_often(values: Mapping[str, str]) -> tuple[int | None, float | None]:
    """Count and rate. Raises UsageError."""
    count = values["count"].replace(" ", "")
    number = parse_long(count) if count else None
    if count and not 0 < (number or 0) < 10**12:
        raise UsageError("usage", f'"{count}" is not a number of records', why="1 or more; empty: until stopped")
    return number, parse_rate(values["rate"], "records")


def _sample_text(form: Form, now_ms: int) -> str:
    try:
        message = form.message()
    except FormError:
        return ""
    records = samples(message, 1 if message.is_plain else SAMPLES, now_ms)
    return "\n\n".join(_one_sample(record) for record in records)


def _one_sample(record: Outgoing) -> str:
    def text(data: bytes | None, none: str) -> str:
        return none if data is None else data[:SAMPLE_BYTES_MAX].decode(errors="backslashreplace")

    headers = [f"{name}={text(data, '(null)')}" for name, data in record.headers]
    value = text(record.value, "(null: a tombstone)")
    return "\n".join([f"key {text(record.key, '(none)')}", *headers, value])
