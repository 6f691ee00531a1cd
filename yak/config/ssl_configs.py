"""The broker's `ssl.*` configs: Kafka's names and rules (SslConfigs, BrokerSecurityConfigs).

Java's key stores (JKS) and engines have no counterpart here, so `ssl.keystore.type` and `ssl.truststore.type` are PEM by
default (KIP-651), and there is no `ssl.provider`. Each config may be set for one listener: `listener.name.<name>.ssl...`
(KIP-103), with the name in lower case (ListenerName.configPrefix).
"""

import re
from dataclasses import replace
from typing import Final

from yak.config.definitions import Check, ConfigDef, ConfigType, Update, Value, define, one_of, subset_of

_STRING, _LIST, _PASSWORD = ConfigType.STRING, ConfigType.LIST, ConfigType.PASSWORD
_OF_ONE_LISTENER: Final = re.compile(r"listener\.name\.[^.\sA-Z]+\.(.+)")


def one_of_ignoring_case(*names: str) -> Check:
    """As `one_of`, of lower-case names, whatever the case of the value."""
    check = one_of(*names)
    return lambda name, value: check(name, str(value).lower())


def _store_type(_name: str, value: Value) -> None:
    if str(value).upper() == "JKS":
        raise ValueError("Java's key stores are not read; keytool -importkeystore -deststoretype PKCS12 converts one")
    if str(value).upper() not in ("PEM", "PKCS12"):
        raise ValueError(f"{value!r} is neither PEM nor PKCS12")


SSL_CONFIGS: Final = (
    define("ssl.keystore.type", _STRING, "PEM", _store_type)("Format of the key store: PEM or PKCS12."),
    define("ssl.keystore.location", _STRING, None)(
        "File with the broker's private key and certificate chain. The broker notices when it changes."
    ),
    define("ssl.keystore.password", _PASSWORD, None)("Password of a PKCS12 key store."),
    define("ssl.key.password", _PASSWORD, None)("Password of the private key in PEM."),
    define("ssl.keystore.key", _PASSWORD, None)("Private key in PEM, in the place of a file (KIP-651)."),
    define("ssl.keystore.certificate.chain", _PASSWORD, None)(
        "Certificate chain in PEM, beside ssl.keystore.key (KIP-651)."
    ),
    define("ssl.truststore.type", _STRING, "PEM", _store_type)("Format of the trust store: PEM or PKCS12."),
    define("ssl.truststore.location", _STRING, None)("File with the trusted certificates."),
    define("ssl.truststore.password", _PASSWORD, None)("Password of a PKCS12 trust store."),
    define("ssl.truststore.certificates", _PASSWORD, None)(
        "Trusted certificates in PEM, in the place of a file (KIP-651)."
    ),
    define("ssl.client.auth", _STRING, "none", one_of_ignoring_case("required", "requested", "none"))(
        "Whether clients present a certificate: required, requested (one that is presented must be valid), or none."
    ),
    define("ssl.enabled.protocols", _LIST, "TLSv1.2,TLSv1.3", subset_of("TLSv1.2", "TLSv1.3"))(
        "Versions of TLS that a listener accepts."
    ),
    define("ssl.cipher.suites", _LIST, "")(
        "Cipher suites that a listener accepts, by IANA's or OpenSSL's names; empty: those of OpenSSL."
    ),
    define("ssl.endpoint.identification.algorithm", _STRING, "https", one_of_ignoring_case("https", ""))(
        "How a broker checks the host name of another: https, or empty for no check."
    ),
    define("ssl.principal.mapping.rules", _STRING, "DEFAULT")(
        "Rules that make a user's name from the distinguished name of a client's certificate (KIP-371)."
    ),
)
_RECONFIGURABLE: Final = (
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.truststore.location",
    "ssl.truststore.type",
)
"""The configs that can change on a running broker, for one listener (Kafka's SslConfigs.RECONFIGURABLE_CONFIGS)."""
_OF_LISTENERS: Final = {
    each.name: replace(each, update=Update.PER_BROKER if each.name in _RECONFIGURABLE else Update.READ_ONLY)
    for each in SSL_CONFIGS
}


def of_one_listener(name: str) -> ConfigDef | None:
    """The definition behind `listener.name.<name>.ssl...`; None for any other name."""
    found = _OF_ONE_LISTENER.fullmatch(name)
    return _OF_LISTENERS.get(found[1]) if found else None
