"""The Kafka release that a broker answers as (`yak.as.kafka`): which APIs and versions a client gets.

Other brokers, this process's HTTP and YAK's own commands get all versions: they are part of YAK, and not under test.
"""

from __future__ import annotations

from typing import Final

from yak.broker.call import Call
from yak.config.kafka_releases import RELEASES, max_versions

_OWN_CLIENT_ID: Final = "yak"
_FIRST_WITH_FALLBACK: Final = RELEASES.index("2.4")
"""KIP-511: the v0 answer to an unknown version of ApiVersions lists versions. Before, it was empty."""
_FIRST_WITH_FEATURES: Final = RELEASES.index("4.0")
"""YAK's features are those that a new cluster of Kafka 4 has finalized (KIP-848, KIP-890, KIP-966)."""


class KafkaRelease:
    """The limits of one release, by its name such as `2.8`. Raises ValueError for an unknown one."""

    __slots__ = ("falls_back", "has_features", "max_versions")

    def __init__(self, name: str) -> None:
        self.max_versions = max_versions(name)
        place = RELEASES.index(name)
        self.falls_back = place >= _FIRST_WITH_FALLBACK
        """Whether ApiVersions of an unknown version is answered with the versions, not only with the error."""
        self.has_features = place >= _FIRST_WITH_FEATURES

    def limits(self, call: Call) -> bool:
        """Whether the release's versions hold for this request."""
        connection = call.connection
        return connection.proven is None and not connection.is_in_process and call.client_id != _OWN_CLIENT_ID

    def refuses(self, call: Call) -> bool:
        """Whether a broker of the release does not know this API or version."""
        return call.version > self.max_versions.get(call.api_key, -1) and self.limits(call)
