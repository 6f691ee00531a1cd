import pytest

from yak.client.consumer import ConsumerRecord
from yak.client.filters import parse_filter
from yak.errors import UsageError

RECORD = ConsumerRecord(
    "t", 0, 7, 0, "CreateTime", b"u1",
    b'{"total": 12, "cur": "EUR", "n": "7", "lines": [{"sku": "a"}], "none": null}',
    [("source", b"web"), ("empty", None)], None,
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "k:u1", "k:~^u\\d$", "v:EUR", "EUR", "u1", "!k:u2", "h:source", "h:source=we", "h:source=~^web$", "h:empty",
        "v:.total > 10", "v:.total>=12", "v:.total==12", "v:.total = 12", "v:.total != 13", "v:.cur == EUR",
        "v:.cur == 'EUR'", 'v:.cur == "EUR"', "v:.cur ~ ^E", "v:.n > 6", "v:.lines[0].sku == a", "v:.none == null",
        "v:.lines", "v: .total > 10", "!v:.missing", "v:.lines[-1].sku == a", "value:EUR", "v:.cur > ABC",
        "v:.total < 13", "v:.total <= 12", "v:.cur < FRF",
    ],
)  # fmt: skip
def test_filters_that_hold(text):
    assert parse_filter(text)(RECORD)


@pytest.mark.parametrize(
    "text",
    [
        "k:u2", "k:~^x", "v:USD", "!k:u1", "h:other", "h:source=app", "h:empty=x", "v:.total > 12", "v:.missing == 1",
        "v:.missing != 1", "v:.lines > 1", "v:.none > 0", "v:.total[0] == 1", "v:.lines[5].sku == a",
    ],
)  # fmt: skip
def test_filters_that_do_not_hold(text):
    assert not parse_filter(text)(RECORD)


def test_a_value_that_is_no_json_or_nothing_has_no_paths():
    for value in (b"{", None, b"\xff"):
        record = ConsumerRecord("t", 0, 0, 0, "", None, value, [], None)
        assert not parse_filter("v:.a == 1")(record)
        assert not parse_filter("k:x")(record)


@pytest.mark.parametrize(
    "text", ["k:~(", "h:", "h:=x", "v:.a >", "v:..a == 1", "v:.a[x] == 1", "v:.a ~ (", "v: .total >", "zz:u1", "kk:u1"]
)
def test_text_that_is_no_filter_is_refused(text):
    with pytest.raises(UsageError) as caught:
        parse_filter(text)
    assert caught.value.code == "bad-filter"
