"""How `yak ui` logs in over HTTP: with the token, else as the user of the Kafka login."""

import base64
from collections.abc import Iterator

import httpx

from yak.client.login import current_login
from yak.config.listeners import is_loopback


class HttpLogin(httpx.Auth):
    """The Authorization header. HTTP Basic sends the password, so it goes to HTTPS and to this machine only."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]
        login = current_login()
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        elif login is not None and (request.url.scheme == "https" or is_loopback(request.url.host)):
            credentials = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
            request.headers["Authorization"] = f"Basic {credentials}"
        yield request
