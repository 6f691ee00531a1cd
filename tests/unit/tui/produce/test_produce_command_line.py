import json
import shlex

from yak.client.inputs import CsvMapping
from yak.tui.produce.command_line import produce_command, upload_command
from yak.tui.produce.draft import Draft
from yak.tui.produce.form import Form
from yak.tui.produce.plan import Plan


def command(form, **how):
    return produce_command(form.plan(**how), form.message())


def test_a_message_as_a_command():
    form = Form(topic="orders", key="u 1", value='{"a": 1}', headers="s=web\nnull", partition="2")
    assert shlex.split(command(form)) == [
        "yak", "produce", "orders", "-k", "u 1", "-m", '{"a": 1}', "-H", "s=web", "-H", "null", "-p", "2",
    ]  # fmt: skip


def test_how_it_is_sent():
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
    form = Form.of(Draft("t", 1, b"\xff", b"text", (("h=x", b"\x00"), ("n", None))))
    words = shlex.split(command(form))
    assert words[:2] == ["printf", "%s\\n"]
    assert words[3:] == ["|", "yak", "produce", "t", "-f", "-", "--format", "json", "-p", "1"]
    assert json.loads(words[2]) == {
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
