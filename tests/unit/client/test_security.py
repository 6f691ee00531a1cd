"""How clients of this process connect: librdkafka's settings, our own sockets, and probes of an address."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.unit.security.identities import Identities, make
from tests.unit.server.tls_rig import running_tls
from yak.client import security
from yak.client.connection import base_config
from yak.client.reach import probe
from yak.client.security import ClientSecurity, explain_tls
from yak.errors import UsageError
from yak.local.checks.finding import Finding
from yak.local.checks.network import check_tls


@pytest.fixture(autouse=True)
def plain_again() -> Iterator[None]:
    yield
    security.use(ClientSecurity())


def secure(identities: Identities, **more: object) -> ClientSecurity:
    return ClientSecurity(protocol="SSL", ca_location=identities.ca, **more)  # type: ignore[arg-type]


def test_plain_connections_have_no_settings() -> None:
    assert ClientSecurity(ca_location="/unused").librdkafka() == {}
    assert "security.protocol" not in base_config("x:1")


def test_librdkafka_gets_the_settings_in_force(known: Identities) -> None:
    security.use(secure(known, certificate_location=known.client, checks_host_name=False))
    config = base_config("x:1")
    assert {name: value for name, value in config.items() if name.startswith(("ssl.", "security."))} == {
        "security.protocol": "SSL",
        "ssl.ca.location": known.ca,
        "ssl.certificate.location": known.client,
        "ssl.key.location": known.client,
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_file_that_cannot_be_used_is_named(known: Identities) -> None:
    for wrong in (
        ClientSecurity(protocol="SSL", ca_location="/no/such/ca.pem"),
        secure(known, certificate_location="/no/such/client.pem"),
        secure(known, certificate_location=known.ca),
    ):
        security.use(wrong)
        with pytest.raises(UsageError) as refused:
            wrong._context()
        assert refused.value.code == "client-certificate"


async def probed(
    identities: Identities, configs: dict[str, str], client: ClientSecurity, host: str = "localhost"
) -> str:
    """What a probe says of a listener with TLS whose core echoes: outcome and detail."""
    security.use(client)
    async with running_tls(configs) as (broker, _):
        found = await trio.to_thread.run_sync(probe, f"{host}:{broker.port}", 3.0)
    return f"{found.outcome}: {found.detail}"


async def test_probe_reaches_a_tls_listener(known: Identities) -> None:
    # the echo of a request is no answer of Kafka's, but it came
    assert (await probed(known, known.configs, secure(known))).startswith("other: it answered")


async def test_plain_probe_of_a_tls_listener_says_so(known: Identities) -> None:
    assert "it speaks TLS" in await probed(known, known.configs, ClientSecurity())


async def test_probe_explains_a_certificate_that_is_refused(known: Identities, strange: Identities) -> None:
    assert "certificate is refused" in await probed(known, known.configs, secure(strange))


def test_explain_tls_says_nothing_of_other_errors() -> None:
    assert explain_tls(ConnectionRefusedError()) == ""
    assert "does not speak TLS" in explain_tls(ssl.SSLEOFError(8, "EOF occurred"))


async def checked(listener: Identities, client: ClientSecurity) -> Finding:
    """What `yak doctor` finds at a listener."""
    security.use(client)
    async with running_tls(listener.configs) as (broker, _):
        return await trio.to_thread.run_sync(check_tls, f"localhost:{broker.port}", 3.0)


async def test_doctor_shows_version_names_and_end_of_a_certificate(known: Identities) -> None:
    found = await checked(known, secure(known))
    assert found.state == "ok"
    assert "TLSv1.3; its certificate names localhost, 127.0.0.1 and is valid until 20" in found.detail


async def test_doctor_warns_of_a_certificate_that_expires_soon(tmp_path: Path) -> None:
    short = make(tmp_path / "short", days=9)
    found = await checked(short, secure(short))
    assert (found.state, "9 days" in found.detail or "8 days" in found.detail) == ("warn", True)


async def test_doctor_fails_for_another_authority(known: Identities, strange: Identities) -> None:
    found = await checked(known, secure(strange))
    assert (found.state, "certificate is refused" in found.detail) == ("FAIL", True)
