"""The producer's tab for CSV files: the file, the use of its columns, the progress."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Button, Input, Label, Select, Static

from yak.client.csv_files import ENCODINGS
from yak.client.inputs import JSON_OF_CHOSEN, JSON_OF_OTHERS, CsvMapping
from yak.errors import YakError
from yak.tui.produce.files import FileFeed, FilePlan, checkpoint_path, count_rows, prepare, preview_csv
from yak.tui.produce.form import display_command
from yak.tui.produce.run import ACKS, CODECS, DeliveryStatistics, Plan, Producers, Run, parse_rate
from yak.tui.rows.cells import Cell
from yak.tui.rows.delivery import PREVIEW_COLUMNS, check_line, csv_title, preview_rows, statistics_title, upload_lines
from yak.tui.screens.topics import create_command, whole_number
from yak.tui.widgets.dialogs import Field, FormDialog, FunctionSuggester
from yak.tui.widgets.file_picker import FilePicker
from yak.tui.widgets.frame import Lines, Panel, plain_title
from yak.tui.widgets.grid import Grid

if TYPE_CHECKING:
    from yak.tui.app import YakApp
    from yak.tui.screens.producer import ProducerScreen


class TopicField(Input):
    """Right arrow or end accepts the suggestion."""

    app: "YakApp"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(placeholder="topic", compact=True, id=id, select_on_focus=False)
        self.suggester = FunctionSuggester(self._completed)

    def _completed(self, typed: str) -> str | None:
        """The first topic that begins so, except Kafka's internal ones."""
        names = (name for name in sorted(self.app.picture.topics) if not name.startswith("__"))
        return next((name for name in names if typed and name.startswith(typed)), None)


async def ask_to_create(app: "YakApp", topic: str) -> bool:
    """Ask, and create the topic; returns whether it was created. Shows the cluster's error. Call it from a worker."""

    def body(given: Mapping[str, str]) -> dict[str, Any]:
        numbers = {name: whole_number(text, name) for name, text in given.items() if text}
        return {"name": topic, **numbers}

    values = await app.push_screen_wait(
        FormDialog(
            f'Create topic "{topic}"?',
            [
                Field("partitions", "Partitions", "3", "empty: the broker's default"),
                Field("replication_factor", "Replicas", "", "empty: the broker's default"),
            ],
            text="It does not exist. It is created, and then the records are sent.",
            command=lambda given: create_command(body(given)),
            yes="Create and send",
        )
    )
    screen = app.screen_below()
    if values is None or screen is None:
        return False
    return await screen.carry_out(create_command(body(values)), app.source.ask("POST", "/topics", body=body(values)))


NONE = ""
"""The empty choice: no column, or automatic."""
ACKS_OPTIONS = tuple((f"acks {each}", each) for each in ACKS)
CODEC_OPTIONS = tuple(("not packed" if each == "none" else each, each) for each in CODECS)
_DELIMITERS = (("delimiter: found", NONE), ('","', ","), ('";"', ";"), ("tab", "\t"), ('"|"', "|"))
CHANGED_AFTER_S = 0.15


class CsvForm(Vertical):
    """The user's input, as a path and a `CsvMapping`."""

    app: "YakApp"

    class Changed(Message):
        """Another mapping; or, with `is_file`, another file or way to read it: its columns are unknown again."""

        def __init__(self, *, is_file: bool) -> None:
            super().__init__()
            self.is_file = is_file

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes="panel")
        self.border_title = "CSV file"
        self.columns: tuple[str, ...] = ()
        self._is_waiting = self._is_new_file = False

    def compose(self) -> ComposeResult:
        with Horizontal(classes="row"):
            yield Label("File", classes="name")
            yield Input(placeholder="path of a CSV file; f shows directories", compact=True, id="csv-path")
            yield Button("choose (f)", id="csv-choose", compact=True)
        with Horizontal(classes="row"):
            yield Label("Topic", classes="name")
            yield TopicField(id="csv-topic")
            yield selection("csv-key", [("no key", NONE)])
            yield selection("csv-partition", [("partition: by key", NONE)])
        with Horizontal(classes="row"):
            yield Label("Value", classes="name")
            yield selection("csv-value", _values(()))
            yield Input(placeholder="columns: a,b,c", compact=True, id="csv-columns", disabled=True)
        with Horizontal(classes="row"):
            yield Label("Headers", classes="name")
            yield Input(placeholder="COLUMN, COLUMN=NAME, ...", compact=True, id="csv-headers")
            yield Input(placeholder="text that means null", compact=True, id="csv-null")
        with Horizontal(classes="row"):
            yield Label("Read", classes="name")
            yield selection("csv-delimiter", _DELIMITERS)
            encodings = [("encoding: found", NONE), *((each, each) for each in ENCODINGS)]
            yield selection("csv-encoding", encodings)
            yield selection("csv-acks", ACKS_OPTIONS)
            yield selection("csv-compression", CODEC_OPTIONS)
        yield Static("", id="csv-error", markup=False)

    @property
    def path(self) -> str:
        """The file's path, with `~` expanded."""
        return os.path.expanduser(self.query_one("#csv-path", Input).value.strip())

    @property
    def topic(self) -> str:
        return self.query_one("#csv-topic", Input).value.strip()

    @property
    def encoding(self) -> str | None:
        """The encoding; None: detected from the file's first bytes."""
        return self._chosen("csv-encoding") or None

    @property
    def how(self) -> tuple[str, str]:
        return self._chosen("csv-acks"), self._chosen("csv-compression")

    def mapping(self) -> CsvMapping:
        """How columns become parts of records."""
        value = self._chosen("csv-value")
        if value == JSON_OF_CHOSEN:
            value += ",".join(_split(self.query_one("#csv-columns", Input).value))
        elif value != JSON_OF_OTHERS:
            value = value.removeprefix("=")
        headers = {}
        for each in _split(self.query_one("#csv-headers", Input).value):
            column, equals, name = each.partition("=")
            headers[column.strip()] = name.strip() if equals else column.strip()
        return CsvMapping(
            key=self._chosen("csv-key") or None,
            value=value,
            headers=headers,
            null_value=self.query_one("#csv-null", Input).value or None,
            partition=self._chosen("csv-partition") or None,
            delimiter=self._chosen("csv-delimiter") or None,
        )

    def choose(self, path: str) -> None:
        self.query_one("#csv-path", Input).value = path

    def offer(self, columns: tuple[str, ...]) -> None:
        if columns == self.columns:
            return
        self.columns = columns
        plain = [(f"key: {each}", each) for each in columns]
        self._offer("csv-key", [("no key", NONE), *plain])
        self._offer("csv-partition", [("partition: by key", NONE), *((f"partition: {each}", each) for each in columns)])
        self._offer("csv-value", _values(columns))

    def complain(self, text: str) -> None:
        """Show an error of the file or the mapping; an empty text hides it."""
        error = self.query_one("#csv-error", Static)
        error.update(text)
        error.display = bool(text)

    def on_mount(self) -> None:
        self.complain("")

    @on(Input.Changed, "#csv-path")
    @on(Select.Changed, "#csv-delimiter")
    @on(Select.Changed, "#csv-encoding")
    def file_changed(self) -> None:
        self._is_new_file = True

    @on(Input.Changed)
    @on(Select.Changed)
    def mapping_changed(self) -> None:
        self.query_one("#csv-columns", Input).disabled = self._chosen("csv-value") != JSON_OF_CHOSEN
        if not self._is_waiting:
            self._is_waiting = True
            self.set_timer(CHANGED_AFTER_S, self._announce)

    def _announce(self) -> None:
        is_file, self._is_waiting, self._is_new_file = self._is_new_file, False, False
        self.post_message(self.Changed(is_file=is_file))

    def _chosen(self, id_: str) -> str:
        return str(self.query_one(f"#{id_}", Select).value)

    def _offer(self, id_: str, options: list[tuple[str, str]]) -> None:
        select = self.query_one(f"#{id_}", Select)
        before = self._chosen(id_)
        select.set_options((plain_title(label), value) for label, value in options)
        if any(value == before for _, value in options):
            select.value = before


def _values(columns: tuple[str, ...]) -> list[tuple[str, str]]:
    return [
        ("JSON of other columns", JSON_OF_OTHERS),
        ("JSON of chosen columns", JSON_OF_CHOSEN),
        *((f"column {each}", f"={each}") for each in columns),
    ]


def selection(id_: str, options: Sequence[tuple[str, str]]) -> Select[Any]:
    """A selection on one line, which begins with its first option."""
    return Select(options, value=options[0][1], allow_blank=False, compact=True, id=id_)


def _split(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


_GO_ON = "the first row that is not sent"
_FROM_START = "the first row"
_EMPTY = "No file yet. Press f to choose one, or e to type its path."


class CsvPane(Vertical):
    """Form, preview and upload."""

    app: "YakApp"

    def __init__(self, producers: Producers, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.run: Run | None = None
        self.command = ""
        self._feed: FileFeed | None = None
        self._producers = producers
        self._plan: FilePlan | None = None
        self._lines: int | None = None
        self._counted = ""
        self._total: int | None = None

    def compose(self) -> ComposeResult:
        yield CsvForm(id="csv-form")
        yield Panel("The first rows", Grid(id="preview"), id="preview-panel")
        yield Panel("Upload", Lines(id="upload"), id="upload-panel")
        with Horizontal(id="csv-buttons"):
            yield Button("Send ^s", id="csv-send", variant="primary", compact=True, disabled=True)
            yield Button("Stop X", id="csv-stop", compact=True, disabled=True)
            yield Static("", id="csv-command", markup=False)

    def on_mount(self) -> None:
        self.query_one("#preview", Grid).show(PREVIEW_COLUMNS, [], empty=_EMPTY)

    @property
    def producer(self) -> "ProducerScreen":
        return cast("ProducerScreen", self.screen)

    @property
    def form(self) -> CsvForm:
        return self.query_one(CsvForm)

    # the file

    @work(exclusive=True, group="choose")
    async def choose(self) -> None:
        path = await self.app.push_screen_wait(FilePicker(self.form.path))
        if path is not None:
            self.form.choose(path)

    @on(CsvForm.Changed)
    def refresh_preview(self, event: CsvForm.Changed) -> None:
        self.preview_file(is_new=event.is_file)

    @work(exclusive=True, group="preview")
    async def preview_file(self, *, is_new: bool) -> None:
        """Read, in a thread, the columns and the first rows as they would be sent."""
        form, path = self.form, self.form.path
        if not path or self.app.settings.is_public:
            self._forget("files of this machine are not shown to the public" if path else "")
            return
        try:
            if is_new:
                found = await asyncio.to_thread(preview_csv, path, encoding=form.encoding)
                form.offer(found.columns)
            partitions = len(self.app.picture.topics.get(form.topic, ())) or None
            plan = await asyncio.to_thread(
                prepare, path, form.mapping(), topic=form.topic, encoding=form.encoding, partitions=partitions
            )
        except YakError as error:
            self._forget(f"{error.message}: {error.why}" if error.why else error.message)
            return
        self._plan = plan
        form.complain("")
        self.query_one("#preview", Grid).show(
            PREVIEW_COLUMNS, preview_rows(plan.preview, self.app.fmt), empty="There is no row behind the header."
        )
        self._show_plan()
        if self._counted != path:
            self.count(path)

    @work(exclusive=True, group="count")
    async def count(self, path: str) -> None:
        """Count the rows; a gigabyte takes a second."""
        self._counted, self._lines = path, None
        plan = self._plan
        if plan is None:
            return
        try:
            self._lines = await asyncio.to_thread(count_rows, path, plan.mapping)
        except YakError:
            self._counted = ""
        self._show_plan()

    def _forget(self, why: str) -> None:
        self._plan, self.command = None, ""
        self.form.complain(f"{self.app.fmt.sign('bad')} {why}" if why else "")
        self.query_one("#preview", Grid).show(PREVIEW_COLUMNS, [], empty=why or _EMPTY)
        self._show_plan()

    def _show_plan(self) -> None:
        plan, form = self._plan, self.form
        is_ready = plan is not None and bool(form.topic) and not self.app.is_readonly
        self.query_one("#csv-send", Button).disabled = not is_ready or self.producer.running is not None
        text = "" if plan is None else csv_title(plan.preview, self._lines, self.app.fmt)
        self.form.border_subtitle = plain_title(text)
        self.command = ""
        if plan is not None and form.topic:
            acks, codec = form.how
            self.command = plan.command(Plan(form.topic, acks=acks, compression=codec))
        self.query_one("#csv-command", Static).update(display_command(self.command))
        self.paint()

    # sending

    @work(exclusive=True, group="ask")
    async def send(self) -> None:
        """Ask once, showing the command line, then send."""
        plan, form = self._plan, self.form
        if plan is None or not form.topic:
            self.app.notice("not sent: choose a file first" if plan is None else "not sent: no topic is named", "bad")
            self.query_one("#csv-path" if plan is None else "#csv-topic").focus()
            return
        fmt, notes = self.app.fmt, []
        rows = "its rows" if self._lines is None else f"{fmt.number(self._lines)} rows"
        if plan.preview.bad:
            line, why = plan.preview.mistakes[0]
            notes.append(
                f"{fmt.number(plan.preview.bad)} of the first {fmt.number(plan.preview.checked)} rows cannot be sent "
                f"(line {line}: {why}). Such rows go to {os.path.basename(plan.preview.path)}.rejected.csv."
            )
        fields = [Field("rate", "Rows in a second", "", "empty: as fast as the cluster takes them")]
        if plan.settled:
            notes.append(f"An earlier upload was stopped after row {fmt.number(plan.settled)}.")
            fields.insert(0, Field("start", "Begin with", _GO_ON, choices=(_GO_ON, _FROM_START)))
        values = await self.producer.fill_form(
            f"Send {rows} to {form.topic}", fields, self._command_of, text="\n".join(notes), yes="Send"
        )
        if values is not None:
            skip = plan.settled if values.get("start", _FROM_START) == _GO_ON else 0
            self.start(plan, self._how(values), skip)

    def _how(self, values: Mapping[str, str]) -> Plan:
        """The plan from the form. Raises UsageError."""
        acks, codec = self.form.how
        rate = parse_rate(values["rate"], "rows")
        return Plan(self.form.topic, acks=acks, compression=codec, count=None, rate=rate)

    def _command_of(self, values: Mapping[str, str]) -> str:
        file = self._plan
        assert file is not None
        command, checkpoint = file.command(self._how(values)), checkpoint_path(file.preview.path, self.form.topic)
        return f"rm '{checkpoint}'; {command}" if values.get("start") == _FROM_START else command

    @work(group="send")
    async def start(self, file: FilePlan, plan: Plan, skip: int) -> None:
        def made() -> Run:
            self._feed = FileFeed(file.preview.path, plan.topic, file.mapping, file.preview.encoding, skip=skip)
            self._total = self._lines
            self.run = Run(plan, self._feed, producers=self._producers)
            self.call_later(self._show_plan)
            return self.run

        stats = await self.producer.execute(made, file.command(plan), self._outcome)
        if stats is not None and stats.first_failure is not None and stats.state == "failed":
            self.app.show_error(stats.first_failure.error)
        if self.is_attached:
            self.preview_file(is_new=False)

    def _outcome(self, stats: DeliveryStatistics) -> str:
        number = self.app.fmt.number
        bad = self._feed.progress.rejected if self._feed is not None else 0
        return f"{number(stats.acknowledged)} rows acknowledged" + (f", {number(bad)} set aside" if bad else "")

    @on(Button.Pressed, "#csv-send, #csv-stop, #csv-choose")
    async def press(self, event: Button.Pressed) -> None:
        action = {"csv-send": "send", "csv-stop": "stop", "csv-choose": "file"}[str(event.button.id)]
        if self.producer.check_action(action, ()):
            getattr(self.producer, f"action_{action}")()

    def paint(self) -> None:
        fmt, lines = self.app.fmt, self.query_one("#upload", Lines)
        width = lines.size.width or 74
        panel = self.query_one("#upload-panel", Panel)
        self.query_one("#csv-stop", Button).disabled = self.producer.running is None
        if (
            self.run is not None
            and self._feed is not None
            and (self._plan is None or self._plan.preview.path == self._feed.path)
        ):
            stats, progress = self.run.stats, self._feed.progress
            name = os.path.basename(self._feed.rejects.path)
            panel.entitle(statistics_title(stats, fmt).replace("Sent", "Upload", 1))
            lines.show(upload_lines(stats, progress, self._total, name, fmt, width, lines.size.height or 3))
            return
        panel.entitle("Upload")
        plan = self._plan
        if plan is None:
            lines.show([[Cell("Rows are sent here, with a bar, a rate, and the time that is left.", "dim")]])
            return
        content = [check_line(plan.preview, fmt)]
        if plan.settled:
            text = f"an earlier upload stopped after row {fmt.number(plan.settled)}: S goes on there"
            content.append([Cell(f"{fmt.sign('paused')} {text}", "accent")])
        content.append(
            [Cell("S sends them; it asks first, and shows the command." if self.form.topic else "Name a topic.", "dim")]
        )
        lines.show(content)
