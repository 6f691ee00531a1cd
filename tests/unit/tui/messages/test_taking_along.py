"""Copies and exports: what leaves the screen comes back as the same records."""

import csv
import errno
import io
import json
import os
import shlex
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.errors import raises_error
from yak.client.record_csv import CSV_COLUMNS
from yak.client.record_json import parse_record
from yak.errors import YakError
from yak.tui.messages.export import COPIES, Progress, export, file_name, format_of, produce_command, write
from yak.tui.messages.store import BufferedRecord

BYTES = st.none() | st.binary(max_size=20) | st.text(max_size=12).map(str.encode)
HEADER_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
"""librdkafka ends a name at a null character, and has none with a lone surrogate."""
RECORDS = st.builds(
    BufferedRecord,
    st.just("orders"),
    st.integers(0, 5),
    st.integers(0, 2**40),
    st.just(-1) | st.integers(0, 2_000_000_000_000),
    st.just("CreateTime"),
    BYTES,
    BYTES,
    st.lists(st.tuples(HEADER_NAMES, BYTES), max_size=3),
    st.none() | st.integers(0, 9),
    st.integers(0, 1000),
)
RECORD = BufferedRecord(
    "orders", 1, 42, 1_795_176_000_123, "CreateTime", b"u1", b'{"a": 1}', [("source", b"web")], 3, 7
)


def same(sent, record):
    return (sent.key, sent.value, sent.headers) == (record.key, record.value, record.headers)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(RECORDS, max_size=8))
def test_exported_records_are_read_back_unchanged(tmp_path, records):
    path = tmp_path / "out" / "x.ndjson"
    path.unlink(missing_ok=True)
    progress = Progress()
    export([records[:3], records[3:]], str(path), "ndjson", progress)
    lines = path.read_text(encoding="utf-8", errors="surrogatepass").split("\n")[:-1]
    back = [parse_record(line) for line in lines]
    assert all(same(sent, record) for sent, record in zip(back, records, strict=True))
    assert [each.timestamp_ms for each in back] == [max(each.timestamp_ms, 0) for each in records]
    assert (progress.written, progress.path) == (len(records), str(path))
    assert progress.size_bytes == path.stat().st_size


@given(records=st.lists(RECORDS, max_size=8))
def test_an_export_as_csv_has_a_row_for_each_record(records):
    text = io.StringIO(newline="")
    write(text, [records], "csv", Progress())
    text.seek(0)
    head, *rows = csv.reader(text)
    assert tuple(head) == CSV_COLUMNS
    assert [(row[0], int(row[1]), int(row[2])) for row in rows] == [(e.topic, e.partition, e.offset) for e in records]


def test_browser_export_has_the_content_of_the_exported_file(tmp_path):
    for format_ in ("ndjson", "csv"):
        path = tmp_path / f"x.{format_}"
        export([[RECORD]], str(path), format_, Progress())
        text, progress = io.StringIO(), Progress()
        write(text, [[RECORD]], format_, progress)
        assert text.getvalue() == path.read_text()
        assert progress.size_bytes == path.stat().st_size


def test_export_does_not_overwrite_an_existing_file(tmp_path):
    path = tmp_path / "x.ndjson"
    path.write_text("mine")
    with raises_error(YakError, "export-exists"):
        export([[RECORD]], str(path), "ndjson", Progress())
    assert path.read_text() == "mine"


def test_a_file_that_comes_meanwhile_is_not_written_over_either(tmp_path):
    path = tmp_path / "x.ndjson"

    def pieces():
        yield [RECORD]
        path.write_text("mine")

    with raises_error(YakError, "export-exists"):
        export(pieces(), str(path), "ndjson", Progress())
    assert [each.name for each in tmp_path.iterdir()] == ["x.ndjson"]


def test_export_is_written_to_a_file_system_without_hard_links(tmp_path, monkeypatch):
    """FAT, as on USB sticks."""

    def link(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    export([[RECORD]], str(tmp_path / "x.ndjson"), "ndjson", Progress())
    assert [each.name for each in tmp_path.iterdir()] == ["x.ndjson"]
    assert (tmp_path / "x.ndjson").stat().st_size


def test_an_export_that_is_stopped_leaves_nothing(tmp_path):
    with raises_error(YakError, "export-cancelled"):
        export([[RECORD]], str(tmp_path / "x.csv"), "csv", Progress(), lambda: True)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with raises_error(YakError, "export-failed"):
        export([[RECORD]], str(tmp_path / "file" / "x.csv"), "csv", Progress())


@pytest.mark.parametrize("name", ["x" * 300 + ".csv", "x\0.csv"])
def test_export_to_a_path_that_no_file_can_have_says_so(tmp_path, name):
    with raises_error(YakError, "export-failed"):
        export([[RECORD]], str(tmp_path / name), "csv", Progress())


def test_tilde_in_an_export_path_means_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    progress = Progress()
    export([[RECORD]], "~/yak-exports/x.csv", "csv", progress)
    assert progress.path == str(tmp_path / "yak-exports" / "x.csv")


def test_names_of_files():
    assert file_name("orders", "csv", 1_795_176_000_000) == "orders-20261120-120000.csv"
    assert file_name("a, b:0/../x", "ndjson", 0) == "a--b-0-..-x-19700101-000000.ndjson"
    assert file_name("", "csv", 0).startswith("messages-")
    assert os.sep not in file_name("/etc/passwd", "csv", 0)
    assert [format_of(name) for name in ("x.CSV", "x.ndjson", "x.json")] == ["csv", "ndjson", "ndjson"]


def test_the_copy_menu():
    as_json = (
        '{"topic": "orders", "partition": 1, "offset": 42, "timestamp": "2026-11-20T12:00:00.123Z", '
        '"timestamp_type": "CreateTime", "key": "u1", "value": "{\\"a\\": 1}", '
        '"headers": [{"key": "source", "value": "web"}], "leader_epoch": 3}'
    )
    assert [as_text(RECORD) for _, as_text in COPIES.values()] == [
        "u1",
        '{"a": 1}',
        '[{"key": "source", "value": "web"}]',
        as_json,
        "yak produce orders -k u1 -m '{\"a\": 1}' -H source=web",
    ]


def sent_by(command):
    """What a shell gives to yak: its words, and its stdin."""
    script = f"yak() {{ printf '%s\\0' \"$@\"; printf 'STDIN\\0'; [ -t 0 ] || cat; }}; {command}"
    run = subprocess.run(["bash", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    argv, _, stdin = run.stdout.partition(b"STDIN\0")
    return [word.decode() for word in argv.split(b"\0")[:-1]], stdin.decode()


@settings(max_examples=60, deadline=None)
@given(RECORDS)
def test_the_command_sends_the_same_record(record):
    argv, stdin = sent_by(produce_command(record))
    assert argv[:2] == ["produce", "orders"]
    if "--format" in argv:
        assert same(parse_record(stdin.removesuffix("\n")), record)
        assert parse_record(stdin).timestamp_ms == 0, "sent again means sent now"
        return
    flags = list(zip(argv[2::2], argv[3::2], strict=True))
    values = {name: text for name, text in flags if name != "-H"}
    headers = [text.split("=", 1) for name, text in flags if name == "-H"]
    assert values.get("-k") == (None if record.key is None else record.key.decode())
    assert (None if values["-m"] == values.get("--null-value") else values["-m"].encode()) == record.value
    assert [(each[0], each[1].encode() if len(each) > 1 else None) for each in headers] == record.headers


def test_a_command_for_bytes_that_are_no_text_goes_through_a_pipe():
    command = produce_command(BufferedRecord("o'k", 0, 0, 0, "", b"\xff", None, [], None))
    assert command.startswith("printf '%s\\n' ")
    assert shlex.split(command)[4:] == ["yak", "produce", "o'k", "-f", "-", "--format", "json"]
    assert json.loads(shlex.split(command)[2]) == {"key": "/w==", "value": None, "key_encoding": "base64"}
