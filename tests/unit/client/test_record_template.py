import random
import uuid
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.client.record_template import (
    OPEN,
    PLACEHOLDERS,
    RecordTemplate,
    TemplateError,
    TemplateInputs,
    parse_template,
    place_of,
)

NOW_MS = 1_700_000_000_123


def filled(text, i=0, seed=1):
    return parse_template(text).fill(TemplateInputs(i, random.Random(seed), NOW_MS))


@pytest.mark.parametrize(
    ("text", "i", "made"),
    [
        ("{{i}}", 7, "7"),
        ("{{ i }}", 7, "7"),
        ("{{now}}", 0, "2023-11-14T22:13:20.123Z"),
        ("{{now ms}}/{{now s}}", 0, "1700000000123/1700000000"),
        ("{{int 5 5}}", 0, "5"),
        ("{{int -5 -5}}", 0, "-5"),
        ('{"a":{"b":{{i}}}}', 3, '{"a":{"b":3}}'),
        ("no placeholder }} { here", 0, "no placeholder }} { here"),
        ("", 0, ""),
    ],
)
def test_a_placeholder_becomes_its_value(text, i, made):
    assert filled(text, i) == made


def test_random_values_stay_within_their_bounds():
    assert {int(filled("{{int 1 3}}", seed=seed)) for seed in range(100)} == {1, 2, 3}
    assert uuid.UUID(filled("{{uuid}}")).version == 4


@pytest.mark.parametrize(
    ("text", "line", "column", "why"),
    [
        ('{"a":1,\n "b": {{foo}}}', 2, 7, '"foo" is no placeholder; use {{i}}'),
        ("abc {{i", 1, 5, "without }}"),
        ("{{i\n}}", 1, 1, "without }}"),
        ("{{}}", 1, 1, "is no placeholder"),
        ("{{int 9 1}}", 1, 1, "9 is more than 1"),
    ],
)
def test_a_wrong_template_is_refused_with_position_and_reason(text, line, column, why):
    with pytest.raises(TemplateError) as caught:
        parse_template(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert why in caught.value.why


@pytest.mark.parametrize(
    "text",
    ["{{float 0 1}}", "{{choice a b}}", "{{user=int 1 9}}", "{{hex 6}}", "{{open}}", "{{i:05}}", "{{i 5 10}}", "{{int 1}}"],
)  # fmt: skip
def test_another_placeholder_is_refused_with_those_that_are_there(text):
    with pytest.raises(TemplateError) as caught:
        parse_template(text)
    assert "is no placeholder" in caught.value.why
    assert PLACEHOLDERS in caught.value.why


def test_all_placeholders_that_errors_name_can_be_filled():
    for form in PLACEHOLDERS.split(", "):
        assert not parse_template(form).is_plain
        assert filled(form)
    assert parse_template("plain").is_plain


def test_records_count_and_have_partition_and_headers():
    template = RecordTemplate.parse("k", '{"n":{{i}}}', [("who", "{{i}}"), ("none", None)])
    made = list(islice(template.records(lambda: NOW_MS, partition=2), 3))
    assert [record.value for record in made] == [b'{"n":0}', b'{"n":1}', b'{"n":2}']
    assert [record.headers for record in made][1] == [("who", b"1"), ("none", None)]
    assert {(record.key, record.partition) for record in made} == {(b"k", 2)}


def test_a_wrong_part_is_named():
    with pytest.raises(TemplateError) as caught:
        RecordTemplate.parse(None, "{{id}}", [])
    assert caught.value.part == "value"
    with pytest.raises(TemplateError, match="line 1, column 2") as caught:
        RecordTemplate.parse("{{i}}", "{{i}}", [("h", "x{{ids 1}}")])
    assert caught.value.part == "header h"


def test_the_same_seed_gives_the_same_records():
    template = RecordTemplate.parse("{{uuid}}", "{{int 1 1000000}}")

    def run(seed):
        return [(record.key, record.value) for record in islice(template.records(lambda: NOW_MS, seed=seed), 20)]

    assert run(7) == run(7)
    assert run(7) != run(8)
    assert not template.is_plain
    assert RecordTemplate.parse(None, None).is_plain


def parsed(text):
    """The template, or its error."""
    try:
        return parse_template(text), None
    except TemplateError as error:
        return None, error


@given(st.text() | st.text(alphabet="{}inow tu159-\n"))
def test_any_text_is_a_template_or_an_error_within_it(text):
    template, error = parsed(text)
    if error:
        assert text[error.offset :].startswith(OPEN)
        assert place_of(text, error.offset) == (error.line, error.column)
        return
    assert len(template.shape) == len(text)
    template.fill(TemplateInputs(3, random.Random(1), NOW_MS))
