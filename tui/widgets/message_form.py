"""The form of one record: topic, key, value, headers, send options. It validates as the user types."""

from typing import TYPE_CHECKING, Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Checkbox, Input, Label, Select, TextArea

from yak.tui.produce.form import KEY_KINDS, VALUE_KINDS, Form, Problem, Wrong, samples
from yak.tui.produce.plan import ACKS, CODECS
from yak.tui.rows.cells import Cell
from yak.tui.widgets.check import Check
from yak.tui.widgets.line import Line
from yak.tui.widgets.topic_field import TopicField

if TYPE_CHECKING:
    from yak.tui.app import YakApp

JUDGE_AFTER_S = 0.1
"""The delay before validating: checking a megabyte at each letter would be noticeable."""
_KIND_WORDS = {"json": "JSON", "text": "text", "null": "null", "none": "no key", "base64": "base64"}


class MessageForm(Vertical):
    """The user's input, as a `Form`."""

    app: "YakApp"

    class Changed(Message):
        """The input changed and was validated."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes="panel")
        self.border_title = "Message"
        self.problem: Problem | None = None
        self._is_quiet = False

    def compose(self) -> ComposeResult:
        """Build the fields, one line each; the value fills the rest."""
        with Horizontal(classes="row"):
            yield Label("Topic", classes="name")
            yield TopicField(id="form-topic")
            yield Label("Partition", classes="name inner")
            yield Input(placeholder="by key", compact=True, id="form-partition")
        with Horizontal(classes="row"):
            yield Label("Key", classes="name")
            yield _choice("form-key-kind", KEY_KINDS, _KIND_WORDS)
            yield Input(placeholder="empty: no key", compact=True, id="form-key", select_on_focus=False)
        with Horizontal(classes="row"):
            yield Label("Value", classes="name")
            yield _choice("form-value-kind", VALUE_KINDS, _KIND_WORDS)
            yield Line(id="form-words")
        yield TextArea(id="form-value", compact=True, highlight_cursor_line=False, soft_wrap=True)
        with Horizontal(id="form-headers-row"):
            yield Label("Headers", classes="name")
            yield TextArea(
                id="form-headers", compact=True, highlight_cursor_line=False, placeholder="NAME=VALUE, a line each"
            )
        with Horizontal(classes="row"):
            yield Label("Send", classes="name")
            yield _choice("form-acks", ACKS, {each: f"acks {each}" for each in ACKS})
            yield _choice("form-compression", CODECS, {"none": "not packed"})
            yield Check("fill {{i}} …", value=True, id="form-template")

    def form(self) -> Form:
        """The present input."""
        query = self.query_one
        return Form(
            topic=query("#form-topic", Input).value.strip(),
            partition=query("#form-partition", Input).value,
            key_kind=query("#form-key-kind", Select).value,  # type: ignore[arg-type]
            key=query("#form-key", Input).value,
            value_kind=query("#form-value-kind", Select).value,  # type: ignore[arg-type]
            value=query("#form-value", TextArea).text,
            headers=query("#form-headers", TextArea).text,
            is_template=query("#form-template", Checkbox).value,
            acks=str(query("#form-acks", Select).value),
            compression=str(query("#form-compression", Select).value),
        )

    def fill(self, form: Form) -> None:
        """Fill the fields from a form."""
        query = self.query_one
        query("#form-topic", Input).value = form.topic
        query("#form-partition", Input).value = form.partition
        query("#form-key-kind", Select).value = form.key_kind
        query("#form-key", Input).value = form.key
        query("#form-value-kind", Select).value = form.value_kind
        query("#form-value", TextArea).load_text(form.value)
        query("#form-headers", TextArea).load_text(form.headers)
        query("#form-template", Checkbox).value = form.is_template
        query("#form-acks", Select).value = form.acks
        query("#form-compression", Select).value = form.compression
        self.judge()

    def on_mount(self) -> None:
        """Validate the empty form."""
        self.judge()

    @on(Input.Changed)
    @on(Select.Changed)
    @on(TextArea.Changed)
    @on(Checkbox.Changed)
    def judge_soon(self) -> None:
        """Validate after a short delay."""
        if not self._is_quiet:
            self._is_quiet = True
            self.set_timer(JUDGE_AFTER_S, self.judge)

    def judge(self) -> None:
        """Show the first problem and its position, or the record's kind and size."""
        self._is_quiet = False
        form = self.form()
        self.problem = form.problem()
        self.query_one("#form-key", Input).disabled = form.key_kind == "none"
        self.query_one("#form-value", TextArea).disabled = form.value_kind == "null"
        self.query_one("#form-words", Line).show(self._words(form))
        self.show_topic()
        self.post_message(self.Changed())

    def show_topic(self) -> None:
        """Show the topic's partitions and replicas, or that it does not exist."""
        name = self.query_one("#form-topic", Input).value.strip()
        words = f"Message: {self._topic_words(name)}" if name and self.app.picture.is_loaded else "Message"
        if self.border_title != words:
            self.border_title = words

    def _topic_words(self, name: str) -> str:
        look = self.app.look
        found = [each for (topic, _), each in self.app.picture.partitions.items() if topic == name]
        if not found:
            return f"{look.sign('warn')} no topic {name} yet, S asks to create it"
        leaderless = sum(each.leader is None for each in found)
        if leaderless:
            return f"{look.sign('bad')} {name} has {leaderless} of {len(found)} partitions without a leader"
        copies = max(len(each.replicas) for each in found)
        return f"{name}, {len(found)} partition{'s' * (len(found) != 1)} of {copies} replica{'s' * (copies != 1)}"

    def _words(self, form: Form) -> list[Cell]:
        look = self.app.look
        if form.value_kind == "json" and not form.value.strip():
            return [Cell("type JSON below; {{i}} counts, i explains the others", "dim")]
        wrong = form.value_problem() or self.problem
        if wrong is not None and not (wrong.field == "topic" and not form.topic):
            place = f"line {wrong.line}, column {wrong.column}: " if wrong.field in ("value", "headers") else ""
            field = "" if wrong.field == "value" else f"{wrong.field}: "
            return [Cell(f"{look.sign('bad')} {field}{place}{wrong.why}", "bad")]
        try:
            value = samples(form.message(), 1)[0].value
        except Wrong as error:
            return [Cell(f"{look.sign('bad')} {error.problem.why}", "bad")]
        if value is None:
            return [Cell("a tombstone: it deletes its key where a topic is compacted", "dim")]
        size = look.size(len(value))
        kind = {"json": "JSON, ", "base64": "bytes, "}.get(form.value_kind, "")
        about = "" if form.message().is_plain else "about "
        return [Cell(f"{look.sign('good')} {kind}{about}{size}", "good")]


def _choice(id_: str, values: tuple[str, ...], words: dict[str, str]) -> Select[Any]:
    options = [(words.get(value, value), value) for value in values]
    return Select(options, value=values[0], allow_blank=False, compact=True, id=id_)
