"""JSON values to typed columns: both parsers agree, and what does not fit is null, left out, or an error."""

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from yak.spark.source import json_values
from yak.spark.source.errors import SourceError
from yak.spark.source.json_values import JsonDecoding, JsonParser
from yak.spark.source.options import JsonOptions, json_options, nested_schema

SIMPLE = StructType(
    [
        StructField("i", IntegerType()),
        StructField("l", LongType()),
        StructField("d", DoubleType()),
        StructField("s", StringType()),
        StructField("b", BooleanType()),
        StructField("a", ArrayType(LongType())),
        StructField("o", StructType([StructField("x", DoubleType()), StructField("y", StringType())])),
    ]
)
NUMBERS = st.one_of(st.integers(), st.floats(), st.integers(-5, 5), st.just(-0.0))
ANY_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)
FITTING = st.fixed_dictionaries(
    {},
    optional={
        "i": st.one_of(st.none(), st.integers(-(1 << 31), (1 << 31) - 1)),
        "l": st.integers(-(1 << 63), (1 << 63) - 1),
        "d": st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-1000, 1000)),
        "s": st.text(),
        "b": st.booleans(),
        "a": st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=3),
        "o": st.fixed_dictionaries({}, optional={"x": st.floats(-1, 1), "y": st.text(max_size=4), "z": ANY_JSON}),
        "more": ANY_JSON,
    },
)
OBJECTS = st.one_of(
    FITTING, st.dictionaries(st.sampled_from(["i", "l", "d", "s", "b", "a", "o", "more"]), ANY_JSON, max_size=5)
)
TEXTS = st.one_of(
    OBJECTS.map(lambda each: json.dumps(each).encode()),
    FITTING.map(lambda each: json.dumps(each, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")),
    st.binary(max_size=12),
    OBJECTS.flatmap(lambda each: st.integers(0, 40).map(lambda cut: json.dumps(each).encode()[:cut])),
)


def rows(parsed: Any) -> list[Any]:
    """For comparison: NaN is itself."""
    return [json.dumps(each, default=str, sort_keys=True) for each in parsed.rows.to_pylist()]


@settings(max_examples=150)
@given(st.lists(TEXTS, max_size=12))
@example([b'{"i":1', b',"i":2}', b'{"i":3}{"i":4}'])
@example([b'{"o":{}', b'{"i":2}', b"}"])
@example([b'{"s":"a', b'b"}', b'{"i":1}{"i":2}'])
@example([b'{"i":1}\n{"i":2}', b""])
@example([b'{"d":1e400}', b'{"d":NaN}', b'{"l":1e2}', b'{"i":1,"i":2}', b'{"s":"\\ud800"}'])
def test_all_at_once_is_the_same_as_one_by_one(values: list[bytes]) -> None:
    parser = JsonParser(SIMPLE)
    array = pa.array(values, pa.binary())
    slow, few = parser._one_by_one(array), json_values.FEW
    try:
        json_values.FEW = 1  # so that one bad value does not send its neighbours to the other parser
        fast = parser.parse(array)
    finally:
        json_values.FEW = few
    assert rows(fast) == rows(slow)
    assert fast.wrong == slow.wrong
    fast.rows.validate(full=True)


def test_values_that_fit_do_take_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = JsonParser(SIMPLE)
    monkeypatch.setattr(parser, "_one_by_one", None)
    found = parser.parse(pa.array([b'{"i":1,"x":[{}]}', b'{"o":{"x":1}, "s":"\xc3\xa9"}'], pa.binary()))
    assert [each["s"] for each in found.rows.to_pylist()] == [None, "é"]


KINDS = StructType(
    [
        StructField("t", TimestampType()),
        StructField("m", DecimalType(6, 2)),
        StructField("y", ByteType()),
        StructField("k", MapType(StringType(), LongType())),
        StructField("d", DoubleType()),
    ]
)


@pytest.mark.parametrize(
    ("text", "field", "wanted"),
    [
        ('{"t":"2026-01-02T03:04:05.5Z"}', "t", "2026-01-02 03:04:05.500000+00:00"),
        ('{"t":"2026-01-02 03:04:05"}', "t", "2026-01-02 03:04:05+00:00"),
        ('{"t":"2026-01-02T03:04:05+02:00"}', "t", "2026-01-02 01:04:05+00:00"),
        ('{"t":60}', "t", "1970-01-01 00:01:00+00:00"),
        ('{"m":1234.567}', "m", "1234.57"),
        ('{"m":"7"}', "m", "7.00"),
        ('{"y":-128}', "y", "-128"),
        ('{"k":{"a":1,"b":null}}', "k", "[('a', 1), ('b', None)]"),
        ('{"d":"-Infinity"}', "d", str(-math.inf)),
    ],
)
def test_types_are_read_as_spark_reads_them(text: str, field: str, wanted: str) -> None:
    found = JsonParser(KINDS).parse(pa.array([text.encode()], pa.binary()))
    assert (str(found.rows.to_pylist()[0][field]), found.wrong) == (wanted, {})


@pytest.mark.parametrize(
    "text",
    [
        '{"t":"9999-12-31T23:59:59-05:00"}',
        '{"t":"soon"}',
        '{"m":12345}',
        '{"y":128}',
        '{"y":1.0}',
        '{"k":{"a":"x"}}',
        '{"d":"1"}',
        '{"d":true}',
    ],
)
def test_json_value_that_does_not_fit_its_type_is_null_and_its_field_is_named(text: str) -> None:
    found = JsonParser(KINDS).parse(pa.array([text.encode()], pa.binary()))
    assert found.rows.to_pylist() == [dict.fromkeys(KINDS.names)]
    assert f'field "{next(iter(json.loads(text)))}' in found.wrong[0]


BESIDE_A_DECIMAL = StructType(
    [
        StructField("m", DecimalType(6, 2)),
        StructField("d", DoubleType()),
        StructField("s", StringType()),
        StructField("k", MapType(StringType(), LongType())),
    ]
)


@pytest.mark.parametrize(
    ("text", "field", "wanted"),
    [
        ('{"m":1.5,"d":0.25}', "d", 0.25),
        ('{"d":1e999}', "d", math.inf),
        ('{"d":1e9999999999999999999}', "d", math.inf),
        ('{"s":0.5}', "s", "0.5"),
        ('{"s":{"x":[0.5]}}', "s", '{"x":[0.5]}'),
    ],
)
def test_fraction_beside_a_decimal_column_is_read(text: str, field: str, wanted: object) -> None:
    found = JsonParser(BESIDE_A_DECIMAL).parse(pa.array([text.encode()], pa.binary()))
    assert (found.rows.to_pylist()[0][field], found.wrong) == (wanted, {})


@pytest.mark.parametrize(
    "text", ['{"m":NaN}', '{"m":"NaN"}', '{"m":Infinity}', '{"m":1e9999999999999999999}', '{"k":{"\\ud800":1}}']
)
def test_value_that_no_column_can_hold_is_null_and_named(text: str) -> None:
    found = JsonParser(BESIDE_A_DECIMAL).parse(pa.array([text.encode()], pa.binary()))
    assert found.rows.to_pylist() == [dict.fromkeys(BESIDE_A_DECIMAL.names)]
    assert f'field "{text[2]}" is ' in found.wrong[0]


FLAT = StructType(
    [
        StructField("n", LongType()),
        StructField("_offset", LongType()),
        StructField("_key", StringType()),
        StructField("_corrupt_record", StringType()),
    ]
)


def batch(*values: bytes | None) -> Any:
    from yak.spark.columnar.schema import COLUMNS

    count = len(values)
    columns = [[b"k\xff"] * count, list(values), ["orders"] * count, [1] * count, list(range(7, 7 + count))]
    more = [pa.array([0] * count, COLUMNS.field(5).type), pa.array([0] * count, pa.int32())]
    arrays = [pa.array(each, field.type) for each, field in zip(columns, COLUMNS, strict=False)]
    return pa.RecordBatch.from_arrays(arrays + more, schema=COLUMNS)


def decode(mode: str, *values: bytes | None) -> list[dict[str, Any]]:
    found = JsonDecoding(JsonOptions(None, mode, "_corrupt_record"), FLAT).decode(batch(*values))
    return [{name: row[name] for name in ("n", "_offset", "_corrupt_record")} for row in found.to_pylist()]


def test_permissive_keeps_what_is_no_json_beside_the_others() -> None:
    assert decode("permissive", b'{"n":1}', None, b"nope", b'{"n":"x"}') == [
        {"n": 1, "_offset": 7, "_corrupt_record": None},
        {"n": None, "_offset": 8, "_corrupt_record": None},
        {"n": None, "_offset": 9, "_corrupt_record": "nope"},
        {"n": None, "_offset": 10, "_corrupt_record": '{"n":"x"}'},
    ]


def test_dropmalformed_leaves_it_out() -> None:
    assert [row["_offset"] for row in decode("dropmalformed", b"nope", b'{"n":1}', None, b'{"n":"x"}')] == [8, 9]


def test_failfast_says_which_record_and_why() -> None:
    with pytest.raises(SourceError) as caught:
        decode("failfast", b'{"n":1}', b'{"n":[2]}')
    assert str(caught.value).startswith(
        '[spark-json] the record orders-1 at offset 8 does not fit the schema: field "n" is a list, not bigint. Try: '
    )


def test_key_that_is_no_text_is_printed_as_far_as_it_is() -> None:
    found = JsonDecoding(JsonOptions(None, "permissive", "_corrupt_record"), FLAT).decode(batch(b"{}"))
    assert found.to_pylist()[0]["_key"] == "k\ufffd"


def test_a_schema_that_cannot_be_is_refused() -> None:
    flat = JsonOptions(None, "permissive", "_corrupt_record")
    with pytest.raises(SourceError, match="_offset bigint"):
        JsonDecoding(flat, StructType([StructField("_offset", StringType())]))
    with pytest.raises(SourceError, match="must be a string"):
        JsonDecoding(flat, StructType([StructField("_corrupt_record", LongType())]))
    with pytest.raises(SourceError, match="keys must be strings"):
        JsonDecoding(flat, StructType([StructField("m", MapType(LongType(), LongType()))]))
    with pytest.raises(SourceError, match=r"valueSchema.*\.schema\("):
        nested_schema(flat, False)
    with pytest.raises(SourceError, match="permissive, dropmalformed, failfast"):
        json_options({"valueformat": "json", "mode": "strict"})
    with pytest.raises(SourceError, match='valueFormat is not "json"'):
        json_options({"valueschema": "a int"})
