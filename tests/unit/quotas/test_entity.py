"""Names of entities in the metadata."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.quotas.entity import decode_entity, encode_entity, entity_of

NAMES = st.none() | st.text(min_size=1) | st.text("%,=<>2CD35default", min_size=1)


@given(user=NAMES, client_id=NAMES)
def test_entity_is_decoded_as_it_was_encoded(user, client_id):
    for parts in ([("user", user)], [("client-id", client_id), ("user", user)], [("ip", client_id)]):
        entity = entity_of(parts)
        assert decode_entity(encode_entity(entity)) == entity


@given(one=NAMES, other=NAMES)
def test_different_entities_have_different_names(one, other):
    names = {encode_entity((("user", name),)) for name in (one, other)}
    assert (len(names) == 1) == (one == other)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([("client-id", None), ("user", "ann")], "user=ann,client-id=<default>"),
        ([("ip", "10.0.0.1")], "ip=10.0.0.1"),
        ([("user", "<default>")], "user=%3Cdefault>"),
    ],
)
def test_names_are_readable(parts, text):
    assert encode_entity(entity_of(parts)) == text
