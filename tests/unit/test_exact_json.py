"""JSON keeps all digits of its numbers."""

import json
import math
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from yak.exact_json import compact, number

numbers = st.integers() | st.decimals(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text() | st.sampled_from(["~0~", '"~1~"']),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def written(value):
    """JSON with the digits of decimals, by the rules of JSON alone."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(map(written, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{written(name)}:{written(each)}' for name, each in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


@given(values)
def test_value_is_written_as_it_was_read(value):
    text = written(value)
    assert compact(json.loads(text, parse_float=number)) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_number_as_python_writes_it_stays_a_float(found):
    again = number(repr(found))
    assert isinstance(again, float)
    assert math.copysign(1, again) == math.copysign(1, found)
    assert again == found
