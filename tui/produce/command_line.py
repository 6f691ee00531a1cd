"""Shell commands that do the same as the Producer."""

import base64
import json
import shlex
from dataclasses import replace

from yak.client.inputs import JSON_OF_OTHERS, CsvMapping
from yak.client.record_template import OPEN, RecordTemplate, Template, encoded
from yak.tui.produce.plan import Plan


def produce_command(plan: Plan, message: RecordTemplate) -> str:
    """`yak produce` for records of a template.

    Binary data and header names with `=` are sent as JSON, without fields.
    """
    if not _is_typable(message) or (not message.is_plain and _has_plain_braces(message)):
        return _through_json(plan, message)
    words = ["yak", "produce", plan.topic]
    is_filled = not message.is_plain
    if message.key is not None:
        words += ["-k", message.key.source]
    words += ["-m", "", "--null-value", ""] if message.value is None else ["-m", message.value.source]
    for name, template in message.headers:
        words += ["-H", name if template is None else f"{name}={template.source}"]
    if is_filled:
        words.append("--template")
    return shlex.join([*words, *_how(plan)])


def upload_command(plan: Plan, path: str, mapping: CsvMapping, encoding: str, checkpoint: str) -> str:
    """`yak produce` for a CSV file."""
    words = ["yak", "produce", plan.topic, "-f", path, "--format", "csv"]
    if mapping.key:
        words += ["--csv-key", mapping.key]
    if mapping.value != JSON_OF_OTHERS:
        words += ["--csv-value", mapping.value]
    for column, name in mapping.headers.items():
        words += ["--csv-header", column if column == name else f"{column}={name}"]
    if mapping.partition:
        words += ["--csv-partition", mapping.partition]
    if mapping.columns:
        words += ["--csv-columns", ",".join(mapping.columns)]
    if mapping.delimiter:
        words += ["--csv-delimiter", {"\t": "tab"}.get(mapping.delimiter, mapping.delimiter)]
    if mapping.null_value is not None:
        words += ["--null-value", mapping.null_value]
    if encoding != "utf-8":
        words += ["--csv-encoding", encoding]
    return shlex.join([*words, "--resume", checkpoint, *_how(replace(plan, count=1))])


def shown_command(command: str) -> str:
    """A command on one line, with arrows for line ends. Not for a shell."""
    return f"$ {command}".replace("\n", "↵") if command else ""


def _how(plan: Plan) -> list[str]:
    words: list[str] = []
    if plan.partition is not None:
        words += ["-p", str(plan.partition)]
    if plan.acks != "all":
        words += ["--acks", plan.acks]
    if plan.compression != "none":
        words += ["-z", plan.compression]
    if plan.count is None:
        words += ["--repeat", "0"]
    elif plan.count > 1:
        words += ["--repeat", str(plan.count)]
    if plan.rate is not None:
        words += ["--rate", f"{plan.rate:g}"]
    return words


def _has_plain_braces(message: RecordTemplate) -> bool:
    """Whether a part without placeholders has braces, which `--template` would fill."""
    parts = [message.key, message.value, *(template for _, template in message.headers)]
    return any(part is not None and part.is_plain and OPEN in part.source for part in parts)


def _is_typable(message: RecordTemplate) -> bool:
    """Whether shell arguments can express it: text without NUL, and header names without `=`."""
    parts = [message.key, message.value, *(template for _, template in message.headers)]
    return all(part is None or _is_text(part.source) for part in parts) and not any(
        "=" in name for name, _ in message.headers
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
    made = f"printf '%s\\n' {shlex.quote(line)}"
    if plan.count == 1:
        return f"{made} | {shlex.join(['yak', 'produce', plan.topic, '-f', '-', '--format', 'json', *_how(plan)])}"
    kept = shlex.join(["yak", "produce", plan.topic, "-f", "message.json", *_how(plan)])
    return f"{made} > message.json && {kept}"  # a record sent repeatedly is read repeatedly


def _json_text(template: Template | None) -> tuple[str | None, str]:
    if template is None:
        return None, ""
    if _is_text(template.source):
        return template.source, ""
    return base64.b64encode(encoded(template.source)).decode(), "base64"
