"""Make and show certificates: a private authority, and certificates of a cluster and of its clients, in PEM.

An identity is one file, NAME.pem, with its private key and its certificate: Kafka's `ssl.keystore.location` for
`ssl.keystore.type=PEM`. The authority's certificate, ca.pem, is the trust store of both sides.
"""

import ipaddress
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from yak.errors import UsageError
from yak.private_files import make_directory, replace_file
from yak.security.distinguished_names import rfc2253
from yak.security.key_stores import library_errors

CA_FILE: Final = "ca.pem"
CA_KEY_FILE: Final = "ca.key"
BROKER_FILE: Final = "broker.pem"
_PUBLIC_MODE: Final = 0o644
_CA_DAYS: Final = 3650
_BACKDATED: Final = timedelta(minutes=5)
"""For machines whose clocks are a little behind."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_UNREADABLE: Final[tuple[type[Exception], ...]] = (OSError, *library_errors())
_HOST: Final = re.compile(r"(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})")


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """One certificate in `yak certs show`."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    serial: str
    sha256: str
    is_authority: bool


def create_certificates(
    directory: str, hosts: list[str], days: int, clients: list[str], *, force: bool, now: datetime
) -> list[str]:
    """Make an authority, unless it is there, and certificates for a cluster's hosts and for clients. Returns the files.

    An authority is never replaced, even with `force`: what clients trust stays. A cluster's certificate that is there
    for the same hosts stays too without `force` when clients are named, so that a client can be added.

    Raises UsageError (`certs-exist`, `certs-name`, `certs-not-valid`, `certs-unreadable`), OSError.
    """
    for name in clients:
        _check_client(name)

    def exists(file: str) -> bool:
        return os.path.exists(os.path.join(directory, file))

    needs_broker = force or not (clients and exists(BROKER_FILE))
    if not needs_broker:
        _check_same_hosts(directory, hosts)
    wanted = [BROKER_FILE] * needs_broker + [f"{name}.pem" for name in clients]
    taken = [] if force else [file for file in wanted if exists(file)]
    if taken:
        raise UsageError(
            "certs-exist",
            f"{directory} has {', '.join(taken)} already",
            why="a private key that is overwritten is lost, and certificates of another authority no longer fit",
            try_=(
                f"yak certs create {directory} --client NAME   adds a client",
                "--force   replaces them, signed by the same CA",
            ),
        )
    files: dict[str, bytes] = {}
    if exists(CA_FILE) or exists(CA_KEY_FILE):
        authority, key = _read_authority(directory)
        _check_validity(directory, authority, now)
    else:
        authority, key = _make_authority(now)
        files = {CA_KEY_FILE: _key_pem(key), CA_FILE: authority.public_bytes(Encoding.PEM)}
    if needs_broker:
        files[BROKER_FILE] = _issue("broker", hosts, days, authority, key, now)
    for name in clients:
        files[f"{name}.pem"] = _issue(name, [], days, authority, key, now)
    make_directory(directory)
    for file, data in files.items():
        replace_file(os.path.join(directory, file), data)  # mode 0600
    if CA_FILE in files:
        os.chmod(os.path.join(directory, CA_FILE), _PUBLIC_MODE)
    return [os.path.join(directory, file) for file in files]


def read_certificates(path: str) -> list[CertificateFacts]:
    """The certificates of a PEM file, in order. Raises UsageError (`certs-unreadable`)."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        if b"CERTIFICATE-----" not in data:
            raise _without_certificate(path, has_key=b"PRIVATE KEY-----" in data)
        return [describe(each) for each in x509.load_pem_x509_certificates(data)]
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error


def broker_hosts(directory: str) -> list[str]:
    """The hosts of the cluster's certificate in a folder, empty without one. Raises UsageError (`certs-unreadable`)."""
    path = os.path.join(directory, BROKER_FILE)
    return list(read_certificates(path)[0].names) if os.path.exists(path) else []


def describe(certificate: x509.Certificate) -> CertificateFacts:
    """The facts of a certificate."""
    extensions = certificate.extensions
    try:
        alternatives = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = tuple(str(each.value) for each in alternatives)
    except x509.ExtensionNotFound:
        names = ()
    try:
        is_authority = bool(extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except x509.ExtensionNotFound:
        is_authority = False
    return CertificateFacts(
        subject=rfc2253(certificate.subject.public_bytes()),
        issuer=rfc2253(certificate.issuer.public_bytes()),
        names=names,
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        serial=f"{certificate.serial_number:x}",
        sha256=certificate.fingerprint(hashes.SHA256()).hex(":").upper(),
        is_authority=is_authority,
    )


def _check_same_hosts(directory: str, hosts: list[str]) -> None:
    known = broker_hosts(directory)
    others = {str(_host(host).value) for host in hosts} ^ set(known)
    if hosts and others:
        raise UsageError(
            "certs-exist",
            f"{directory} has {BROKER_FILE} already, for {', '.join(known) or 'no host'}",
            why=f"other hosts need another certificate: {', '.join(hosts)}",
            try_=(
                f"yak certs create {directory} --client NAME   adds a client, without --hosts",
                "--force   replaces them, signed by the same CA",
            ),
        )


def _check_validity(directory: str, authority: x509.Certificate, now: datetime) -> None:
    begin, end = authority.not_valid_before_utc, authority.not_valid_after_utc
    if not begin <= now <= end:
        ours, key = (quote(os.path.join(directory, file)) for file in (CA_FILE, CA_KEY_FILE))
        raise UsageError(
            "certs-not-valid",
            f"the authority in {directory} is valid from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC, not now",
            why="clients refuse certificates of an authority outside its dates; it may be of a time with a wrong clock",
            try_=("date -u   shows the clock", f"rm {ours} {key}   lets this command make another authority"),
        )


def _check_client(name: str) -> None:
    if not _NAME.fullmatch(name) or f"{name}.pem" in (CA_FILE, BROKER_FILE):
        why = "a client's name has letters, digits and .-_@, and is neither ca nor broker"
        raise UsageError("certs-name", f"{name!r} cannot be the name of a client", why=why, try_=("--client alice",))


def _make_authority(now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject("YAK CA")
    usage = _usage(signs_certificates=True)
    builder = _builder(subject, subject, key.public_key(), now, _CA_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    return builder.sign(key, hashes.SHA256()), key


def _issue(
    name: str,
    hosts: list[str],
    days: int,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> bytes:
    """A new key and its certificate in PEM; with hosts it is a server's, and a client's as well: brokers connect too."""
    key = ec.generate_private_key(ec.SECP256R1())
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH] if hosts else []
    builder = _builder(_subject(name), authority.subject, key.public_key(), now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([*purposes, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    return _key_pem(key) + builder.sign(authority_key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - _BACKDATED)
        .not_valid_after(now.astimezone(UTC) + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(name: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "YAK"), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        pass
    if not _HOST.fullmatch(host):
        why = "a host is a name, or an IP address"
        raise UsageError("certs-name", f"{host!r} cannot be a host of a certificate", why=why, try_=("--hosts a,b",))
    return x509.DNSName(host)


def _read_authority(directory: str) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    path = os.path.join(directory, CA_FILE)
    try:
        with open(path, "rb") as file:
            certificate = x509.load_pem_x509_certificate(file.read())
        path = os.path.join(directory, CA_KEY_FILE)
        with open(path, "rb") as file:
            key = load_pem_private_key(file.read(), None)
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise _unreadable(path, ValueError("it is not a key of yak certs create"))
    return certificate, key


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _without_certificate(path: str, *, has_key: bool) -> UsageError:
    what = f"{path} has no certificate"
    if has_key:
        try_ = f"yak certs show {quote(os.path.join(os.path.dirname(path), CA_FILE))}"
        return UsageError("certs-unreadable", what, why="it has a private key only", try_=(try_,))
    return UsageError("certs-unreadable", what, why="it is not in PEM", try_=("yak certs create DIR",))


def _unreadable(path: str, error: Exception) -> UsageError:
    why, try_ = f"{error}", "yak certs create DIR"
    if isinstance(error, OSError):
        why, try_ = f"{error.strerror}".lower(), f"ls -l {path}"
    return UsageError("certs-unreadable", f"{path} cannot be read", why=why, try_=(try_,))
