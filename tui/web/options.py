"""The options of `yak ui --web`, their checks, and the listening socket."""

import errno
import ipaddress
import socket
import time
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yak.errors import UsageError
from yak.limits import UI_SESSIONS_MAX
from yak.local.ports import addresses, cannot_listen, port_taken_error

if TYPE_CHECKING:
    import ssl

HOST: Final = "127.0.0.1"
PORT: Final = 8090
TOKEN_VARIABLE: Final = "YAK_UI_TOKEN"  # noqa: S105 - a name
"""The variable for a token that must not appear in the list of processes. Children do not get it."""
_TOKEN_LENGTH_ADVISED: Final = 12


@dataclass(frozen=True, slots=True)
class WebOptions:
    """The server's address and access rules."""

    host: str = HOST
    port: int | None = None
    """None: PORT, or the next free one; 0: any."""
    token: str | None = None
    """The token that every request needs; None: no authentication."""
    readonly: bool = False
    """The apps are read-only, so uploads are refused too."""
    sessions_max: int = UI_SESSIONS_MAX
    certificate: str | None = None
    """File in PEM with the private key and its certificates, as a broker's `ssl.keystore.location`; None: no TLS."""

    def check(self) -> None:
        """Raise UsageError (`open-to-all`, `bad-token`, `unknown-host`) for unsafe or invalid options."""
        if self.token is not None and (not self.token or not self.token.isprintable() or not self.token.isascii()):
            raise UsageError(
                "bad-token",
                "the token of --token is empty or cannot be typed into an address",
                why="it must be printable ASCII, or the browser could not send it",
                try_=('yak ui --web --token "$(openssl rand -hex 16)"',),
            )
        if not self.token and not self.readonly and not is_loopback(self.host):
            raise UsageError(
                "open-to-all",
                f"yak ui --web does not listen on {self.host} without a token",
                why="any client that reaches that address could delete topics and read files as you",
                try_=(
                    f"yak ui --web --host {self.host} --token SECRET     only who has the token",
                    f"yak ui --web --host {self.host} --readonly         read access for all clients, changes for none",
                ),
            )

    def warning(self) -> str | None:
        """A warning about risky options; None if there is none."""
        if is_loopback(self.host):
            return None
        if self.token is None:
            return f"any client that reaches {self.host} can read this cluster's records (--readonly without --token)"
        if len(self.token) < _TOKEN_LENGTH_ADVISED:
            return f"a token of {len(self.token)} characters can be guessed; {_TOKEN_LENGTH_ADVISED} are better"
        if self.certificate is not None:
            return None
        return "nothing is encrypted on the way: use --certificate FILE, or a network that you trust"

    def context(self) -> "ssl.SSLContext | None":
        """The TLS of the server; None without a certificate.

        Raises UsageError (`tls-config`) and StartRefused (`yak.security.key_stores`) for a file that cannot be used.
        """
        if self.certificate is None:
            return None
        from yak.security.tls import TlsSettings, make_contexts

        settings = TlsSettings.of_listener("ui", {"ssl.keystore.location": self.certificate})
        return make_contexts(settings, "yak ui --web", time.time_ns() // 1_000_000).accepting


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host's addresses. Raises UsageError (`unknown-host`)."""
    return all(ipaddress.ip_address(address[0].partition("%")[0]).is_loopback for _, address in addresses(host, 0))


def address_of(host: str, port: int, token: str | None = None, *, is_encrypted: bool = False) -> str:
    """The address to open on this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 - not bound
    query = "" if token is None else f"?token={urllib.parse.quote(token, safe='')}"
    return f"{'https' if is_encrypted else 'http'}://{name}:{port}/{query}"


_TRIED_MAX: Final = 100
_FREE_PORTS: Final = (
    "yak ui --web              8090, or the next free port",
    "yak ui --web --port 0     any free port",
)


def bind(host: str, port: int | None) -> socket.socket:
    """Listen on a port, on any (0), or on PORT or the next free one (None).

    Raises UsageError: `unknown-host`, `port-in-use`, `cannot-listen`.
    """
    wanted = (port,) if port is not None else (*range(PORT, PORT + _TRIED_MAX), 0)
    for candidate in wanted:
        try:
            return _listen(host, candidate)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise cannot_listen(host, candidate, error, "yak ui --web") from error
            if candidate == wanted[-1]:
                raise port_taken_error(host, candidate, _FREE_PORTS) from error
    raise AssertionError("the last one either listens or raises")


def _listen(host: str, port: int) -> socket.socket:
    # IPv4 first for names with both, such as `localhost`: the printed address is 127.0.0.1.
    family, address = min(addresses(host, port))
    return socket.create_server(address, family=family, backlog=128)
