import ssl
from pathlib import Path

import pytest

from tests.unit.security.identities import NOW_MS, Identities
from yak.config.broker_configs import BrokerConfig
from yak.config.describe import describe_broker
from yak.errors import StartRefused, UsageError
from yak.security.principal_mapping import NoMatchingRule, PrincipalMapping
from yak.security.tls import Contexts, TlsSettings, make_contexts, principal_of


def contexts(configs: dict[str, str], listener: str = "SSL") -> Contexts:
    return make_contexts(TlsSettings.of_listener(listener, configs), listener, NOW_MS)


def names(context: ssl.SSLContext) -> list[str]:
    return [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]


def test_contexts_have_the_versions_and_rules_of_kafka(known: Identities) -> None:
    made = contexts(known.configs)
    accepting, connecting = made.accepting, made.connecting
    assert (accepting.minimum_version, accepting.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert accepting.verify_mode is ssl.CERT_NONE
    assert accepting.options & ssl.OP_NO_RENEGOTIATION
    assert (connecting.verify_mode, connecting.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.parametrize(
    ("auth", "mode"),
    [
        ("none", ssl.CERT_NONE),
        ("requested", ssl.CERT_OPTIONAL),
        ("required", ssl.CERT_REQUIRED),
        ("REQUIRED", ssl.CERT_REQUIRED),
    ],
)
def test_client_auth_chooses_the_verify_mode(known: Identities, auth: str, mode: ssl.VerifyMode) -> None:
    assert contexts(known.configs | {"ssl.client.auth": auth}).accepting.verify_mode is mode


def test_listener_prefix_overrides_and_is_in_lower_case(known: Identities) -> None:
    configs = known.configs | {"ssl.client.auth": "required", "listener.name.public.ssl.client.auth": "none"}
    assert contexts(configs, "PUBLIC").accepting.verify_mode is ssl.CERT_NONE
    assert contexts(configs, "OTHER").accepting.verify_mode is ssl.CERT_REQUIRED


def test_with_sasl_only_the_listener_config_requests_client_certificates(known: Identities) -> None:
    configs = known.configs | {"ssl.client.auth": "required"}
    own = configs | {"listener.name.x.ssl.client.auth": "requested"}
    for given, mode in ((configs, ssl.CERT_NONE), (own, ssl.CERT_OPTIONAL)):
        assert TlsSettings.of_listener("X", given, uses_sasl=True).client_auth is mode


def test_empty_endpoint_algorithm_turns_the_host_name_check_off(known: Identities) -> None:
    made = contexts(known.configs | {"ssl.endpoint.identification.algorithm": ""})
    assert (made.connecting.check_hostname, made.connecting.verify_mode) == (False, ssl.CERT_REQUIRED)


def test_cipher_suites_take_kafkas_names(known: Identities) -> None:
    made = contexts(known.configs | {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"})
    assert names(made.accepting) == ["ECDHE-ECDSA-AES128-GCM-SHA256"]
    assert made.accepting.maximum_version is ssl.TLSVersion.TLSv1_2


def test_suites_of_tls_13_leave_only_tls_13(known: Identities) -> None:
    suites = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
    assert contexts(known.configs | {"ssl.cipher.suites": suites}).accepting.minimum_version is ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("configs", "word"),
    [
        ({"ssl.cipher.suites": "NO_SUCH_SUITE"}, "NO_SUCH_SUITE"),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "go together"),
        (
            {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.3"},
            "no version",
        ),
        ({"ssl.principal.mapping.rules": "RULE:x"}, "RULE:x"),
        ({"ssl.keystore.key": "x"}, "certificate.chain"),
        ({"ssl.truststore.certificates": "x"}, "name one"),
        ({"ssl.keystore.location": ""}, "no certificate"),
        ({"ssl.truststore.location": "", "ssl.client.auth": "requested"}, "ssl.truststore.location"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.1"),
    ],
)
def test_configs_that_do_not_fit_are_refused(known: Identities, configs: dict[str, str], word: str) -> None:
    with pytest.raises(UsageError) as refused:
        contexts(known.configs | configs)
    assert refused.value.code == "tls-config"
    assert word in f"{refused.value.message} {refused.value.why}"


def test_store_given_in_the_config_itself(known: Identities) -> None:
    text = Path(known.broker).read_text()
    at = text.index("-----BEGIN CERT")
    configs = {
        "ssl.keystore.key": text[:at],
        "ssl.keystore.certificate.chain": text[at:],
        "ssl.truststore.certificates": Path(known.ca).read_text(),
        "ssl.client.auth": "required",
    }
    assert contexts(configs).accepting.verify_mode is ssl.CERT_REQUIRED


def test_no_key_is_left_in_a_temporary_file(known: Identities, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    contexts(known.configs)
    assert list(tmp_path.iterdir()) == []


def test_trust_store_without_a_certificate_is_refused(known: Identities, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(StartRefused) as refused:
        contexts(known.configs | {"ssl.truststore.location": str(tmp_path / "x")})
    assert refused.value.code == "tls-store-unreadable"


def certificate_of_the_client(known: Identities) -> bytes:
    text = Path(known.client).read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERT") :])


def test_principal_is_the_distinguished_name_by_default(known: Identities) -> None:
    assert principal_of(certificate_of_the_client(known), PrincipalMapping()) == "User:CN=alice,O=YAK"


def test_principal_follows_the_rules(known: Identities) -> None:
    rules = PrincipalMapping.parse("RULE:^CN=(.*?),.*$/$1/U")
    assert principal_of(certificate_of_the_client(known), rules) == "User:ALICE"
    with pytest.raises(NoMatchingRule):
        principal_of(certificate_of_the_client(known), PrincipalMapping.parse("RULE:^OU=(.*)$/$1/"))


def test_client_without_a_certificate_is_anonymous() -> None:
    assert principal_of(None, PrincipalMapping()) == "User:ANONYMOUS"


SECRETS = ("ssl.keystore.password", "ssl.key.password", "ssl.keystore.key", "ssl.truststore.password")


def test_describe_configs_returns_no_password() -> None:
    static = dict.fromkeys(SECRETS, "hush") | {"ssl.keystore.location": "/x"}
    rows = {row.name: row for row in describe_broker({}, {}, BrokerConfig.from_settings(static).static)}
    assert [(rows[name].value, rows[name].is_sensitive) for name in SECRETS] == [(None, True)] * 4
    assert "hush" not in str(rows)
    assert rows["ssl.keystore.location"].value == "/x"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.keystore.type", "JKS"),
        ("ssl.client.auth", "perhaps"),
        ("ssl.enabled.protocols", "TLSv1.1"),
        ("listener.name.x.ssl.client.auth", "perhaps"),
        ("listener.name.x.ssl.nonsense", "1"),
        ("ssl.endpoint.identification.algorithm", "ldaps"),
    ],
)
def test_broker_config_refuses_a_value(name: str, value: str) -> None:
    with pytest.raises(UsageError) as refused:
        BrokerConfig.from_settings({name: value})
    assert refused.value.code == "bad-config"


def test_broker_config_takes_the_prefix_of_a_listener() -> None:
    static = {"listener.name.public.ssl.client.auth": "required"}
    assert BrokerConfig.from_settings(static).static == static


def test_client_auth_of_a_sasl_listener_may_have_blanks_around_it(known: Identities) -> None:
    configs = known.configs | {"listener.name.x.ssl.client.auth": " required"}
    assert TlsSettings.of_listener("X", configs, uses_sasl=True).client_auth is ssl.CERT_REQUIRED
