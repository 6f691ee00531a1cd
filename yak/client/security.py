"""How this process's clients connect: plain, or under TLS with these certificates.

The command line sets it once, from the settings and the context, before the first connection. librdkafka's handles and
our own connections use the same.
"""

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yak.errors import UsageError

if TYPE_CHECKING:
    import ssl  # imported when it is needed: commands start without it


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """Kafka's security protocol, and files in PEM, which count for HTTPS too."""

    protocol: str = "PLAINTEXT"
    ca_location: str | None = None
    """Trusted certificates; None: the system's."""
    certificate_location: str | None = None
    key_location: str | None = None
    """None: the key is in the certificate's file."""
    key_password: str | None = None
    checks_host_name: bool = True

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    def librdkafka(self) -> dict[str, Any]:
        """The settings under librdkafka's names; none for plain connections."""
        if not self.uses_tls:
            return {}
        given = {
            "security.protocol": self.protocol,
            "ssl.ca.location": self.ca_location,
            "ssl.certificate.location": self.certificate_location,
            "ssl.key.location": self.key_location or self.certificate_location,
            "ssl.key.password": self.key_password,
            "ssl.endpoint.identification.algorithm": "https" if self.checks_host_name else "none",
        }
        return {name: value for name, value in given.items() if value is not None}

    def secured(self, sock: socket.socket, host: str) -> socket.socket:
        """The connected socket, under TLS if connections are; closes it otherwise.

        Raises UsageError (`client-certificate`), ssl.SSLError, OSError.
        """
        if not self.uses_tls:
            return sock
        try:
            return self._context().wrap_socket(sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise

    def http_context(self) -> "ssl.SSLContext | None":
        """The context for HTTPS, with the same authority and certificate; None: the system's authorities are trusted.

        Raises UsageError (`client-certificate`).
        """
        return self._context() if self.ca_location or self.certificate_location else None

    def _context(self) -> "ssl.SSLContext":
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.checks_host_name
        file = self.ca_location
        try:
            if file is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(file)
            if self.certificate_location is not None:
                file = self.certificate_location
                password = self.key_password or ""  # without one OpenSSL would ask the terminal
                context.load_cert_chain(file, self.key_location, password)
        except OSError as error:
            raise UsageError(
                "client-certificate",
                f"{file} cannot be used for TLS",
                why=error.strerror if not isinstance(error, ssl.SSLError) and error.strerror else f"{error}",
                try_=(f"yak certs show {file}", "yak config show --origin"),
            ) from error
        return context


_in_force = ClientSecurity()


def use(security: ClientSecurity) -> None:
    """Connect in this way from now on."""
    global _in_force  # noqa: PLW0603 - one command, one cluster
    _in_force = security


def in_force() -> ClientSecurity:
    """How to connect."""
    return _in_force


def explain_tls(error: OSError) -> str:
    """Why TLS failed; empty for another error."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its TLS certificate is refused: {error.verify_message}"
    if not isinstance(error, ssl.SSLError):
        return ""
    reason = getattr(error, "reason", None) or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE") or isinstance(error, ssl.SSLEOFError):
        return "it does not speak TLS, which security_protocol requires"
    return f"the TLS handshake fails: {reason.lower().replace('_', ' ')}"


def speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    """Whether an address answers a TLS handshake, whatever its certificate; never raises."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent to it
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as sock, context.wrap_socket(sock):
            return True
    except OSError:
        return False
