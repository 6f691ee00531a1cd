"""Translates a user's `kafka.*` options to librdkafka's settings: names differ for Java's TLS and SASL.

Names and meanings: Kafka's `ConsumerConfig`, `SslConfigs`, `SaslConfigs`; librdkafka's CONFIGURATION.md.
"""

import re
from collections.abc import Mapping

from yak.spark.source.errors import SourceError, bad_option

_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.password": "ssl.key.password",
}
_JAVA_ONLY = (
    "max.poll.records",
    "default.api.timeout.ms",
    "buffer.memory",
    "max.block.ms",
    "reconnect.backoff.max.ms",
    "group.protocol",
    "ssl.truststore.type",
    "ssl.keystore.type",
    "ssl.truststore.password",
    "ssl.protocol",
    "ssl.enabled.protocols",
    "client.dns.lookup",
)
"""Settings of the Java client that change no result. librdkafka lacks them, or refuses values that Java accepts."""
_JAAS_FIELD = re.compile(r"(\w+)\s*=\s*\"((?:[^\"\\]|\\.)*)\"")


def for_librdkafka(settings: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings for these (names without `kafka.`). Raises SourceError if there is no equivalent."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if name in ("ssl.truststore.location", "ssl.keystore.location"):
            found.update(_store(name, value, settings))
        elif name == "ssl.truststore.certificates":
            found["ssl.ca.pem"] = value
        elif name == "ssl.keystore.certificate.chain":
            found["ssl.certificate.pem"] = value
        elif name == "ssl.keystore.key":
            found["ssl.key.pem"] = value
        elif name == "ssl.endpoint.identification.algorithm":
            found[name] = value.strip().lower() or "none"
        elif name == "sasl.jaas.config":
            found.update(_jaas(value))
        elif name not in _JAVA_ONLY:
            found[_RENAMED.get(name, name)] = value
    return found


def _store(name: str, value: str, settings: Mapping[str, str]) -> dict[str, str]:
    kind = settings.get(name.replace("location", "type"), "JKS").upper()
    if kind == "PEM":
        if name.startswith("ssl.truststore"):
            return {"ssl.ca.location": value}
        return {"ssl.certificate.location": value, "ssl.key.location": value}
    if kind == "PKCS12" and name.startswith("ssl.keystore"):
        return {"ssl.keystore.location": value, "ssl.keystore.password": settings.get("ssl.keystore.password", "")}
    raise bad_option(
        f"kafka.{name}",
        value,
        f"it is a Java store of type {kind}, which only Java reads",
        f"kafka.{name.replace('location', 'type')}=PEM with a PEM file",
        "kafka.ssl.ca.location=ca.pem, kafka.ssl.certificate.location, kafka.ssl.key.location",
    )


def _jaas(text: str) -> dict[str, str]:
    fields = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _JAAS_FIELD.findall(text)}
    if "username" not in fields or "password" not in fields:
        raise SourceError(
            "spark-option",
            "option kafka.sasl.jaas.config cannot be taken",
            why="no username and password are in it",
            try_=("kafka.sasl.username and kafka.sasl.password",),
        )
    return {"sasl.username": fields["username"], "sasl.password": fields["password"]}
