"""The form of a CSV file: its path, and the use of its columns. A thread reads the file itself."""

import os
from typing import TYPE_CHECKING, Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Button, Input, Label, Select, Static

from yak.client.csv_files import ENCODINGS
from yak.client.inputs import JSON_OF_CHOSEN, JSON_OF_OTHERS, CsvMapping
from yak.tui.produce.plan import ACKS, CODECS
from yak.tui.widgets.topic_field import TopicField

if TYPE_CHECKING:
    from yak.tui.app import YakApp

NONE = ""
"""The empty choice: no column, or automatic."""
_DELIMITERS = (("delimiter: found", NONE), ('","', ","), ('";"', ";"), ("tab", "\t"), ('"|"', "|"))
CHANGED_AFTER_S = 0.15


class CsvForm(Vertical):
    """The user's input, as a path and a `CsvMapping`."""

    app: "YakApp"

    class FileChanged(Message):
        """Another file, or another way to read it: its columns are unknown again."""

    class MappingChanged(Message):
        """The same file, with another mapping."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes="panel")
        self.border_title = "CSV file"
        self.columns: tuple[str, ...] = ()
        self._waiting: set[str] = set()

    def compose(self) -> ComposeResult:
        """Build one line for each setting."""
        with Horizontal(classes="row"):
            yield Label("File", classes="name")
            yield Input(placeholder="path of a CSV file; f shows directories", compact=True, id="csv-path")
            yield Button("choose (f)", id="csv-choose", compact=True)
        with Horizontal(classes="row"):
            yield Label("Topic", classes="name")
            yield TopicField(id="csv-topic")
            yield _select("csv-key", [("no key", NONE)], "Key")
            yield _select("csv-partition", [("partition: by key", NONE)], "Partition")
        with Horizontal(classes="row"):
            yield Label("Value", classes="name")
            yield _select("csv-value", _values(()), "Value")
            yield Input(placeholder="columns: a,b,c", compact=True, id="csv-columns", disabled=True)
        with Horizontal(classes="row"):
            yield Label("Headers", classes="name")
            yield Input(placeholder="COLUMN, COLUMN=NAME, ...", compact=True, id="csv-headers")
            yield Input(placeholder="text that means null", compact=True, id="csv-null")
        with Horizontal(classes="row"):
            yield Label("Read", classes="name")
            yield _select("csv-delimiter", list(_DELIMITERS), "Delimiter")
            encodings = [("encoding: found", NONE), *((each, each) for each in ENCODINGS)]
            yield _select("csv-encoding", encodings, "Encoding")
            yield _select("csv-acks", [(f"acks {each}", each) for each in ACKS], "Acks")
            packed = [("not packed" if each == "none" else each, each) for each in CODECS]
            yield _select("csv-compression", packed, "Compression")
        yield Static("", id="csv-error", markup=False)

    @property
    def path(self) -> str:
        """The file's path, with `~` expanded."""
        return os.path.expanduser(self.query_one("#csv-path", Input).value.strip())

    @property
    def topic(self) -> str:
        """The topic to send to."""
        return self.query_one("#csv-topic", Input).value.strip()

    @property
    def encoding(self) -> str | None:
        """The encoding; None: detected from the file's first bytes."""
        return self._chosen("csv-encoding") or None

    @property
    def how(self) -> tuple[str, str]:
        """Acks and compression."""
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
        """Put a file's path in."""
        self.query_one("#csv-path", Input).value = path

    def offer(self, columns: tuple[str, ...]) -> None:
        """Offer these columns of the file; choices among them stay."""
        if columns == self.columns:
            return
        self.columns = columns
        plain = [(f"key: {each}", each) for each in columns]
        self._offer("csv-key", [("no key", NONE), *plain])
        self._offer("csv-partition", [("partition: by key", NONE), *((f"partition: {each}", each) for each in columns)])
        self._offer("csv-value", _values(columns))

    def complain(self, words: str) -> None:
        """Show an error of the file or the mapping; an empty text hides it."""
        error = self.query_one("#csv-error", Static)
        error.update(words)
        error.display = bool(words)

    def on_mount(self) -> None:
        """Begin without an error."""
        self.complain("")

    @on(Input.Changed, "#csv-path")
    @on(Select.Changed, "#csv-delimiter")
    @on(Select.Changed, "#csv-encoding")
    def file_changed(self) -> None:
        """Announce that the file must be read again."""
        self._tell_soon("file")

    @on(Input.Changed)
    @on(Select.Changed)
    def mapping_changed(self) -> None:
        """Announce that the preview must be built again."""
        self.query_one("#csv-columns", Input).disabled = self._chosen("csv-value") != JSON_OF_CHOSEN
        self._tell_soon("mapping")

    def _tell_soon(self, what: str) -> None:
        if not self._waiting:
            self.set_timer(CHANGED_AFTER_S, self._tell)
        self._waiting.add(what)

    def _tell(self) -> None:
        is_file = "file" in self._waiting
        self._waiting.clear()
        self.post_message(self.FileChanged() if is_file else self.MappingChanged())

    def _chosen(self, id_: str) -> str:
        return str(self.query_one(f"#{id_}", Select).value)

    def _offer(self, id_: str, options: list[tuple[str, str]]) -> None:
        select = self.query_one(f"#{id_}", Select)
        before = self._chosen(id_)
        select.set_options(options)
        if any(value == before for _, value in options):
            select.value = before


def _values(columns: tuple[str, ...]) -> list[tuple[str, str]]:
    return [
        ("JSON of other columns", JSON_OF_OTHERS),
        ("JSON of chosen columns", JSON_OF_CHOSEN),
        *((f"column {each}", f"={each}") for each in columns),
    ]


def _select(id_: str, options: list[tuple[str, str]], prompt: str) -> Select[Any]:
    return Select(options, value=options[0][1], allow_blank=False, compact=True, id=id_, prompt=prompt)


def _split(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
