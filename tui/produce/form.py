"""The Producer's form as a value: the input, its problems with their positions, the record, the equivalent command."""

import base64
import binascii
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Literal, NoReturn

from yak.client.inputs import JSON_OF_OTHERS, CsvMapping
from yak.client.produce import Outgoing
from yak.client.record_json import encode_bytes
from yak.client.record_template import (
    OPEN,
    RecordTemplate,
    Template,
    TemplateError,
    encoded,
    parse_template,
    place_of,
    plain,
)
from yak.tui.produce.run import Plan

KeyKind = Literal["none", "text", "base64"]
ValueKind = Literal["json", "text", "null", "base64"]
KEY_KINDS: Final[tuple[KeyKind, ...]] = ("text", "none", "base64")
VALUE_KINDS: Final[tuple[ValueKind, ...]] = ("json", "text", "null", "base64")
_HEADER: Final = re.compile(r"((?:[^=\\]|\\.|\\$)*)(?:=(.*))?", re.DOTALL)
_ESCAPES: Final = {"s": " ", "t": "\t", "n": "\n", "r": "\r"}
BASE64_MARK: Final = "base64:"
SAMPLE_MS: Final = 1_700_000_000_000
PARTITION_DIGITS: Final = 9


class FormError(Exception):
    """Why the form cannot be sent: the field (`topic`, `partition`, `key`, `value`, `headers`), the position from 1."""

    def __init__(self, field: str, why: str, line: int = 1, column: int = 1) -> None:
        super().__init__(why)
        self.field, self.why, self.line, self.column = field, why, line, column

    @property
    def text(self) -> str:
        """`line 2, column 7: not JSON: ...`; other fields than the value are named."""
        place = f"line {self.line}, column {self.column}: " if self.field in ("value", "headers") else ""
        return f"{'' if self.field == 'value' else f'{self.field}: '}{place}{self.why}"


@dataclass(frozen=True, slots=True)
class Form:
    r"""The input. `headers` has a line `NAME=VALUE` for each header; a line without `=` is a header with a null value.

    In a name, `\=` is a `=`, `\s` a space at its end. A value that begins with `base64:` is binary.
    """

    topic: str = ""
    partition: str = ""
    key_kind: KeyKind = "text"
    key: str = ""
    value_kind: ValueKind = "json"
    value: str = ""
    headers: str = ""
    is_template: bool = True
    acks: str = "all"
    compression: str = "none"

    @classmethod
    def of(
        cls,
        topic: str,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> "Form":
        """The form for a record: braces are literal, binary data is base64; without a value it is a tombstone."""
        key_kind, key_text = _key_field(key)
        value_kind, value_text = _value_field(value)
        return cls(
            topic=topic,
            key_kind=key_kind,
            key=key_text,
            value_kind=value_kind,
            value=value_text,
            headers="\n".join(_header_line(name, data) for name, data in headers),
            is_template=False,
        )

    def plan(self, *, count: int | None = 1, rate: float | None = None) -> Plan:
        """How to send. Raises FormError."""
        if not self.topic.strip():
            raise FormError("topic", "no topic is named")
        return Plan(self.topic.strip(), self._partition(), self.acks, self.compression, count, rate)

    def message(self) -> RecordTemplate:
        """What to send. Raises FormError."""
        return RecordTemplate(self._key(), self._value(), tuple(self._headers()))

    def problem(self) -> FormError | None:
        """The first problem, or None if the form can be sent."""
        try:
            self.plan()
            self.message()
        except FormError as wrong:
            return wrong
        return None

    def value_problem(self) -> FormError | None:
        """The value's problem, regardless of the other fields."""
        try:
            self.message()
        except FormError as wrong:
            return wrong if wrong.field == "value" else None
        return None

    def _partition(self) -> int | None:
        text = self.partition.strip()
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= PARTITION_DIGITS):
            raise FormError("partition", f'"{text}" is not the number of a partition; empty: by key')
        return int(text)

    def _key(self) -> Template | None:
        if self.key_kind == "none" or (self.key_kind == "text" and not self.key):
            return None
        if self.key_kind == "base64":
            return plain(_unwrapped("key", self.key))
        return self._template("key", self.key)

    def _value(self) -> Template | None:
        if self.value_kind == "null":
            return None
        if self.value_kind == "base64":
            return plain(_unwrapped("value", self.value))
        template = self._template("value", self.value)
        if self.value_kind == "json":
            _must_be_json(template)
        return template

    def _headers(self) -> Iterator[tuple[str, Template | None]]:
        for number, line in enumerate(self.headers.split("\n"), 1):
            if not line.strip():
                continue
            found = _HEADER.fullmatch(line)
            assert found is not None, "every line is a name, with or without a value"
            name, text = _plain_name(found.group(1).strip()), found.group(2)
            if not name:
                raise FormError("headers", "a header without a name: NAME=VALUE", number)
            if text is None:
                yield name, None
            elif text.startswith(BASE64_MARK):
                yield name, plain(_unwrapped("headers", text.removeprefix(BASE64_MARK), number))
            else:
                yield name, self._template("headers", text, line=number, shift=found.start(2))

    def _template(self, field: str, text: str, line: int = 1, shift: int = 0) -> Template:
        if not self.is_template:
            return plain(text)
        try:
            return parse_template(text)
        except TemplateError as error:
            raise FormError(field, error.why, error.line + line - 1, error.column + shift) from None


def samples(message: RecordTemplate, count: int, now_ms: int = SAMPLE_MS) -> list[Outgoing]:
    """The first records that would be sent, for display. The random values differ from those sent."""
    return list(islice(message.records(lambda: now_ms, seed=1), count))


def _must_be_json(template: Template) -> None:
    try:
        json.loads(template.shape, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        why = "empty: JSON is at least null" if not template.source.strip() else f"not JSON: {_lowered(error.msg)}"
        raise FormError("value", why, error.lineno, error.colno) from None
    except _NotJson as error:
        line, column = place_of(template.source, max(template.source.find(str(error)), 0))
        raise FormError("value", f"not JSON: {error} is no number there", line, column) from None
    except RecursionError:
        raise FormError("value", "not JSON: nested too deeply") from None
    except ValueError as error:  # an integer with more digits than Python parses
        raise FormError("value", f"not JSON: {_lowered(str(error))}") from None


class _NotJson(Exception):
    pass


def _no_constant(name: str) -> NoReturn:
    raise _NotJson(name)


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def _unwrapped(field: str, text: str, line: int = 1) -> str:
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise FormError(field, f"not base64: {_lowered(str(error))}", line) from None
    return data.decode("utf-8", "surrogateescape")


def _key_field(key: bytes | None) -> tuple[KeyKind, str]:
    if key is None:
        return "none", ""
    text, encoding = encode_bytes(key)
    if encoding or not text or "\n" in text or "\r" in text:  # an input line cannot hold these
        return "base64", base64.b64encode(key).decode()
    return "text", text


def _value_field(value: bytes | None) -> tuple[ValueKind, str]:
    if value is None:
        return "null", ""
    text, encoding = encode_bytes(value)
    assert text is not None
    if encoding or "\r" in text:  # an editor has only one kind of line end
        return "base64", base64.b64encode(value).decode()
    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError, _NotJson):
        return "text", text
    return "json", text


def _plain_name(written: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found.group(1), found.group(1)), written)


def _written_name(name: str) -> str:
    """A header's name for the form, escaped: spaces at its ends, `=`, backslashes, tabs and line ends."""
    text = name.replace("\\", "\\\\").replace("=", "\\=").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - len(inner) - before if inner else 0
    return "\\s" * before + inner + "\\s" * after


def _header_line(name: str, data: bytes | None) -> str:
    written = _written_name(name)
    if data is None:
        return written
    text, encoding = encode_bytes(data)
    if encoding or text is None or "\n" in text or "\r" in text or text.startswith(BASE64_MARK):
        return f"{written}={BASE64_MARK}{base64.b64encode(data).decode()}"
    return f"{written}={text}"


def produce_command(plan: Plan, message: RecordTemplate) -> str:
    """`yak produce` for records of a template.

    Binary data and header names with `=` are sent as JSON, without fields.
    """
    if not _is_typable(message) or (not message.is_plain and _has_plain_braces(message)):
        return _through_json(plan, message)
    argv = ["yak", "produce", plan.topic]
    is_filled = not message.is_plain
    if message.key is not None:
        argv += ["-k", message.key.source]
    argv += ["-m", "", "--null-value", ""] if message.value is None else ["-m", message.value.source]
    for name, template in message.headers:
        argv += ["-H", name if template is None else f"{name}={template.source}"]
    if is_filled:
        argv.append("--template")
    return shlex.join([*argv, *_how(plan)])


def upload_command(plan: Plan, path: str, mapping: CsvMapping, encoding: str, checkpoint: str) -> str:
    """`yak produce` for a CSV file."""
    argv = ["yak", "produce", plan.topic, "-f", path, "--format", "csv"]
    if mapping.key:
        argv += ["--csv-key", mapping.key]
    if mapping.value != JSON_OF_OTHERS:
        argv += ["--csv-value", mapping.value]
    for column, name in mapping.headers.items():
        argv += ["--csv-header", column if column == name else f"{column}={name}"]
    if mapping.partition:
        argv += ["--csv-partition", mapping.partition]
    if mapping.columns:
        argv += ["--csv-columns", ",".join(mapping.columns)]
    if mapping.delimiter:
        argv += ["--csv-delimiter", {"\t": "tab"}.get(mapping.delimiter, mapping.delimiter)]
    if mapping.null_value is not None:
        argv += ["--null-value", mapping.null_value]
    if encoding != "utf-8":
        argv += ["--csv-encoding", encoding]
    return shlex.join([*argv, "--resume", checkpoint, *_how(replace(plan, count=1))])


def display_command(command: str) -> str:
    """A command on one line, with arrows for line ends. Not for a shell."""
    return f"$ {command}".replace("\n", "↵") if command else ""


def _how(plan: Plan) -> list[str]:
    argv: list[str] = []
    if plan.partition is not None:
        argv += ["-p", str(plan.partition)]
    if plan.acks != "all":
        argv += ["--acks", plan.acks]
    if plan.compression != "none":
        argv += ["-z", plan.compression]
    if plan.count is None:
        argv += ["--repeat", "0"]
    elif plan.count > 1:
        argv += ["--repeat", str(plan.count)]
    if plan.rate is not None:
        argv += ["--rate", f"{plan.rate:g}"]
    return argv


def _has_plain_braces(message: RecordTemplate) -> bool:
    """Whether a part without placeholders has braces, which `--template` would fill."""
    parts = [message.key, message.value, *(template for _, template in message.headers)]
    return any(part is not None and part.is_plain and OPEN in part.source for part in parts)


def _is_typable(message: RecordTemplate) -> bool:
    """Whether shell arguments can express it: text without NUL, and header names of some text without `=`."""
    parts = [message.key, message.value, *(template for _, template in message.headers)]
    return all(part is None or _is_text(part.source) for part in parts) and all(
        name and "=" not in name and _is_text(name) for name, _ in message.headers
    )


def _is_text(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


def _through_json(plan: Plan, message: RecordTemplate) -> str:
    if not message.is_plain:
        return "# no one command: placeholders, beside bytes or braces that are sent as they are"
    document: dict[str, object] = {}
    for name, template in (("key", message.key), ("value", message.value)):
        text, encoding = _json_text(template)
        document[name] = text
        if encoding:
            document[f"{name}_encoding"] = encoding
    headers = []
    for name, template in message.headers:
        text, encoding = _json_text(template)
        headers.append({"key": name, "value": text} | ({"encoding": encoding} if encoding else {}))
    if headers:
        document["headers"] = headers
    line = json.dumps(document, ensure_ascii=True, separators=(",", ":"))
    document_command = f"printf '%s\\n' {shlex.quote(line)}"
    if plan.count == 1:
        return f"{document_command} | {shlex.join(['yak', 'produce', plan.topic, '-f', '-', '--format', 'json', *_how(plan)])}"
    produce = shlex.join(["yak", "produce", plan.topic, "-f", "message.json", *_how(plan)])
    return f"{document_command} > message.json && {produce}"  # a record sent repeatedly is read repeatedly


def _json_text(template: Template | None) -> tuple[str | None, str]:
    if template is None:
        return None, ""
    if _is_text(template.source):
        return template.source, ""
    return base64.b64encode(encoded(template.source)).decode(), "base64"
