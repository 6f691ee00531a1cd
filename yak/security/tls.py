"""TLS contexts from Kafka's `ssl.*` configs: those of a listener, and those of a broker that connects to another."""

import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from yak.errors import StartRefused, UsageError
from yak.security import ANONYMOUS
from yak.security.distinguished_names import rfc2253
from yak.security.key_stores import PEM, KeyStore, StoreSettings, read_key_store, read_trust_store
from yak.security.principal_mapping import PrincipalMapping

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_TLS13_SUITES: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
}
"""IANA's names, which Kafka uses, and OpenSSL's, of the suites of TLS 1.2 with forward secrecy and AEAD."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The `ssl.*` configs in force for one listener."""

    key_store: StoreSettings
    key_password: str | None
    trust_store: StoreSettings
    client_auth: ssl.VerifyMode
    versions: tuple[ssl.TLSVersion, ...]
    suites: tuple[str, ...]
    """OpenSSL's names for TLS 1.2; empty: its defaults."""
    checks_host_name: bool
    """Whether a broker that connects checks the other's name (`ssl.endpoint.identification.algorithm`)."""
    mapping: PrincipalMapping

    @classmethod
    def of_listener(cls, name: str, value_of: Mapping[str, str], *, uses_sasl: bool = False) -> "TlsSettings":
        """The settings of a listener from the broker's configs; `listener.name.<name>.` overrides (KIP-103).

        With SASL only an override requests client certificates (KIP-684). Raises UsageError (`tls-config`).
        """
        prefix = f"listener.name.{name.lower()}."

        def get(config: str, default: str = "") -> str:
            own = value_of.get(f"{prefix}{config}")
            return (value_of.get(config, default) if own is None else own).strip()

        chain, key = get("ssl.keystore.certificate.chain"), get("ssl.keystore.key")
        if bool(chain) != bool(key):
            raise _bad("ssl.keystore.key", "it goes with ssl.keystore.certificate.chain; set both")
        key_store = StoreSettings(
            "keystore",
            get("ssl.keystore.type", PEM).upper(),
            get("ssl.keystore.location") or None,
            get("ssl.keystore.password") or None,
            f"{key}\n{chain}" if key else None,
        )
        trust_store = StoreSettings(
            "truststore",
            get("ssl.truststore.type", PEM).upper(),
            get("ssl.truststore.location") or None,
            get("ssl.truststore.password") or None,
            get("ssl.truststore.certificates") or None,
        )
        for store in (key_store, trust_store):
            if store.location and store.inline:
                raise _bad(f"ssl.{store.kind}.location={store.location}", "the config has the text as well; name one")
        versions, suites = _versions(get("ssl.enabled.protocols")), _list(get("ssl.cipher.suites"))
        own_auth = value_of.get(f"{prefix}ssl.client.auth", "none").strip()
        client_auth = own_auth if uses_sasl else get("ssl.client.auth", "none")
        rules = get("ssl.principal.mapping.rules", "DEFAULT")
        try:
            mapping = PrincipalMapping.parse(rules)
        except ValueError as error:
            raise _bad(f"ssl.principal.mapping.rules={rules}", str(error)) from None
        return cls(
            key_store=key_store,
            key_password=get("ssl.key.password") or None,
            trust_store=trust_store,
            client_auth=_CLIENT_AUTH[client_auth.lower()],
            versions=_versions_of_suites(versions, suites),
            suites=tuple(_SUITES.get(suite, suite) for suite in suites if suite not in _TLS13_SUITES),
            checks_host_name=get("ssl.endpoint.identification.algorithm", "https").lower() == "https",
            mapping=mapping,
        )

    @property
    def files(self) -> tuple[str, ...]:
        """The files behind the settings."""
        return tuple(each.location for each in (self.key_store, self.trust_store) if each.location)


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts of a listener: to accept connections, and to connect to another broker's listener of this name."""

    accepting: ssl.SSLContext
    connecting: ssl.SSLContext
    warnings: tuple[tuple[str, dict[str, object]], ...]
    """(event, fields) for the log."""


def make_contexts(settings: TlsSettings, listener: str, now_ms: int) -> Contexts:
    """Read the key store and the trust store and make the contexts.

    Raises UsageError (`tls-config`) and StartRefused (see `key_stores`).
    """
    if not settings.key_store.is_set:
        raise _bad(f"listener {listener}", "it has no certificate; ssl.keystore.location is not set")
    if settings.client_auth is not ssl.CERT_NONE and not settings.trust_store.is_set:
        raise _bad(f"listener {listener}", "ssl.client.auth needs ssl.truststore.location, to know whom to trust")
    key_store = read_key_store(settings.key_store, settings.key_password, now_ms)
    trusted = _trusted(settings.trust_store)
    accepting = _context(ssl.PROTOCOL_TLS_SERVER, settings, key_store, trusted)
    accepting.verify_mode = settings.client_auth
    # A client with a ticket would keep what its certificate was worth before a reload; connections live for hours anyway.
    accepting.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_TICKET
    accepting.num_tickets = 0
    connecting = _context(ssl.PROTOCOL_TLS_CLIENT, settings, key_store, trusted)
    connecting.check_hostname = settings.checks_host_name
    return Contexts(accepting, connecting, key_store.warnings)


def principal_of(certificate: bytes | None, mapping: PrincipalMapping) -> str:
    """The principal of a client's certificate in DER, `User:ANONYMOUS` without one.

    Raises NoMatchingRule, as Kafka's DefaultKafkaPrincipalBuilder refuses the connection; ValueError for a name that
    cannot be read.
    """
    if certificate is None:
        return ANONYMOUS
    from cryptography.x509 import InvalidVersion, load_der_x509_certificate

    try:
        subject = load_der_x509_certificate(certificate).subject.public_bytes()
    except InvalidVersion as error:
        raise ValueError(str(error)) from error
    return f"User:{mapping.name_of(rfc2253(subject))}"


def _context(protocol: int, settings: TlsSettings, key_store: KeyStore, trusted: str) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version, context.maximum_version = min(settings.versions), max(settings.versions)
    # as in Java, a trusted certificate need not be a root
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        if settings.suites:
            context.set_ciphers(":".join(settings.suites))
    except ssl.SSLError as error:
        raise _bad(f"ssl.cipher.suites={','.join(settings.suites)}", "OpenSSL knows none of them") from error
    try:
        if trusted:
            context.load_verify_locations(cadata=trusted)
        elif protocol == ssl.PROTOCOL_TLS_CLIENT:
            context.load_default_certs()
        _load_key(context, key_store)
    except ssl.SSLError as error:
        raise _bad(settings.key_store.where, f"OpenSSL refuses it: {error}") from error
    return context


def _load_key(context: ssl.SSLContext, key_store: KeyStore) -> None:
    """Load the key, through a file for Python's ssl takes no other; the file is encrypted and short-lived."""
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    password = os.urandom(16).hex()
    encryption = BestAvailableEncryption(password.encode())
    parts = [key_store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)]
    parts += [each.public_bytes(Encoding.PEM) for each in key_store.chain]
    path = None
    try:
        descriptor, path = tempfile.mkstemp(prefix="yak-tls-")
        with open(descriptor, "wb") as file:
            file.write(b"".join(parts))
        context.load_cert_chain(path, password=password)
    except OSError as error:
        if isinstance(error, ssl.SSLError):
            raise
        raise StartRefused(
            "tls-store-unreadable",
            "the private key cannot be loaded",
            why=f"Python's ssl loads it from a temporary file: {error.strerror or error}",
            try_=("TMPDIR=DIRECTORY yak serve ...",),
        ) from error
    finally:
        if path is not None:
            os.unlink(path)


def _trusted(settings: StoreSettings) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    if not settings.is_set:
        return ""
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in read_trust_store(settings))


def _versions(text: str) -> tuple[ssl.TLSVersion, ...]:
    names = _list(text) or list(_VERSIONS)
    for name in names:
        if name not in _VERSIONS:
            raise _bad(f"ssl.enabled.protocols={text}", f"{name} is none of {', '.join(_VERSIONS)}")
    return tuple(_VERSIONS[name] for name in names)


def _versions_of_suites(versions: tuple[ssl.TLSVersion, ...], suites: list[str]) -> tuple[ssl.TLSVersion, ...]:
    """The versions that the suites leave. Python's ssl cannot choose among the suites of TLS 1.3."""
    if not suites:
        return versions
    named = [suite for suite in suites if suite in _TLS13_SUITES]
    if 0 < len(set(named)) < len(_TLS13_SUITES) and ssl.TLSVersion.TLSv1_3 in versions:
        why = f"the suites of TLS 1.3 go together: name all of {', '.join(_TLS13_SUITES)}, or none of them"
        raise _bad(f"ssl.cipher.suites={','.join(suites)}", why)
    wanted = {ssl.TLSVersion.TLSv1_3} if len(named) == len(suites) else set(ssl.TLSVersion)
    if not named:
        wanted = {ssl.TLSVersion.TLSv1_2}
    left = tuple(version for version in versions if version in wanted)
    if not left:
        raise _bad(f"ssl.cipher.suites={','.join(suites)}", "ssl.enabled.protocols has no version with these suites")
    return left


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _bad(what: str, why: str) -> UsageError:
    return UsageError(
        "tls-config", f"{what} cannot be used", why=why, try_=("yak certs create DIR", "yak help tls-config")
    )
