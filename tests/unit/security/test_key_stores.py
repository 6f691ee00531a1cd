import base64
import os
import textwrap
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificate

from tests.unit.security.identities import NOW_MS, Identities, make
from yak.errors import StartRefused
from yak.security.key_stores import KeyStore, StoreSettings, read_key_store, read_trust_store

DAY_MS = 86_400_000


def settings(
    location: str | None, *, type_: str = "PEM", password: str | None = None, inline: str | None = None
) -> StoreSettings:
    return StoreSettings("keystore", type_, location, password, inline)


def read(location: str, *, key_password: str | None = None, now_ms: int = NOW_MS) -> KeyStore:
    return read_key_store(settings(location), key_password, now_ms)


def refusal(location: str, **more: object) -> StartRefused:
    with pytest.raises(StartRefused) as refused:
        read(location, **more)  # type: ignore[arg-type]
    return refused.value


def parts(identities: Identities) -> tuple[str, str]:
    """Key and certificate of the broker."""
    text = Path(identities.broker).read_text()
    at = text.index("-----BEGIN CERT")
    return text[:at], text[at:]


def encrypted(identities: Identities, password: str) -> str:
    key = load_pem_private_key(parts(identities)[0].encode(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())).decode()


def pkcs12(identities: Identities, password: bytes) -> bytes:
    key, certificate = parts(identities)
    encryption = BestAvailableEncryption(password)
    loaded = load_pem_private_key(key.encode(), None), load_pem_x509_certificate(certificate.encode())
    return serialize_key_and_certificates(b"broker", loaded[0], loaded[1], None, encryption)  # type: ignore[arg-type]


def test_pem_store_has_the_key_and_its_certificate_first(known, tmp_path):
    key, certificate = parts(known)
    (tmp_path / "x.pem").write_text(Path(known.ca).read_text() + key + certificate)
    os.chmod(tmp_path / "x.pem", 0o600)
    found = read(str(tmp_path / "x.pem"))
    assert [each.public_bytes(Encoding.PEM).decode() for each in found.chain] == [
        certificate,
        Path(known.ca).read_text(),
    ]
    assert found.warnings == ()


def test_store_that_is_missing_is_named(tmp_path):
    error = refusal(str(tmp_path / "none.pem"))
    assert (error.code, "none.pem" in error.message, error.why) == (
        "tls-store-unreadable",
        True,
        "No such file or directory",
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no private key"),
        ("-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n", "private key cannot be read"),
    ],
)
def test_store_that_is_no_pem_is_refused(tmp_path, text, why):
    (tmp_path / "x.pem").write_text(text)
    error = refusal(str(tmp_path / "x.pem"))
    assert error.code == "tls-store-unreadable"
    assert why in error.why


@pytest.mark.parametrize(
    ("intact", "damaged"),
    [
        ("2a8648ce3d030107", "2a8648ce3d030163"),  # the curve of the public key
        ("a003020102", "a003020142"),  # the version
        ("0301070342000", "0301070342070"),  # how many bits of the key are unused
    ],
)
def test_store_with_a_damaged_certificate_is_refused(known, tmp_path, intact, damaged):
    key, certificate = parts(known)
    encoded = load_pem_x509_certificate(certificate.encode()).public_bytes(Encoding.DER).hex()
    assert intact in encoded
    body = base64.b64encode(bytes.fromhex(encoded.replace(intact, damaged))).decode()
    text = f"{key}-----BEGIN CERTIFICATE-----\n{textwrap.fill(body, 64)}\n-----END CERTIFICATE-----\n"
    (tmp_path / "x.pem").write_text(text)
    assert refusal(str(tmp_path / "x.pem")).code == "tls-store-unreadable"


def test_store_with_a_key_alone_is_refused(known, tmp_path):
    (tmp_path / "x.pem").write_text(parts(known)[0])
    assert "no certificate" in refusal(str(tmp_path / "x.pem")).why


def test_key_of_another_certificate_is_refused(known, strange, tmp_path):
    (tmp_path / "x.pem").write_text(parts(known)[0] + parts(strange)[1])
    assert refusal(str(tmp_path / "x.pem")).code == "tls-key-mismatch"


@pytest.mark.parametrize(("password", "why"), [(None, "is not set"), ("wrong", "does not decrypt")])
def test_encrypted_key_without_its_password_is_refused(known, tmp_path, password, why):
    (tmp_path / "x.pem").write_text(encrypted(known, "right") + parts(known)[1])
    error = refusal(str(tmp_path / "x.pem"), key_password=password)
    assert error.code == "tls-password"
    assert why in error.why
    assert "right" not in f"{error.message}{error.why}{error.try_}"


def test_encrypted_key_is_read_with_its_password(known, tmp_path):
    (tmp_path / "x.pem").write_text(encrypted(known, "right") + parts(known)[1])
    assert len(read(str(tmp_path / "x.pem"), key_password="right").chain) == 1


def test_password_for_a_key_that_is_not_encrypted_is_ignored(known):
    assert len(read(known.broker, key_password="none needed").chain) == 1


@pytest.mark.parametrize(("days", "word"), [(366, "expired at"), (-1, "is valid only from")])
def test_certificate_outside_its_dates_is_refused(known, days, word):
    error = refusal(known.broker, now_ms=NOW_MS + days * DAY_MS)
    assert error.code == "tls-certificate-expired"
    assert word in error.message


@pytest.mark.parametrize(("left_days", "warned"), [(31, []), (29, [29]), (1, [1])])
def test_certificate_warns_for_its_last_30_days(known, left_days, warned):
    now_ms = NOW_MS + timedelta(days=365 - left_days) // timedelta(milliseconds=1) - 60_000
    assert [fields["days"] for _, fields in read(known.broker, now_ms=now_ms).warnings] == warned


@pytest.mark.parametrize(("mode", "by"), [(0o640, "its group"), (0o604, "any user")])
def test_key_file_that_others_can_read_warns(tmp_path, mode, by):
    broker = make(tmp_path / "c").broker
    os.chmod(broker, mode)
    ((event, fields),) = read(broker).warnings
    assert (event, fields["by"]) == ("tls-key-readable-by-others", by)


def test_inline_store_survives_the_lines_of_a_properties_file(known):
    text = "".join(parts(known)).replace("\n", " ")
    assert len(read_key_store(settings(None, inline=text), None, NOW_MS).chain) == 1


def test_pkcs12_store_is_read_with_its_password(known, tmp_path):
    (tmp_path / "x.p12").write_bytes(pkcs12(known, b"right"))
    location = str(tmp_path / "x.p12")
    assert len(read_key_store(settings(location, type_="PKCS12", password="right"), None, NOW_MS).chain) == 1
    for password in ("wrong", None):
        with pytest.raises(StartRefused) as refused:
            read_key_store(settings(location, type_="PKCS12", password=password), None, NOW_MS)
        assert refused.value.code == "tls-password"


def test_pkcs12_store_that_is_none_is_refused(known):
    with pytest.raises(StartRefused) as refused:
        read_key_store(settings(known.broker, type_="PKCS12", password="x"), None, NOW_MS)
    assert refused.value.code == "tls-store-unreadable"


def test_trust_store_has_all_certificates(known, strange, tmp_path):
    (tmp_path / "both.pem").write_text(Path(known.ca).read_text() + Path(strange.ca).read_text())
    assert len(read_trust_store(StoreSettings("truststore", "PEM", str(tmp_path / "both.pem"), None, None))) == 2
