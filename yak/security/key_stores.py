"""Keys and certificates of Kafka's `ssl.keystore.*` and `ssl.truststore.*`, read and checked.

PEM (KIP-651) from a file or from the config itself, and PKCS12. The checks are made here, and not by OpenSSL, because
its errors name no cause.
"""

import os
import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from yak.errors import StartRefused
from yak.limits import TLS_STORE_BYTES_MAX

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

PEM, PKCS12 = "PEM", "PKCS12"
TYPES: Final = (PEM, PKCS12)
EXPIRY_WARNING_DAYS: Final = 30
_DAY_MS: Final = 86_400_000
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where a key store or a trust store is. `kind` is the config's word for it: keystore or truststore."""

    kind: str
    type: str
    location: str | None
    password: str | None
    inline: str | None
    """PEM text in the config itself: chain and key, or trusted certificates."""

    @property
    def is_set(self) -> bool:
        """Whether the configs name one."""
        return bool(self.location or self.inline)

    @property
    def where(self) -> str:
        """The file, or the config that has the text."""
        return self.location or f"the config ssl.{self.kind}.*"


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key with its certificate and the certificates between it and the authority."""

    key: "PrivateKeyTypes"
    chain: tuple["Certificate", ...]
    warnings: tuple[tuple[str, dict[str, object]], ...] = ()
    """(event, fields) for the log."""


def read_key_store(settings: StoreSettings, key_password: str | None, now_ms: int) -> KeyStore:
    """Read and check a key store.

    Raises StartRefused: `tls-store-unreadable`, `tls-password`, `tls-key-mismatch`, `tls-certificate-expired`.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    data = _read(settings)
    if settings.type == PKCS12:
        key, certificates = _from_pkcs12(settings, data)
    else:
        key, certificates = _key_in(settings, data, key_password), _certificates_in(settings, data)

    def public(of: "PrivateKeyTypes | Certificate") -> bytes:
        return of.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    try:
        own = public(key)
        leaf = next((each for each in certificates if public(each) == own), None)
    except library_errors() as error:
        raise _unreadable(settings, f"the public key of a certificate cannot be read ({error})") from error
    if leaf is None:
        raise StartRefused(
            "tls-key-mismatch",
            f"the private key and the certificate in {settings.where} do not belong together",
            why="no certificate in it has the public key of that private key",
            try_=("yak certs show FILE   shows the certificates of a file",),
        )
    _refuse_expired(leaf, settings.where, now_ms)
    warnings = [*_expiry_warning(leaf, settings.where, now_ms), *_mode_warning(settings.location)]
    return KeyStore(key, (leaf, *(each for each in certificates if each is not leaf)), tuple(warnings))


def read_trust_store(settings: StoreSettings) -> list["Certificate"]:
    """The trusted certificates. Raises StartRefused: `tls-store-unreadable`, `tls-password`."""
    data = _read(settings)
    return _from_pkcs12(settings, data)[1] if settings.type == PKCS12 else _certificates_in(settings, data)


def _read(settings: StoreSettings) -> bytes:
    if settings.inline:
        return _normal_pem(settings.inline).encode()
    try:
        with open(settings.location or "", "rb") as file:
            data = file.read(TLS_STORE_BYTES_MAX + 1)
    except OSError as error:
        raise _unreadable(settings, f"{error.strerror or error}") from error
    except ValueError as error:  # of a name with a NUL
        raise _unreadable(settings, f"{error}") from error
    if len(data) > TLS_STORE_BYTES_MAX:
        raise _unreadable(settings, f"it has more than {TLS_STORE_BYTES_MAX} bytes")
    return data


def _normal_pem(text: str) -> str:
    """PEM whose lines may have been joined by a properties file."""
    blocks = (f"-----BEGIN {kind}-----\n{_lines(body)}\n-----END {kind}-----\n" for kind, body in _BLOCK.findall(text))
    return "".join(blocks)


def _lines(body: str) -> str:
    joined = "".join(body.replace("\\n", " ").split())
    return "\n".join(joined[at : at + 64] for at in range(0, len(joined), 64))


def library_errors() -> tuple[type[Exception], ...]:
    """What the library raises for a certificate or key that it cannot read."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.x509 import DuplicateExtension, InvalidVersion, UnsupportedGeneralNameType

    damaged = InvalidVersion, DuplicateExtension, UnsupportedGeneralNameType
    return ValueError, TypeError, UnsupportedAlgorithm, *damaged


def _certificates_in(settings: StoreSettings, data: bytes) -> list["Certificate"]:
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return load_pem_x509_certificates(data)
    except library_errors() as error:
        raise _unreadable(settings, f"no certificate in PEM can be read from it ({error})") from error


def _key_in(settings: StoreSettings, data: bytes, password: str | None) -> "PrivateKeyTypes":
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    found = next((match[0] for match in _BLOCK.finditer(data.decode("latin-1")) if "PRIVATE KEY" in match[1]), None)
    if found is None:
        raise _unreadable(settings, "it has no private key; with PEM the key and its certificates are in one file")
    is_encrypted = "ENCRYPTED" in found
    if is_encrypted and not password:
        raise _wrong_password(settings, "the private key is encrypted, and ssl.key.password is not set")
    secret = password.encode() if password and is_encrypted else None
    try:
        return load_pem_private_key(found.encode("latin-1"), secret)
    except library_errors() as error:
        if is_encrypted:
            raise _wrong_password(settings, "ssl.key.password does not decrypt the private key") from error
        raise _unreadable(settings, f"the private key cannot be read ({error})") from error


def _from_pkcs12(settings: StoreSettings, data: bytes) -> tuple["PrivateKeyTypes", list["Certificate"]]:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    password = settings.password.encode() if settings.password else None
    try:
        found = load_pkcs12(data, password)
    except library_errors() as error:
        if "password" in str(error).lower() or "mac" in str(error).lower():
            raise _wrong_password(settings, f"ssl.{settings.kind}.password does not open it") from error
        raise _unreadable(settings, f"it is not a PKCS12 file ({error})") from error
    certificates = [each.certificate for each in (found.cert, *found.additional_certs) if each is not None]
    if not certificates or (found.key is None and settings.kind == "keystore"):
        raise _unreadable(settings, "it has no certificate" if not certificates else "it has no private key")
    return found.key, certificates  # type: ignore[return-value]  # a trust store's is not used


def _refuse_expired(leaf: "Certificate", where: str, now_ms: int) -> None:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    for wrong, word, moment in (
        (now > leaf.not_valid_after_utc, "expired at", leaf.not_valid_after_utc),
        (now < leaf.not_valid_before_utc, "is valid only from", leaf.not_valid_before_utc),
    ):
        if wrong:
            raise StartRefused(
                "tls-certificate-expired",
                f"the certificate in {where} {word} {moment:%Y-%m-%d %H:%M} UTC",
                why="clients refuse a certificate outside its dates",
                try_=("yak certs create DIR   makes new certificates",),
            )


def _expiry_warning(leaf: "Certificate", where: str, now_ms: int) -> list[tuple[str, dict[str, object]]]:
    left_days = int((leaf.not_valid_after_utc.timestamp() * 1000 - now_ms) // _DAY_MS)
    if left_days >= EXPIRY_WARNING_DAYS:
        return []
    until = f"{leaf.not_valid_after_utc:%Y-%m-%d}"
    return [("tls-certificate-expires", {"file": where, "until": until, "days": left_days})]


def _mode_warning(location: str | None) -> list[tuple[str, dict[str, object]]]:
    if location is None:
        return []
    try:
        mode = os.stat(location).st_mode
    except OSError:  # it was replaced meanwhile
        return []
    if not mode & (stat.S_IRGRP | stat.S_IROTH):
        return []
    others = "any user" if mode & stat.S_IROTH else "its group"
    return [("tls-key-readable-by-others", {"file": location, "by": others, "try": f"chmod 600 {location}"})]


def _unreadable(settings: StoreSettings, why: str) -> StartRefused:
    return StartRefused(
        "tls-store-unreadable",
        f"the {settings.kind} {settings.where} cannot be read",
        why=why,
        try_=(f"ssl.{settings.kind}.location=FILE with ssl.{settings.kind}.type={' or '.join(TYPES)}",),
    )


def _wrong_password(settings: StoreSettings, why: str) -> StartRefused:
    config = "ssl.key.password" if settings.type == PEM else f"ssl.{settings.kind}.password"
    return StartRefused(
        "tls-password", f"the {settings.kind} {settings.where} cannot be decrypted", why=why, try_=(f"{config}=...",)
    )
