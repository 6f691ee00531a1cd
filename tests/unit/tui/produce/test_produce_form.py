"""The form, and its command line."""

import base64
import json
import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.client.inputs import CsvMapping
from yak.tui.produce.form import Form, produce_command, samples, upload_command
from yak.tui.produce.run import Plan

NAME = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8) | st.text(
    "a= \\\t\r\ns", min_size=1
)
DATA = st.none() | st.binary(max_size=30) | st.text(max_size=30).map(str.encode)


def made(form):
    return next(form.message().records(lambda: 0, seed=1))


def test_form_text_becomes_a_record_and_a_plan():
    form = Form(
        topic=" orders ", partition="2", key="u1", value='{"a": 1}', headers="source=web\n\nempty=\nnull", acks="1"
    )
    record = made(form)
    assert (record.key, record.value) == (b"u1", b'{"a": 1}')
    assert record.headers == [("source", b"web"), ("empty", b""), ("null", None)]
    assert form.plan(count=3, rate=2.5) == Plan("orders", 2, "1", "none", 3, 2.5)
    assert form.problem() is None


def test_kinds_of_key_and_value():
    assert made(Form(topic="t", key="", value="x", value_kind="text")).key is None
    assert made(Form(topic="t", key_kind="none", key="x", value="", value_kind="text")).key is None
    assert made(Form(topic="t", key_kind="base64", key="", value="", value_kind="text")).key == b""
    assert made(Form(topic="t", value="ignored", value_kind="null")).value is None
    assert made(Form(topic="t", value="", value_kind="text")).value == b""
    assert made(Form(topic="t", value="/w\nA=", value_kind="base64")).value == b"\xff\x00"


@pytest.mark.parametrize(
    ("fields", "field", "line", "column", "why"),
    [
        ({"topic": " "}, "topic", 1, 1, "no topic"),
        ({"partition": "-1"}, "partition", 1, 1, '"-1" is not the number'),
        ({"key": "{{no}}"}, "key", 1, 1, "no placeholder"),
        ({"key_kind": "base64", "key": "?"}, "key", 1, 1, "not base64"),
        ({"value": ""}, "value", 1, 1, "empty"),
        ({"value": '{"a": 1,\n "b" 2}'}, "value", 2, 6, "expecting ':' delimiter"),
        ({"value": '{"a": NaN}'}, "value", 1, 7, "NaN is no number"),
        ({"value": '{"a": {{int 1 9}}\n  "b": 1}'}, "value", 2, 3, "delimiter"),
        ({"value": '{"n": {{uuid}}}'}, "value", 1, 7, "expecting value"),
        ({"value": '{"n": {{wat}}}'}, "value", 1, 7, "no placeholder"),
        ({"value": "[" * 100_000}, "value", 1, 1, "too deep"),
        ({"value": "1" * 5000}, "value", 1, 1, "not JSON"),
        ({"value": "?", "value_kind": "base64"}, "value", 1, 1, "not base64"),
        ({"headers": "a=1\n=2"}, "headers", 2, 1, "without a name"),
        ({"headers": "a=1\nbc=x{{no}}"}, "headers", 2, 5, "no placeholder"),
        ({"headers": "a=base64:?"}, "headers", 1, 1, "not base64"),
    ],
)
def test_form_problem_is_reported_with_its_field_line_and_column(fields, field, line, column, why):
    problem = Form(**({"topic": "t", "value": "{}"} | fields)).problem()
    assert problem is not None
    assert (problem.field, problem.line, problem.column) == (field, line, column)
    assert why in problem.why


def test_only_errors_in_the_value_are_marked_in_the_value():
    assert Form(value="{").value_problem() is not None
    assert Form(key="{{no}}", value="{").value_problem() is None
    assert Form(headers="=", value="{}").value_problem() is None


def test_the_preview_counts_and_draws_other_values_for_each_record():
    form = Form(topic="t", key="{{uuid}}", value='{"i":{{i}}}', headers="a={{i}}")
    records = samples(form.message(), 3)
    assert [json.loads(record.value) for record in records] == [{"i": 0}, {"i": 1}, {"i": 2}]
    assert [dict(record.headers)["a"] for record in records] == [b"0", b"1", b"2"]
    assert len({record.key for record in records}) == 3
    assert records == samples(form.message(), 3)


def test_braces_stay_braces_where_fields_are_off():
    form = Form(topic="t", key="{{i}}", value="{{ {{", value_kind="text", is_template=False)
    assert (made(form).key, made(form).value) == (b"{{i}}", b"{{ {{")


@given(DATA, DATA, st.lists(st.tuples(NAME, DATA), max_size=3))
def test_record_in_the_form_is_sent_as_it_was(key, value, headers):
    form = Form.of("t", key, value, headers)
    record = made(form)
    assert (record.key, record.value, record.headers) == (key, value, headers)
    assert form.plan().partition is None
    for text in (form.key, form.headers):
        assert "\r" not in text


def test_record_of_json_is_edited_as_json_and_bytes_as_base64():
    assert Form.of("t", value=b'{"a":1}').value_kind == "json"
    assert Form.of("t", value=b"a{{i}}").value_kind == "text"
    assert Form.of("t", value=b"NaN").value_kind == "text"
    assert Form.of("t", value=None).value_kind == "null"
    binary = Form.of("t", key=b"\xff", value=b"\xff\x00")
    assert (binary.key_kind, binary.value_kind) == ("base64", "base64")
    assert base64.b64decode(binary.value) == b"\xff\x00"


def command(form, **how):
    return produce_command(form.plan(**how), form.message())


def test_a_message_as_a_command():
    form = Form(topic="orders", key="u 1", value='{"a": 1}', headers="s=web\nnull", partition="2")
    assert shlex.split(command(form)) == [
        "yak", "produce", "orders", "-k", "u 1", "-m", '{"a": 1}', "-H", "s=web", "-H", "null", "-p", "2",
    ]  # fmt: skip


def test_produce_command_has_the_sending_options_of_the_form():
    form = Form(topic="t", value="x", value_kind="text", acks="1", compression="lz4")
    assert command(form, count=100, rate=10) == "yak produce t -m x --acks 1 -z lz4 --repeat 100 --rate 10"
    assert command(form, count=None) == "yak produce t -m x --acks 1 -z lz4 --repeat 0"


def test_a_tombstone_and_a_template():
    assert shlex.split(command(Form(topic="t", key="k", value_kind="null"))) == [
        "yak", "produce", "t", "-k", "k", "-m", "", "--null-value", "",
    ]  # fmt: skip
    assert command(Form(topic="t", value="{{i}}")).endswith("-m '{{i}}' --template")
    assert "--template" not in command(Form(topic="t", value="{{i}}", value_kind="text", is_template=False))


def test_braces_that_are_sent_as_they_are_beside_placeholders_have_no_command():
    form = Form(topic="t", key_kind="base64", key="e3tpfX0=", value="{{i}}")
    assert command(form).startswith("# no one command")


def test_bytes_that_are_no_text_go_through_json():
    form = replace(Form.of("t", b"\xff", b"text", (("h=x", b"\x00"), ("n", None))), partition="1")
    argv = shlex.split(command(form))
    assert argv[:2] == ["printf", "%s\\n"]
    assert argv[3:] == ["|", "yak", "produce", "t", "-f", "-", "--format", "json", "-p", "1"]
    assert json.loads(argv[2]) == {
        "key": "/w==",
        "key_encoding": "base64",
        "value": "text",
        "headers": [{"key": "h=x", "value": "AA==", "encoding": "base64"}, {"key": "n", "value": None}],
    }
    assert "message.json -p 1 --repeat 5" in command(form, count=5)
    mixed = Form(topic="t", key_kind="base64", key="/w==", value="{{i}}")
    assert command(mixed).startswith("# no one command")


def test_a_file_as_a_command():
    plan = Plan("orders", count=None)
    mapping = CsvMapping(
        key="id",
        value="json:a,b",
        headers={"src": "source", "x": "x"},
        partition="p",
        delimiter="\t",
        null_value="NULL",
    )
    assert upload_command(plan, "my orders.csv", mapping, "cp1252", "ck") == (
        "yak produce orders -f 'my orders.csv' --format csv --csv-key id --csv-value json:a,b --csv-header src=source "
        "--csv-header x --csv-partition p --csv-delimiter tab --null-value NULL --csv-encoding cp1252 --resume ck"
    )
    assert upload_command(plan, "o.csv", CsvMapping(), "utf-8", "ck") == (
        "yak produce orders -f o.csv --format csv --resume ck"
    )
