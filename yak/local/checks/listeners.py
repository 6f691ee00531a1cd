"""The brokers' listeners: whether other machines reach one that asks for no login, and whether brokers reach each other."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from yak.config.listeners import Listeners, is_loopback, without_authentication
from yak.errors import YakError
from yak.local.checks.finding import Finding

_OPEN: Final = "use SASL_SSL (docs/security.md), or bind 127.0.0.1"
_HTTP_LISTENERS, _HTTP_AUTHENTICATION = "yak.http.listeners", "yak.http.authentication"


def check_listeners(servers: str, node_ids: Sequence[int], timeout_s: float) -> list[Finding]:
    """What the brokers' own configs say of their listeners; skipped when they do not tell them."""
    from yak.client.admin import Admin

    admin = Admin(servers, timeout_ms=round(timeout_s * 1000))
    configs: dict[int, Mapping[str, str]] = {}
    for node_id in node_ids:
        try:
            found = admin.configs("broker", str(node_id))
        except YakError as error:
            return [Finding("authentication", "skip", f"node {node_id} does not tell its configs: {error.message}")]
        configs[node_id] = {each.name: each.value for each in found if each.value}
    return [check_authentication(configs), *check_between_brokers(configs)]


def check_authentication(configs: Mapping[int, Mapping[str, str]]) -> Finding:
    """Whether a listener beyond the loopback interface lets clients in without a login or a certificate."""
    found = []
    for node_id, settings in configs.items():
        try:
            addresses = [str(each) for each in without_authentication(settings)]
        except YakError as error:
            return Finding("authentication", "skip", f"node {node_id}: {error.message}")
        http = settings.get(_HTTP_LISTENERS, "")
        if http and settings.get(_HTTP_AUTHENTICATION) == "none" and not is_loopback(urlsplit(http).hostname or ""):
            addresses.append(http)
        found += [f"node {node_id} at {address}" for address in addresses]
    if found:
        detail = f"other machines connect without a login or a certificate: {', '.join(found)}"
        return Finding("authentication", "warn", detail, _OPEN)
    return Finding("authentication", "ok", "each listener beyond this machine asks for a login or a certificate")


def check_between_brokers(configs: Mapping[int, Mapping[str, str]]) -> list[Finding]:
    """Whether each broker has the listener that each other one uses between brokers, with its security protocol."""
    listeners = {node_id: Listeners.from_settings(settings) for node_id, settings in configs.items()}
    problems = []
    for node_id, own in listeners.items():
        wanted = own.inter_broker
        for other_id, other in listeners.items():
            found = next((each for each in other.advertised if each.name == wanted.name), None)
            if found is None:
                problems.append(f"node {other_id} has no listener {wanted.name}, which node {node_id} uses for brokers")
            elif found.security_protocol is not wanted.security_protocol:
                protocols = (
                    f"{found.security_protocol} on node {other_id}, {wanted.security_protocol} on node {node_id}"
                )
                problems.append(f"listener {wanted.name} is {protocols}")
    if not problems:
        return []
    hint = "set inter.broker.listener.name to a listener that all brokers have"
    return [Finding("brokers", "FAIL", "; ".join(dict.fromkeys(problems)), hint)]
