"""Warnings of a start: listeners that other machines reach without a login or a certificate, and passwords in clear."""

from collections.abc import Iterator
from typing import Final

from yak.config.listeners import bracketed, is_loopback, without_authentication
from yak.server.options import ServeOptions

_HINT: Final = "use SASL_SSL or ssl.client.auth=required (docs/security.md), or bind 127.0.0.1"


def exposure(options: ServeOptions, http_port: int) -> Iterator[tuple[str, dict[str, object]]]:
    """The warnings as event and fields, at most one of each kind. `http_port` is 0 without HTTP."""
    found = [str(each) for each in without_authentication(options.broker_settings())]
    http_is_open = http_port and not is_loopback(options.host)
    if http_is_open and options.http_authentication == "none":
        found.append(f"{'https' if options.http_has_tls else 'http'}://{bracketed(options.host)}:{http_port}")
    if found:
        yield (
            "listeners-without-authentication",
            {"listeners": ", ".join(found), "why": "other machines can connect without a login", "hint": _HINT},
        )
    if http_is_open and options.http_authentication == "basic" and not options.http_has_tls:
        yield (
            "http-passwords-in-clear",
            {"why": "HTTP Basic sends passwords unencrypted", "hint": "-c yak.http.security.protocol=SSL"},
        )
