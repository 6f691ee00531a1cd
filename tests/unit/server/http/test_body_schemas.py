"""Bodies are allowed and refused as JSON Schema says: the checks of the routes agree with another implementation."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yak.server.http.bodies import checked, fault_of, fault_text
from yak.server.http.consumers.bodies import PARTITIONS, SETTINGS_BODY
from yak.server.http.problems import Problem
from yak.server.http.routes import ROUTES

BODIES = [route for route in ROUTES if route.body is not None and "json" in route.body.media_type]
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.just(1.0) | st.text("a.{}[]\n", max_size=3)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner))


def fits(_validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    """The keyword `pattern` as in ECMA-262, where `$` is the end. jsonschema's, of Python, takes a line feed behind it too."""
    if isinstance(value, str) and not re.search(pattern.removesuffix("$") + r"\Z", value):
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern}")


ORACLE = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": fits})


def changed(data: st.DataObject, value: Any) -> Any:
    """A value with one of its parts replaced, removed or added."""
    if isinstance(value, dict) and value and data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(value)))
        return value | {name: changed(data, value[name])}
    if isinstance(value, list) and value and data.draw(st.booleans()):
        return [changed(data, value[0]), *value[1:]]
    if isinstance(value, dict) and data.draw(st.booleans()):
        without = data.draw(st.sampled_from([None, *sorted(value)]))
        return {name: each for name, each in value.items() if name != without}
    if isinstance(value, dict) and data.draw(st.booleans()):
        return value | {data.draw(st.text("a.{}", max_size=4)): data.draw(VALUES)}
    return data.draw(VALUES)


@pytest.mark.parametrize("route", BODIES, ids=lambda route: f"{route.method} {route.path}")
@settings(max_examples=25)
@given(data=st.data())
def test_a_body_is_refused_exactly_when_its_schema_refuses_it(route: Any, data: st.DataObject) -> None:
    body = changed(data, route.body.example)
    fault = fault_of(body, route.body.schema)
    assert (fault is None) == ORACLE(dict(route.body.schema)).is_valid(body)
    if fault is not None:
        assert fault_text(fault)


def test_a_line_feed_behind_a_name_is_refused() -> None:
    body = {"partitions": [{"topic": "t\n", "partition": 0}]}
    assert fault_of(body, PARTITIONS) is not None
    assert not ORACLE(dict(PARTITIONS)).is_valid(body)


def text_of(body: Any, schema: Any) -> str:
    fault = fault_of(body, schema)
    assert fault is not None
    return fault_text(fault)


def test_a_fault_names_its_field_even_one_with_dots() -> None:
    refused = text_of({"fetch.min.bytes": True}, SETTINGS_BODY.schema)
    assert refused == "fetch.min.bytes must be integer or string or null"
    assert text_of({"partitions": [{"topic": "t", "partition": "x"}]}, PARTITIONS) == (
        "partitions[0].partition must be integer"
    )
    assert text_of([], PARTITIONS) == "the body must be object"


def test_a_name_that_no_topic_can_have_is_left_to_kafkas_own_check() -> None:
    schema = {"type": "object", "properties": {"pattern": {"type": "string", "pattern": "^a$", "maxLength": 1}}}
    assert fault_of({"pattern": "bb"}, schema) is not None
    assert checked({"pattern": "bb"}, schema, hint="") == {"pattern": "bb"}
    with pytest.raises(Problem, match="pattern must be string"):
        checked({"pattern": 1}, schema, hint="")


def test_a_long_wrong_value_makes_a_short_error() -> None:
    assert len(text_of({"x" * 100_000: 1}, PARTITIONS)) < 450
