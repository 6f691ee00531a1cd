"""One HTTP request with bounds on time and size: for the keys and the tokens of OAUTHBEARER.

It blocks, so a broker calls it in a job's thread. Certificates are checked with the system's trust store (`SSL_CERT_FILE`
names another one). Redirects are not followed: a secret or a key set must come from the host that the config names.
"""

from __future__ import annotations

import http.client
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_TIMEOUT_S: Final = 10.0
_BYTES_MAX: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 16


def fetch(
    url: str,
    *,
    data: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> bytes:
    """The body of the answer to a GET, or to a POST with `data`; 1 MiB at most.

    Raises OSError for an answer other than 200, one that is too large, and one that does not come in time.
    """
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    deadline = time.monotonic() + timeout_s
    try:
        request = urllib.request.Request(url, data, {"Accept": "application/json", **(headers or {})})  # noqa: S310
        response = opener.open(request, timeout=timeout_s)
        if response is None:
            raise OSError("only http: and https: URLs can be fetched")
        with response:
            body = bytearray()
            while chunk := response.read1(_CHUNK_BYTES):
                body += chunk
                if len(body) > _BYTES_MAX:
                    raise OSError(f"the answer has more than {_BYTES_MAX} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the answer did not end within {timeout_s:g} s")
            return bytes(body)
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(f"no valid answer: {type(error).__name__}: {error}") from None


@dataclass(frozen=True, slots=True)
class WebFetch:
    """A plan of `yak.broker.token_verifier` to fetch a document; it waits for the network, and leaves the disk alone."""

    url: str

    def run(self, disk: object) -> bytes:  # noqa: ARG002
        """The document. Raises OSError."""
        return fetch(self.url)
