"""Implements `yak produce`: checks the request, creates the topic if allowed, sends, reports delivery statistics."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from yak.commands import interrupts
from yak.commands.produce_source import Source, open_source
from yak.commands.units import parse_duration_ms, parse_size_bytes
from yak.errors import UsageError, YakError
from yak.view.formats import counted, format_duration, group_digits

if TYPE_CHECKING:
    from yak.client.inputs import Row
    from yak.client.produce import RecordSender
    from yak.commands.options import Globals
    from yak.commands.output import Progress

DEFAULT_TOPIC = "yak"
DRY_RUN_RECORDS = 5
CHECKPOINT_EVERY_S = 0.5
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = {"0": "0", "1": "1", "all": "all", "-1": "all"}


@dataclass(frozen=True, slots=True)
class Request:
    """The options of one `yak produce`, as typed."""

    topic: str | None = None
    messages: tuple[str, ...] = ()
    key: str | None = None
    headers: tuple[str, ...] = ()
    template: bool = False
    partition: int | None = None
    timestamp: str | None = None
    file: str | None = None
    format: str | None = None
    key_separator: str | None = None
    null_value: str | None = None
    csv_key: str | None = None
    csv_value: str = "json"
    csv_headers: tuple[str, ...] = ()
    csv_columns: str | None = None
    csv_partition: str | None = None
    csv_delimiter: str | None = None
    csv_encoding: str = "utf-8"
    resume: str | None = None
    acks: str = "all"
    compression: str = "none"
    batch_size: str | None = None
    linger: str | None = None
    transactional: bool = False
    transactional_id: str | None = None
    rate: float | None = None
    repeat: int = 1
    create: bool = False
    dry_run: bool = False
    tee: bool = False

    def with_properties(self, properties: tuple[str, ...]) -> "Request":
        """Translate Apache's `--property parse.key=true --property key.separator=:` to options of yak."""
        given: dict[str, str] = {}
        for text in properties:
            name, equals, value = text.partition("=")
            if not equals or name not in ("parse.key", "key.separator", "null.marker"):
                raise UsageError(
                    "bad-property",
                    f'"{text}" is not a property of produce',
                    why="known are parse.key=true, key.separator=TEXT and null.marker=TEXT",
                    try_=("--key-separator TEXT",),
                )
            given[name] = value
        changed = self
        if given.get("parse.key", "").lower() == "true":
            changed = replace(changed, key_separator=given.get("key.separator", "\\t"))
        if "null.marker" in given:
            changed = replace(changed, null_value=given["null.marker"])
        return changed

    def check(self) -> None:
        """Raise UsageError for contradicting options, or impossible values."""
        if self.messages and self.file is not None:
            raise UsageError("usage", "-m and --file exclude each other", why="both say what to send")
        if self.resume is not None and (self.file in (None, "-") or self.repeat != 1):
            raise UsageError(
                "usage", "--resume needs --file PATH", why="only a file can be read again from where it stopped"
            )
        if self.template and (not self.messages or self.key_separator is not None):
            raise UsageError("usage", "--template needs -m", why="files, stdin and split lines are sent as they are")
        if self.acks not in ACKS:
            raise UsageError("usage", f'--acks "{self.acks}" is not 0, 1 or all', try_=("--acks all",))
        if self.compression not in CODECS:
            raise UsageError(
                "usage", f'"{self.compression}" is not a codec', why=f"codecs are {', '.join(CODECS)}", try_=("-z lz4",)
            )
        if self.repeat != 1 and self.file == "-":
            raise UsageError("usage", "--repeat needs a file or -m", why="stdin can be read only once")
        if self.transactional:
            self._check_transactional()

    def _check_transactional(self) -> None:
        if self.transactional_id == "":
            raise UsageError("usage", "--transactional-id is empty", try_=("--transactional",))
        if ACKS[self.acks] != "all":
            raise UsageError("usage", "--transactional needs --acks all", why="transactions are idempotent")
        if self.resume is not None:
            raise UsageError(
                "usage",
                "--transactional and --resume exclude each other",
                why="a transaction has no part to go on from",
            )
        if self.repeat == 0:
            raise UsageError("usage", "--transactional needs an end", why="Ctrl+C aborts it, and --repeat 0 ends so")


def run(g: "Globals", request: Request) -> int:
    """Produce; return the exit code. Raises YakError when nothing could be started."""
    from yak.client.produce import RecordSender

    request.check()
    topic = request.topic or DEFAULT_TOPIC
    with open_source(g, request, topic) as source:
        if request.dry_run:
            return _show(g, source, topic)
        g.must_not_be_readonly(f"writing to {topic}")
        source.skip(source.checkpoint.read() if source.checkpoint else 0)
        _prepare_topic(g, request, topic)
        producer = _open_producer(g, request)
        sender = RecordSender(g.bootstrap_servers, topic, acks=ACKS[request.acks], producer=producer)
        started = time.monotonic()
        if request.transactional:
            return _send_in_transaction(g, request, source, sender, producer, started)
        interrupted = _send_all(g, request, source, sender)
        return _account(g, source, sender, topic, time.monotonic() - started, interrupted)


def _send_in_transaction(
    g: "Globals", request: Request, source: Source, sender: "RecordSender", producer: Any, started: float
) -> int:
    """Send all rows in one transaction; commit it if every one was acknowledged, else abort it."""
    from yak.client.produce import ProducerTransaction

    transaction = ProducerTransaction(producer, timeout_s=_delivery_timeout_ms(g) / 1000)
    try:
        interrupted = _send_all(g, request, source, sender)
    except BaseException:
        transaction.abort()
        raise
    tally = sender.tally
    if not (interrupted or source.rejected or tally.acknowledged < tally.sent):
        transaction.commit()
        return _account(g, source, sender, sender.topic, time.monotonic() - started, interrupted)
    transaction.abort()
    if interrupted:
        g.out.note("interrupted: the transaction was aborted")
        return 130
    reasons = [f"{words} (x{count})" for words, count in tally.reasons.most_common(3)]
    if source.rejected:
        reasons.append(f"{counted(source.rejected, 'bad row')}: {source.rejected_path}")
    raise YakError(
        "transaction-aborted",
        f"the transaction of {counted(tally.sent, 'record')} was aborted",
        why="; ".join(reasons) or "not all records were acknowledged in time",
        try_=("correct it, and send all again",),
    )


def _prepare_topic(g: "Globals", request: Request, topic: str) -> None:
    """Ensure that the topic exists: create the default topic, and with --create any topic."""
    from yak.client.admin import Admin
    from yak.client.produce import require_target
    from yak.client.reach import require_advertised

    admin = Admin(g.bootstrap_servers, timeout_ms=g.timeout_ms, verbose=g.verbose)
    ensure_topic(g, admin, topic, create=request.create)
    found = require_target(admin, topic, request.partition)
    require_advertised(admin.metadata().leaders_of([found]), admin.answered)


def ensure_topic(g: "Globals", admin: Any, topic: str, *, create: bool = False) -> None:
    """Create a missing topic: `yak` with one partition, others only with `create`; otherwise the caller handles it."""
    if topic in admin.metadata().topics or not (create or topic == DEFAULT_TOPIC):
        return
    g.must_not_be_readonly(f"creating topic {topic}")
    try:
        admin.create_topic(topic, partitions=1 if topic == DEFAULT_TOPIC else -1)
        g.out.note(f"created topic {topic}")
    except YakError as error:
        if error.code != "topic-exists":  # another client created it first
            raise
    deadline = time.monotonic() + g.timeout_ms / 1000
    while time.monotonic() < deadline:
        found = admin.metadata().topics.get(topic)
        if found is not None and found.partitions and all(each.leader >= 0 for each in found.partitions):
            return
        time.sleep(0.05)


def _open_producer(g: "Globals", request: Request) -> Any:
    from yak.client.produce import open_producer, producer_settings, transaction_settings

    settings = producer_settings(
        g.bootstrap_servers,
        acks=ACKS[request.acks],
        compression=request.compression,
        batch_size_bytes=parse_size_bytes(request.batch_size) if request.batch_size else None,
        linger_ms=parse_duration_ms(request.linger, bare_unit="ms") if request.linger else None,
        delivery_timeout_ms=_delivery_timeout_ms(g),
        verbose=g.verbose,
    )
    return open_producer(settings | (transaction_settings(request.transactional_id) if request.transactional else {}))


def _delivery_timeout_ms(g: "Globals") -> int:
    return g.timeout_ms if g.timeout_given else 30_000


def _send_all(g: "Globals", request: Request, source: Source, sender: "RecordSender") -> bool:
    """Send every row; return whether Ctrl+C interrupted."""
    with g.out.progress("sending", source.total_rows()) as bar:
        try:
            _send_rows(g, request, source, sender, bar)
            sender.finish(_delivery_timeout_ms(g) / 1000 + 5)
        except (KeyboardInterrupt, SystemError) as stop:
            if isinstance(stop, SystemError) and not interrupts.seen():
                raise
            sender.finish(2.0)
            sender.give_up()
            return True
        finally:
            source.keep(sender.prefix.length)
    return False


def _send_rows(g: "Globals", request: Request, source: Source, sender: "RecordSender", bar: "Progress") -> None:
    kept_at = time.monotonic()
    for place, row in enumerate(_paced(source.rows(), request.rate, sender)):
        if row.record is None:
            source.reject(row)
            sender.settle_rejected(place)
        else:
            sender.send(row.record, place)
            if request.tee:
                g.out.stdout.buffer.write((row.record.value or b"") + b"\n")
        if place % 256 == 0:
            bar.update(place + 1, counted(source.rejected, "bad row") if source.rejected else "")
            if source.checkpoint is not None and time.monotonic() - kept_at > CHECKPOINT_EVERY_S:
                source.keep(sender.prefix.length)
                kept_at = time.monotonic()


def _paced(rows: "Iterator[Row]", rate: float | None, sender: "RecordSender") -> "Iterator[Row]":
    """The rows, at most `rate` per second; processes delivery reports while it waits."""
    if rate is None:
        yield from rows
        return
    started = time.monotonic()
    for number, row in enumerate(rows):
        while (wait_s := started + number / rate - time.monotonic()) > 0:
            sender.serve(min(wait_s, 0.1))
        yield row


def _show(g: "Globals", source: Source, topic: str) -> int:
    """Print the first records as they would be sent; return the exit code."""
    shown: list[dict[str, Any]] = []
    bad = 0
    for row in source.rows():
        if row.record is None:
            bad += 1
            g.out.note(f"row {row.number + 1} cannot be sent: {row.problem}")
            continue
        record = row.record
        shown.append(
            {
                "topic": topic,
                "key": _readable(record.key),
                "value": _readable(record.value),
                "headers": [f"{name}={_readable(value)}" for name, value in record.headers],
                "partition": record.partition if record.partition >= 0 else None,
            }
        )
        if len(shown) >= DRY_RUN_RECORDS:
            break
    g.out.table(shown, ("topic", "key", "value", "headers"), ("partition",))
    g.out.note("dry run: nothing was sent")
    return 1 if bad else 0


def _readable(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def _account(g: "Globals", source: Source, sender: "RecordSender", topic: str, took_s: float, interrupted: bool) -> int:
    """Print the delivery statistics; return the exit code."""
    from yak.client.produce import FEW

    tally, out = sender.tally, g.out
    unsettled = tally.sent - tally.acknowledged - tally.failed
    unknown = tally.unknown + unsettled
    spans = [
        {"topic": name, "partition": part, "records": span.records, "first_offset": span.first_offset,
         "last_offset": span.last_offset}
        for (name, part), span in sorted(tally.spans.items())
    ]  # fmt: skip
    if out.format in ("json", "yaml"):
        if not g.quiet:
            out.object(
                {"topic": topic, "acknowledged": tally.acknowledged, "failed": tally.failed + unsettled,
                 "unknown": unknown, "rejected": source.rejected, "seconds": round(took_s, 3), "partitions": spans}
            )  # fmt: skip
    elif tally.acknowledged <= FEW:
        for each in sorted(tally.few, key=lambda ack: ack.number):
            if not g.quiet and not source.is_tee:
                out.line(f"{each.topic}-{each.partition}@{each.offset if each.offset >= 0 else '?'}")
    else:
        rate = tally.acknowledged / max(took_s, 1e-6)
        out.note(
            f"wrote {counted(tally.acknowledged, 'record')} to {counted(len(spans), 'partition')}"
            f" in {format_duration(took_s * 1000)} ({group_digits(round(rate))}/s)"
        )
    if source.rejected:
        out.note(f"{counted(source.rejected, 'bad row')} not sent: {source.rejected_path}")
    if tally.failed or unsettled:
        _complain(g, source, sender, unknown, unsettled)
    if interrupted:
        return 130
    return 1 if tally.failed or unsettled or source.rejected else 0


def _complain(g: "Globals", source: Source, sender: "RecordSender", unknown: int, unsettled: int) -> None:
    """Print one error for all failed records: how many, why, and whether they were written."""
    tally = sender.tally
    failed = tally.failed + unsettled
    reasons = [f"{words} (x{count})" if count > 1 else words for words, count in tally.reasons.most_common(3)]
    if unsettled:
        reasons.append(f"no answer yet (x{unsettled})")
    written = []
    if tally.not_written:
        written.append(f"{group_digits(tally.not_written)} certainly not written, sending them again is safe")
    if unknown:
        written.append(f"{group_digits(unknown)} unknown: written or not")
    steps: tuple[str, ...] = tally.failures[0].error.try_ if tally.failures else ("yak doctor",)
    if source.checkpoint is not None:
        steps = (f"the same command again goes on after row {source.kept_rows}",)
    slug = tally.failures[0].error.code if tally.failures else "timed-out"
    what = f"{group_digits(failed)} of {counted(tally.sent, 'record')} not acknowledged"
    error: Any = YakError(slug, what, why="; ".join(reasons) + ". Written: " + "; ".join(written), try_=steps)
    error.kafka_code = getattr(tally.failures[0].error, "kafka_code", None) if tally.failures else None
    g.out.error(error)
