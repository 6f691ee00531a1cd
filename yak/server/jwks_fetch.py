"""Jobs that fetch a JSON Web Key Set over HTTP, for `yak.broker.token_verifier`."""

from dataclasses import dataclass

from yak.http_fetch import fetch
from yak.ports.disk import Disk


@dataclass(frozen=True, slots=True)
class WebFetch:
    """A plan to fetch a document; it waits for the network, and leaves the disk alone."""

    url: str

    def run(self, disk: Disk) -> bytes:  # noqa: ARG002
        """The document. Raises OSError."""
        return fetch(self.url)
