import base64
import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate

from tests.unit.security.identities import HOSTS, NOW, Identities, make
from yak.errors import UsageError
from yak.security.certificates import create_certificates, read_certificates


def create(
    folder: Path, clients: list[str] | None = None, *, force: bool = False, hosts: list[str] = HOSTS
) -> list[str]:
    return create_certificates(str(folder), hosts, 30, clients or [], force=force, now=NOW)


def test_broker_certificate_names_its_hosts_and_its_authority(known: Identities) -> None:
    (broker,) = read_certificates(known.broker)
    (authority,) = read_certificates(known.ca)
    assert (broker.subject, broker.issuer, broker.names) == ("CN=broker,O=YAK", authority.subject, tuple(HOSTS))
    assert authority.is_authority
    assert not broker.is_authority
    assert timedelta(days=364) < broker.not_after - NOW <= timedelta(days=365)


def test_only_the_authority_certificate_is_readable_by_others(known: Identities) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in known.folder.iterdir()}
    assert modes == {"ca.pem": 0o644, "ca.key": 0o600, "broker.pem": 0o600, "alice.pem": 0o600}
    assert stat.S_IMODE(known.folder.stat().st_mode) == 0o700


def test_create_refuses_to_replace_a_certificate(tmp_path: Path) -> None:
    create(tmp_path / "c")
    before = {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()}
    with pytest.raises(UsageError) as refused:
        create(tmp_path / "c")
    assert refused.value.code == "certs-exist"
    assert {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()} == before


def test_create_with_force_replaces_the_certificate_and_keeps_the_authority(tmp_path: Path) -> None:
    create(tmp_path)
    ca, broker = (tmp_path / "ca.pem").read_bytes(), (tmp_path / "broker.pem").read_bytes()
    assert create(tmp_path, force=True) == [str(tmp_path / "broker.pem")]
    assert (tmp_path / "ca.pem").read_bytes() == ca
    assert (tmp_path / "broker.pem").read_bytes() != broker


@pytest.mark.parametrize("made_in_days", [-3651, 1])
def test_create_refuses_an_authority_that_is_not_valid_now(tmp_path: Path, made_in_days: int) -> None:
    make(tmp_path, age_days=-made_in_days)
    before = (tmp_path / "broker.pem").read_bytes()
    with pytest.raises(UsageError) as refused:
        create(tmp_path, force=True)
    assert refused.value.code == "certs-not-valid"
    assert (tmp_path / "broker.pem").read_bytes() == before
    for file in ("ca.pem", "ca.key"):
        (tmp_path / file).unlink()
    create(tmp_path, force=True)
    assert all(each.not_before < NOW < each.not_after for each in read_certificates(str(tmp_path / "ca.pem")))


def test_create_adds_a_client_to_the_authority(tmp_path: Path) -> None:
    create(tmp_path)
    broker = (tmp_path / "broker.pem").read_bytes()
    assert create(tmp_path, ["bob"]) == [str(tmp_path / "bob.pem")]
    assert (tmp_path / "broker.pem").read_bytes() == broker
    assert read_certificates(str(tmp_path / "bob.pem"))[0].issuer == "CN=YAK CA,O=YAK"


def test_create_without_the_authority_key_is_refused(tmp_path: Path) -> None:
    create(tmp_path)
    os.unlink(tmp_path / "ca.key")
    with pytest.raises(UsageError) as refused:
        create(tmp_path, ["bob"])
    assert (refused.value.code, "ca.key" in refused.value.message) == ("certs-unreadable", True)


@pytest.mark.parametrize("name", ["", "ca", "broker", "../x", "a/b", "-x", "x" * 65])
def test_client_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as refused:
        create(tmp_path / "c", [name])
    assert refused.value.code == "certs-name"
    assert not (tmp_path / "c").exists()


def test_host_that_is_neither_name_nor_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        create(tmp_path / "c", hosts=["a b"])
    assert refused.value.code == "certs-name"
    assert not (tmp_path / "c").exists()


def test_show_of_a_file_without_certificates_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no certificate")
    with pytest.raises(UsageError) as refused:
        read_certificates(str(tmp_path / "x"))
    assert refused.value.code == "certs-unreadable"
    assert (refused.value.message, refused.value.why) == (f"{tmp_path}/x has no certificate", "it is not in PEM")


@pytest.mark.parametrize(
    ("intact", "damaged"),
    [("a003020102", "a003020142"), ("551d11", "551d13")],
    ids=["version", "two extensions of one kind"],
)
def test_show_of_a_damaged_certificate_is_refused(known: Identities, tmp_path: Path, intact: str, damaged: str) -> None:
    encoded = load_pem_x509_certificate(Path(known.broker).read_bytes()).public_bytes(Encoding.DER).hex()
    assert intact in encoded
    body = base64.encodebytes(bytes.fromhex(encoded.replace(intact, damaged))).decode()
    (tmp_path / "x").write_text(f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n")
    with pytest.raises(UsageError) as refused:
        read_certificates(str(tmp_path / "x"))
    assert refused.value.code == "certs-unreadable"


def test_show_of_a_private_key_says_that_it_is_one(tmp_path: Path) -> None:
    create(tmp_path)
    with pytest.raises(UsageError) as refused:
        read_certificates(str(tmp_path / "ca.key"))
    assert refused.value.why == "it has a private key only"
    assert refused.value.try_ == (f"yak certs show {tmp_path}/ca.pem",)
