"""Offsets out of files: Kafka's two forms, our own CSV, and what is wrong with others."""

import pytest

from yak.client.csv_files import LINE_CHARACTERS_MAX
from yak.client.groups.offsets_file import parse_offsets, read_text
from yak.errors import UsageError
from yak.ids import TopicPartition

O0, O1, P0 = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0)


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("orders,0,5\norders,1,7\n", {O0: 5, O1: 7}),
        ("audit,orders,0,5\nother,orders,1,7\n", {O0: 5}),
        ("\ufefftopic,partition,offset\r\npayments,0,12\r\n\r\n", {P0: 12}),
        ("group,topic,partition,before,after,change,result\naudit,orders,0,1,9,8,would be set\n", {O0: 9}),
        ("group,topic,partition,committed_offset,lag\naudit,orders,0,5,1\naudit,orders,1,,\n", {O0: 5}),
        ('"orders", 0 , 5\n', {O0: 5}),
    ],
)
def test_each_form_gives_its_offsets(text, offsets):
    assert parse_offsets(text, "audit", "f.csv") == offsets


@pytest.mark.parametrize(
    ("text", "message", "why"),
    [
        ("orders,0\n", "line 1 of f.csv cannot be read", "it has 2 cells, and no header"),
        ("orders,0,5\norders,1\n", "line 2 of f.csv cannot be read", "it has 2 cells, and 3 are needed"),
        ("orders,x,5\n", "line 1 of f.csv cannot be read", '"x" is no partition'),
        ("orders,0,-3\n", "line 1 of f.csv cannot be read", '"-3" is no offset'),
        (f"orders,0,{'9' * 5000}\n", "line 1 of f.csv cannot be read", '" is no offset'),
        (f"orders,{'9' * 5000},1\n", "line 1 of f.csv cannot be read", '" is no partition'),
        (
            f"orders,0,5\n{'x' * (LINE_CHARACTERS_MAX + 1)},0,1\n",
            "line 2 of f.csv cannot be read",
            "field larger than field limit",
        ),
        ("orders,0,5\norders,0,6\n", "line 2 of f.csv cannot be read", "orders-0 is there twice, with 5 and 6"),
        ("other,orders,0,5\n", 'f.csv has no offsets for group "audit"', "lines are TOPIC,PARTITION,OFFSET"),
        ("", 'f.csv has no offsets for group "audit"', "lines are"),
    ],
)
def test_offsets_file_error_is_reported_with_its_line(text, message, why):
    with pytest.raises(UsageError) as caught:
        parse_offsets(text, "audit", "f.csv")
    assert caught.value.code == "offsets-file"
    assert caught.value.message == message
    assert why in caught.value.why


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, why in (("none", "no such file or directory"), ("binary", "it is not utf-8")):
        with pytest.raises(UsageError, match=f"{name} cannot be read") as caught:
            read_text(str(tmp_path / name))
        assert caught.value.why == why
