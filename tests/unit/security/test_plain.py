"""PLAIN's one message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.errors import LoginRefused
from yak.security.plain import PlainToken

WORDS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1)


@given(WORDS, WORDS)
def test_token_is_read_as_it_was_written(user, password):
    assert PlainToken.decode(PlainToken(user, password).encode()) == PlainToken(user, password)


@given(st.binary(max_size=60))
def test_random_bytes_are_refused_or_have_a_user_and_a_password(raw):
    try:
        token = PlainToken.decode(raw)
    except LoginRefused:
        return
    assert token.user
    assert token.password


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"a\0b\0c\0d", "expected 3 tokens, got 4"),
        (b"\0\0secret", "username not specified"),
        (b"\0user\0", "password not specified"),
        (b"other\0user\0secret", "authorization id that is different from username"),
        (b"\0user\0\xff", "not UTF-8"),
    ],
)
def test_bad_token_is_refused_with_the_reason(raw, reason):
    with pytest.raises(LoginRefused, match=reason):
        PlainToken.decode(raw)


def test_repr_hides_the_password():
    assert repr(PlainToken("user", "secret")) == "PlainToken(user='user')"
