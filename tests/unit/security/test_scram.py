"""SCRAM: the vector of RFC 7677, exchanges between both ends, and messages of a bad client."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yak.errors import LoginRefused
from yak.security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramClient,
    ScramCredential,
    ScramServer,
    bad_upsertion,
    bad_user,
)

NONCE, OTHER_NONCE, SALT = b"c" * 24, b"s" * 24, b"salt of the user"
NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40)


def credential_of(mechanism, password="secret", iterations=ITERATIONS_MIN):
    return mechanism.credential(mechanism.salt_password(password, SALT, iterations), SALT, iterations)


def server_of(mechanism=SCRAM_SHA_256, credential=None, nonce=OTHER_NONCE):
    found = credential or credential_of(mechanism)
    return ScramServer(mechanism, lambda *_, **__: found, nonce)


def begun(first=b"n,,n=user,r=abc"):
    server = server_of()
    return server, server.first(first).decode()


def test_exchange_of_rfc_7677_has_its_messages():
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = SCRAM_SHA_256.credential(SCRAM_SHA_256.salt_password("pencil", salt, 4096), salt, 4096)
    server = ScramServer(SCRAM_SHA_256, lambda *_, **__: credential, NONCE)
    server._nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"  # the RFC's nonce is no base64
    first = server.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = server.final(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@settings(max_examples=40)
@given(st.sampled_from(sorted(MECHANISMS)), NAMES, st.text(st.characters(exclude_categories=("Cs",)), max_size=60))
def test_client_with_the_password_logs_in(name, user, password):
    mechanism = MECHANISMS[name]
    server = server_of(mechanism, credential_of(mechanism, password))
    client = ScramClient(mechanism, user, password, NONCE)
    client.check(server.final(client.final(server.first(client.first()))))
    assert server.user == user


@settings(max_examples=20)
@given(st.sampled_from(sorted(MECHANISMS)), st.text(st.characters(exclude_categories=("Cs",)), max_size=20))
def test_client_with_another_password_is_refused(name, password):
    server, client = server_of(MECHANISMS[name]), ScramClient(MECHANISMS[name], "user", password + "x", NONCE)
    final = client.final(server.first(client.first()))
    with pytest.raises(LoginRefused, match="Invalid client credentials"):
        server.final(final)


@given(st.binary(max_size=200))
def test_first_message_of_random_bytes_is_refused_or_answered(raw):
    server = server_of()
    try:
        server.first(raw)
    except LoginRefused:
        assert not server.has_begun


@given(st.binary(max_size=200))
def test_final_message_of_random_bytes_is_refused(raw):
    server, _ = begun()
    with pytest.raises(LoginRefused):
        server.final(raw)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n",
        b"n,,",
        b"n,,n=user",
        b"n,,r=abc,n=user",
        b"n,,n=,r=abc",
        b"n,,n=a=b,r=abc",
        b"n,,n=a=2c,r=abc",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,m=ext,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,a=other,n=user,r=abc",
        b"n,user,n=user,r=abc",
        b"n,,n=us\0er,r=abc",
        b"n,,n=\xff,r=abc",
    ],
)
def test_bad_first_message_is_refused(first):
    with pytest.raises(LoginRefused):
        server_of().first(first)


@pytest.mark.parametrize(
    "first", [b"n,,n=a=2Cb=3Dc,r=abc", b"y,,n=a=2Cb=3Dc,r=abc", b"n,a=a=2Cb=3Dc,n=a=2Cb=3Dc,r=abc,x=1"]
)
def test_name_with_comma_and_equals_sign_is_unescaped(first):
    server = server_of()
    server.first(first)
    assert server.user == "a,b=c"


@pytest.mark.parametrize("final", ["", "c=biws", "c=biws,r={nonce}", "c=biws,r={nonce},p=", "c=biws,r={nonce},p=?",
                                   "c=eSws,r={nonce},p=AAAA", "c=biws,r=abc,p=AAAA", "c=biws,r={nonce}x,p=AAAA"])  # fmt: skip
def test_bad_final_message_is_refused(final):
    server, first = begun()
    with pytest.raises(LoginRefused):
        server.final(final.format(nonce=first.partition(",")[0][2:]).encode())


def test_messages_of_one_exchange_do_not_fit_another():
    client = ScramClient(SCRAM_SHA_256, "user", "secret", NONCE)
    recorded = server_of()
    final = client.final(recorded.first(client.first()))
    later = server_of(nonce=b"t" * 24)
    later.first(client.first())
    with pytest.raises(LoginRefused, match="nonce"):
        later.final(final)


def test_unknown_user_gets_the_same_salt_each_time_and_is_refused_like_a_wrong_password():
    one, two = (ScramCredential.unknown(SCRAM_SHA_256, "unknown", b"secret of the cluster") for _ in range(2))
    assert one == two != ScramCredential.unknown(SCRAM_SHA_256, "other", b"secret of the cluster")
    assert one != ScramCredential.unknown(SCRAM_SHA_256, "unknown", b"secret of another cluster")
    server, client = server_of(credential=one), ScramClient(SCRAM_SHA_256, "unknown", "secret", NONCE)
    final = client.final(server.first(client.first()))
    with pytest.raises(LoginRefused, match=r"^Invalid client credentials$"):
        server.final(final)


@pytest.mark.parametrize("answer", [b"r=x,s=AAAA,i=4096", b"r={n},s=AAAA,i=4096", b"r={n}x,s=?,i=4096", b"r={n}x,s=AAAA,i=1",
                                    b"r={n}x,s=AAAA,i=99999999", b"r={n}x,s=AAAA", b"e=other-error", b"\xff"])  # fmt: skip
def test_client_refuses_a_bad_server(answer):
    client = ScramClient(SCRAM_SHA_256, "user", "secret", NONCE)
    with pytest.raises(LoginRefused):
        client.final(answer.replace(b"{n}", base64.b64encode(NONCE)))


def test_client_refuses_a_server_that_does_not_know_the_credential():
    server, client = server_of(), ScramClient(SCRAM_SHA_256, "user", "secret", NONCE)
    server.final(client.final(server.first(client.first())))
    with pytest.raises(LoginRefused):
        client.check(b"v=" + base64.b64encode(b"x" * 32))


@given(st.binary(min_size=1, max_size=64), st.integers(ITERATIONS_MIN, ITERATIONS_MAX))
def test_stored_text_is_read_as_the_same_credential(salt, iterations):
    credential = SCRAM_SHA_512.credential(b"salted", salt, iterations)
    assert ScramCredential.parse(credential.to_text()) == credential


@pytest.mark.parametrize(
    "text", ["", "salt=AAAA", "salt=?,stored_key=AAAA,server_key=AAAA,iterations=4096", "iterations=x"]
)
def test_bad_stored_text_is_no_credential(text):
    assert ScramCredential.parse(text) is None


def test_repr_of_a_credential_hides_the_keys():
    assert repr(credential_of(SCRAM_SHA_256)) == "ScramCredential(iterations=4096)"


@pytest.mark.parametrize(
    ("user", "salt", "salted", "iterations", "problem"),
    [
        ("", b"s", b"p", 4096, "Username must not be empty"),
        ("u" * 300, b"s", b"p", 4096, "Username must not have more than 255 bytes"),
        ("a\nb", b"s", b"p", 4096, "Username must have printable characters only"),
        ("u", b"s", b"p", 4095, "Too few iterations"),
        ("u", b"s", b"p", 16_385, "Too many iterations"),
        ("u", b"", b"p", 4096, "Salt and salted password must have 1 to 1024 bytes"),
        ("u", b"s", b"p" * 2000, 4096, "Salt and salted password must have 1 to 1024 bytes"),
        ("a,b=c", b"s", b"p", 4096, None),
    ],
)
def test_values_that_cannot_be_stored_are_named(user, salt, salted, iterations, problem):
    assert bad_upsertion(user, salt, salted, iterations) == problem


def test_names_of_odd_characters_are_accepted():
    assert all(bad_user(user) is None for user in ("a,b=c", "Jürgen", "=", ",", "Ж"))


# ------------------------------------------------------------------------------------------------ delegation tokens


@pytest.mark.parametrize(
    ("extension", "is_token"),
    [("", False), (",tokenauth=true", True), (",tokenauth=TRUE", True), (",tokenauth=false", False), (",x=1", False)],
)
def test_extension_tokenauth_requests_the_credential_of_a_token(extension, is_token):
    asked = []
    server = ScramServer(
        SCRAM_SHA_256, lambda *_, is_token: asked.append(is_token) or credential_of(SCRAM_SHA_256), NONCE
    )
    server.first(f"n,,n=user,r=abc{extension}".encode())
    assert (asked, server.is_token) == ([is_token], is_token)


def test_client_with_a_token_logs_in_and_the_extension_is_signed():
    server, client = server_of(), ScramClient(SCRAM_SHA_256, "id", "secret", NONCE, is_token=True)
    first = client.first()
    assert first.endswith(b",tokenauth=true")
    client.check(server.final(client.final(server.first(first))))
    stripped = server_of()
    final = client.final(stripped.first(first.removesuffix(b",tokenauth=true")))
    with pytest.raises(LoginRefused, match="Invalid client credentials"):
        stripped.final(final)
