"""How the consumers of HTTP clients connect to the brokers: TLS and the login of the inter-broker listener.

On a listener with SASL an instance logs in as the user that created it over HTTP Basic, so that user's rights and quotas
count. Only users of the metadata are known to every broker.
"""

import base64

from yak.security.key_stores import PEM
from yak.security.scram import MECHANISMS
from yak.security.tls import TlsSettings
from yak.server.http.authentication import CALLER
from yak.server.http.consumers.failures import refusal
from yak.server.http.context import Context
from yak.server.http.problems import Problem


def connection_settings(context: Context) -> dict[str, str]:
    """librdkafka's settings for the inter-broker listener. Raises Problem."""
    broker = context.broker
    listener = broker.identity.inter_broker
    protocol = listener.security_protocol
    settings = {"security.protocol": protocol.value}
    if protocol.uses_tls:
        settings |= _tls(TlsSettings.of_listener(listener.name, broker.config.static, uses_sasl=protocol.uses_sasl))
    if protocol.uses_sasl:
        settings |= _login(broker.config.sasl_enabled_mechanisms)
    return settings


def _tls(tls: TlsSettings) -> dict[str, str]:
    stores = (tls.key_store, tls.trust_store)
    if any(store.is_set and (store.location is None or store.type != PEM) for store in stores):
        raise _refused("the key store and the trust store of that listener must be files in PEM")
    found = {
        "ssl.ca.location": tls.trust_store.location,
        "ssl.certificate.location": tls.key_store.location,
        "ssl.key.location": tls.key_store.location,
        "ssl.key.password": tls.key_password,
        "ssl.endpoint.identification.algorithm": "https" if tls.checks_host_name else "none",
    }
    return {name: value for name, value in found.items() if value is not None}


def _login(enabled: tuple[str, ...]) -> dict[str, str]:
    scheme, _, given = (CALLER.get().authorization or "").partition(" ")
    mechanism = next((name for name in MECHANISMS if name in enabled), None)
    if scheme.lower() != "basic" or mechanism is None:
        raise _refused("create the instance with a user's name and password (yak.http.authentication=basic)")
    user, _, password = base64.b64decode(given).decode().partition(":")
    return {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}


def _refused(hint: str) -> Problem:
    words = "consumers over HTTP connect to the brokers' listener, which asks for TLS or a login"
    return refusal(501, 50101, "consumer-login", words, hint)
