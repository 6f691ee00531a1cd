"""A listener with TLS: whether the handshake succeeds, and how long the certificate is valid."""

import socket
import ssl
import time

from yak.client.reach import split_address
from yak.client.security import explain_tls, in_force
from yak.local.checks.finding import Finding

_WARNING_DAYS = 30
_DAY_S = 86_400


def check_tls(address: str, timeout_s: float) -> Finding:
    """Shake hands as yak's commands do: trust, host name and dates of the broker's certificate are checked by that.

    Raises UsageError (`client-certificate`).
    """
    host, port = split_address(address)
    try:
        sock = in_force().secured(socket.create_connection((host, port), timeout=timeout_s), host)
    except OSError as error:
        hint = f"openssl s_client -connect {address} -showcerts   shows the certificate"
        return Finding("tls", "FAIL", f"{address}: {explain_tls(error) or error}", hint)
    assert isinstance(sock, ssl.SSLSocket)
    with sock:
        certificate = sock.getpeercert() or {}
        version = sock.version()
    until_s = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    left_days = int((until_s - time.time()) // _DAY_S)
    names = ", ".join(str(name) for _, name in certificate.get("subjectAltName", ()))  # type: ignore[str-unpack]
    until = time.strftime("%Y-%m-%d", time.gmtime(until_s))
    detail = f"{address} speaks {version}; its certificate names {names or 'no host'} and is valid until {until}"
    if left_days < _WARNING_DAYS:
        return Finding("tls", "warn", f"{detail}, {left_days} days", "yak certs create DIR --force   renews it")
    return Finding("tls", "ok", detail)
