import json
import random
import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.client.templates.fields import FIELDS, Moment
from yak.client.templates.messages import BadPart, Maker, MessageTemplate
from yak.client.templates.template import OPEN, TemplateError, parse_template, place_of

NOW_MS = 1_700_000_000_123


def moment(i=0, seed=1):
    return Moment(i, random.Random(seed), NOW_MS)


def filled(text, i=0, seed=1):
    return parse_template(text).fill(moment(i, seed))


@pytest.mark.parametrize(
    ("text", "i", "made"),
    [
        ("{{i}}", 7, "7"),
        ("{{ i }}", 7, "7"),
        ("{{i:05}}", 7, "00007"),
        ("{{i 1000 10:06}}", 7, "001070"),
        ("{{i -3}}", 1, "-2"),
        ("{{now}}", 0, "2023-11-14T22:13:20.123Z"),
        ("{{now ms}}/{{now s}}", 0, "1700000000123/1700000000"),
        ("{{int 5 5:03}}", 0, "005"),
        ("{{float 2 2:.1}}", 0, "2.0"),
        ("{{float 2 2}}", 0, "2.000"),
        ('{{choice "a b"}}', 0, "a b"),
        ("{{choice a:b}}", 0, "a:b"),
        ("{{open}}i}}", 0, "{{i}}"),
        ('{"a":{"b":{{i}}}}', 3, '{"a":{"b":3}}'),
        ("no field }} { here", 0, "no field }} { here"),
        ("", 0, ""),
    ],
)
def test_a_field_becomes_what_it_says(text, i, made):
    assert filled(text, i) == made


def test_random_fields_stay_within_what_was_asked():
    for seed in range(200):
        assert 1 <= int(filled("{{int 1 3}}", seed=seed)) <= 3
        assert -1.0 <= float(filled("{{float -1 1:.4}}", seed=seed)) <= 1.0
        assert filled("{{choice a b}}", seed=seed) in ("a", "b")
        assert uuid.UUID(filled("{{uuid}}", seed=seed)).version == 4
        assert len(filled("{{text 20}}", seed=seed)) == 20
        assert re.fullmatch(r"[0-9a-f]{16}", filled("{{hex 16}}", seed=seed))
        assert re.fullmatch(r"10(\.\d{1,3}){3}", filled("{{ip}}", seed=seed))
        assert filled("{{bool}}", seed=seed) in ("true", "false")
        assert filled("{{name}}", seed=seed).isalpha()
    assert len({filled("{{int 1 3}}", seed=seed) for seed in range(50)}) == 3


@pytest.mark.parametrize(
    ("text", "line", "column", "why"),
    [
        ('{"a":1,\n "b": {{foo}}}', 2, 7, '"foo" is no field'),
        ("x{{uiud}}", 1, 2, 'did you mean "uuid"'),
        ("abc {{i", 1, 5, "without }}"),
        ("{{}}", 1, 1, "no field in it"),
        ("{{int 1}}", 1, 1, "the least and the most"),
        ("{{int 9 1}}", 1, 1, "9 is more than 1"),
        ("{{int a 1}}", 1, 1, '"a", is not a whole number'),
        ("{{int 1 99999999999999999999}}", 1, 1, "beyond 64 bits"),
        ("{{float 0 inf}}", 1, 1, "a number with an end"),
        ("{{float nan 1}}", 1, 1, "a number with an end"),
        ("{{float 0 1:2}}", 1, 1, "decimals"),
        ("{{i:x}}", 1, 1, "a width"),
        ("{{i:}}", 1, 1, "behind the colon"),
        ("{{i 1 2 3}}", 1, 1, "too much"),
        ("{{uuid:5}}", 1, 1, "is for numbers"),
        ("{{uuid 5}}", 1, 1, "nothing stands behind"),
        ("{{choice}}", 1, 1, "nothing to choose"),
        ('{{choice "a}}', 1, 1, "a quote"),
        ("{{text}}", 1, 1, "a length"),
        ("{{text 0}}", 1, 1, "from 1 to"),
        ("{{now days}}", 1, 1, "no form of time"),
        ("{{uuid=i}}", 1, 1, "is a field"),
        ("{{a}}{{a=i}}", 1, 1, '"a" is no field'),
        ("{{a=i}}{{a 3}}", 1, 8, "kept value"),
    ],
)
def test_a_wrong_template_says_where_and_why(text, line, column, why):
    with pytest.raises(TemplateError) as caught:
        parse_template(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert why in caught.value.why


def test_every_form_in_the_help_can_be_read_and_is_told_apart_from_plain_text():
    for kind in FIELDS.values():
        for form in kind.form.split("  "):
            template = parse_template(form)
            assert not template.is_plain
            assert template.fill(moment())
    assert parse_template("plain").is_plain


def test_a_kept_value_is_the_same_in_key_value_and_headers_and_new_in_the_next_message():
    template = MessageTemplate.parse(
        "{{user=int 1 1000000}}", '{"user":{{user}}}', [("who", "{{user}}"), ("none", None)]
    )
    make = Maker(template, lambda: NOW_MS, seed=3, partition=2)
    seen = set()
    for _ in range(10):
        record = make()
        assert json.loads(record.value) == {"user": int(record.key)}
        assert record.headers == [("who", record.key), ("none", None)]
        assert record.partition == 2
        seen.add(record.key)
    assert len(seen) == 10


def test_a_part_that_is_wrong_is_named():
    with pytest.raises(BadPart) as caught:
        MessageTemplate.parse(None, "{{id}}", [])
    assert caught.value.part == "value"
    with pytest.raises(BadPart, match="header h: line 1, column 2"):
        MessageTemplate.parse("{{id=i}}", "{{id}}", [("h", "x{{ids 1}}")])


def test_the_same_seed_gives_the_same_messages():
    template = MessageTemplate.parse("{{uuid}}", '{"n":"{{name}}","t":"{{text 30}}","f":{{float 0 1}}}')

    def run(seed):
        make = Maker(template, lambda: NOW_MS, seed=seed)
        return [(record.key, record.value) for record in (make() for _ in range(20))]

    assert run(7) == run(7)
    assert run(7) != run(8)
    assert not template.is_plain
    assert MessageTemplate.parse(None, None).is_plain


def test_an_error_in_what_came_out_is_found_again_in_the_template():
    template = parse_template('{"a":"{{text 50}}",\n"b":{{name}},\n "c": oops}')
    came = template.filled(moment())
    with pytest.raises(ValueError, match="Expecting value") as caught:
        json.loads(came.text)
    at = template.source[came.source_offset(caught.value.pos) :]
    assert at.startswith("{{name}}")
    assert template.source[came.source_offset(came.text.index("oops")) :].startswith("oops")
    assert place_of(template.source, template.source.index("oops")) == (3, 7)


def read(text):
    """The template, or why it is none."""
    try:
        return parse_template(text), None
    except TemplateError as error:
        return None, error


@given(st.text() | st.text(alphabet="{}ia= "))
def test_reading_any_text_gives_a_template_or_an_error_within_it(text):
    template, error = read(text)
    if error:
        assert text[error.offset :].startswith(OPEN)
        return
    assert "".join(part.text for part in template.parts) == text
    template.fill(moment())


@given(st.text(alphabet="{} i:0159 intchoeuxd=\"'.-"), st.integers(0, 10_000))
def test_what_can_be_read_can_be_filled(inside, i):
    template, error = read("a{{" + inside + "}}b")
    if error:
        return
    came = template.filled(moment(i))
    assert came.text == template.fill(moment(i))
    for offset in range(min(len(came.text), 50)):
        assert 0 <= came.source_offset(offset) < len(template.source)
