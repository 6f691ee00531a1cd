"""The options of `yak ui --web`, and their checks."""

import ipaddress
import socket
import urllib.parse
from dataclasses import dataclass
from typing import Final

from yak.errors import UsageError
from yak.limits import UI_SESSIONS_MAX

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
                f"yak ui --web does not listen on {self.host} for everybody",
                why="whoever reaches that address could delete topics and read files as you",
                try_=(
                    f"yak ui --web --host {self.host} --token SECRET     only who has the token",
                    f"yak ui --web --host {self.host} --readonly         everybody may look, nobody may change",
                ),
            )

    def warning(self) -> str | None:
        """A warning about risky options; None if there is none."""
        if is_loopback(self.host):
            return None
        if self.token is None:
            return f"everybody who reaches {self.host} can read this cluster's messages (--readonly without --token)"
        if len(self.token) < _TOKEN_LENGTH_ADVISED:
            return f"a token of {len(self.token)} characters can be guessed; {_TOKEN_LENGTH_ADVISED} are better"
        return "nothing is encrypted on the way: use it in a network that you trust, or behind a proxy with TLS"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host's addresses. Raises UsageError (`unknown-host`)."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            "unknown-host", f"cannot listen on {host}", why=f"the name has no address ({reason})"
        ) from error
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)


def address_of(host: str, port: int, token: str | None = None) -> str:
    """The address to open on this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host)  # noqa: S104 - it is only read here
    shown = name or (f"[{host}]" if ":" in host else host)
    query = "" if token is None else f"?token={urllib.parse.quote(token, safe='')}"
    return f"http://{shown}:{port}/{query}"
