"""What replication needs of the cluster's metadata: a broker changes it for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from yak.cluster.broker_lifecycle import BrokerLifecycle
from yak.errors import PeerError
from yak.seams.metadata_store import StoreRequest


class OwnChanges(Protocol):
    """The cluster's metadata, as far as a broker changes it for itself."""

    @property
    def lifecycle(self) -> BrokerLifecycle:
        """The registration of this broker."""

    def begin_own(
        self, requests: Sequence[StoreRequest], done: Callable[[PeerError | None, tuple[dict[str, Any], ...]], None]
    ) -> int:
        """Send one change; `done(error, values)` follows. Raises PeerError when it cannot be sent."""
