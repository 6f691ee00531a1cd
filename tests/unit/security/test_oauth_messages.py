"""The messages of OAUTHBEARER: each that a client encodes is decoded, and no bytes do more than fail."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.errors import LoginRefused
from yak.security.oauth_messages import TokenMessage, encode_error, status_of

TOKENS = st.from_regex(r"[-_~+/.a-zA-Z0-9]+=*", fullmatch=True)
NAMES = st.text(st.characters(min_codepoint=2, max_codepoint=0x7F), max_size=40)
EXTENSIONS = st.dictionaries(
    st.from_regex(r"[A-Za-z]{1,10}", fullmatch=True).filter(lambda name: name != "auth"),
    st.from_regex(r"[\x21-\x7E \t\r\n]{1,20}", fullmatch=True),
    max_size=4,
)


@given(TOKENS, NAMES, EXTENSIONS)
def test_message_that_was_encoded_is_decoded(token, name, extensions):
    message = TokenMessage(token, name, extensions)
    assert TokenMessage.decode(message.encode()) == message


def test_message_of_rfc_7628_is_decoded():
    raw = b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbH==\x01\x01"
    found = TokenMessage.decode(raw)
    assert (found.token, found.authorization_id) == ("vF9dft4qmTc2Nvb3RlckBhbH==", "user@example.com")
    assert found.extensions == {"host": "server.example.com", "port": "143"}


@given(st.binary(max_size=200))
def test_message_of_random_bytes_is_refused(raw):
    with pytest.raises(LoginRefused):
        TokenMessage.decode(raw)


@given(TOKENS, NAMES, EXTENSIONS, st.data())
def test_message_that_is_cut_short_is_refused(token, name, extensions, data):
    raw = TokenMessage(token, name, extensions).encode()
    with pytest.raises(LoginRefused):
        TokenMessage.decode(raw[: data.draw(st.integers(0, len(raw) - 1))])


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "Invalid OAUTHBEARER client first message"),
        (b"\x01", "Invalid OAUTHBEARER client first message"),
        (b"n,,\x01\x01", "'auth' not specified"),
        (b"n,,\x01host=a\x01\x01", "'auth' not specified"),
        (b"n,,\x01auth=Bearer t\x01", "Invalid OAUTHBEARER client first message"),
        (b"n,,\x01auth=Bearer t\x01\x01\x01", "an extension is malformed"),
        (b"n,,\x01auth=Basic t\x01\x01", "invalid 'auth' format"),
        (b"n,,\x01auth=Bearer \x01\x01", "invalid 'auth' format"),
        (b"n,,\x01auth=Bearer t t\x01\x01", "invalid 'auth' format"),
        (b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01", "its name comes twice"),
        (b"n,,\x01auth=Bearer t\x01a1=x\x01\x01", "an extension is malformed"),
        (b"n,,\x01auth=Bearer t\x01ext=\x01\x01", "an extension is malformed"),
        (b"y,,\x01auth=Bearer t\x01\x01", "Invalid OAUTHBEARER client first message"),
        (b"p=tls-unique,,\x01auth=Bearer t\x01\x01", "Invalid OAUTHBEARER client first message"),
        (b"n,b=u,\x01auth=Bearer t\x01\x01", "Invalid OAUTHBEARER client first message"),
        (b"n,,\x01auth=Bearer \xff\x01\x01", "it is not UTF-8"),
    ],
)
def test_malformed_message_is_refused_with_the_reason(raw, reason):
    with pytest.raises(LoginRefused, match=reason) as caught:
        TokenMessage.decode(raw)
    assert not caught.value.is_public


def test_message_hides_its_token_in_its_repr():
    assert "secret" not in repr(TokenMessage("secret", "ann", {"x": "secret"}))


def test_error_is_json_with_a_status():
    assert json.loads(encode_error("invalid_token")) == {"status": "invalid_token"}
    assert status_of(encode_error("invalid_token")) == "invalid_token"


@pytest.mark.parametrize("raw", [b"", b"text", b"[1]", b"\xff", b'{"a":1}', b"[" * 100_000])
def test_status_of_another_answer_is_its_text(raw):
    assert status_of(raw) == raw.decode(errors="replace")
