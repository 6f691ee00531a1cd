"""The answer of the script `seed_status`: a restore's progress, for brokers and `yak cluster restore`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from yak.ids import BrokerEpoch, MetadataOffset, NodeId


@dataclass(slots=True, frozen=True)
class SeedStatus:
    """A restore under way; `seed_nonce` is empty when there is none.

    `offset`, `incarnation`, `brokers` (node to epoch and boot id) and `acted` (node to the newest epoch in use) are the
    store's own state when it began. `offers` has the number of chunks of each node's offer.
    """

    seed_nonce: str = ""
    cluster_id: str = ""
    begun_by: NodeId = -1
    age_ms: int = 0
    offset: MetadataOffset = 0
    incarnation: int = 0
    parents: tuple[str, ...] = ()
    """The ids of the store's own incarnation and of those that it came from."""
    offers_digest: str = ""
    is_committing: bool = False
    brokers: Mapping[NodeId, tuple[BrokerEpoch, str]] = field(default_factory=dict)
    acted: Mapping[NodeId, BrokerEpoch] = field(default_factory=dict)
    offers: Mapping[NodeId, int] = field(default_factory=dict)
    digests: Mapping[NodeId, str] = field(default_factory=dict)
    headers: Mapping[NodeId, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> "SeedStatus":
        """Parse the script's answer."""
        if not value.get("seed_nonce"):
            return cls()
        headers = {int(node): header for node, header in sorted(value["offers"].items(), key=lambda item: int(item[0]))}
        return cls(
            seed_nonce=str(value["seed_nonce"]),
            cluster_id=str(value["cluster_id"]),
            begun_by=int(value["begun_by"]),
            age_ms=int(value["age_ms"]),
            offset=int(value["offset"]),
            incarnation=int(value["incarnation"]),
            # A store whose scripts are older lacks it.
            parents=tuple(filter(None, str(value.get("parents", "")).split(","))),
            offers_digest=str(value["offers_digest"]),
            is_committing=bool(value["is_committing"]),
            brokers={int(node): (int(held[0]), str(held[1])) for node, held in dict(value["brokers"]).items()},
            # A restore begun by an older version lacks it: then the newest epoch counts as in use.
            acted={int(node): int(held[2]) for node, held in dict(value["brokers"]).items() if len(held) > 2},
            offers={node_id: int(header["chunks"]) for node_id, header in headers.items()},
            digests={node_id: str(header["digest"]) for node_id, header in headers.items()},
            headers=headers,
        )

    def missing(self) -> list[NodeId]:
        """Brokers known to the store or to an offer that have not offered yet."""
        known = {node_id: epoch for node_id, (epoch, _boot_id) in self.brokers.items()}
        gone: dict[NodeId, BrokerEpoch] = {}
        for header in self.headers.values():
            for node_id, epoch in _epochs(header["knows"]).items():
                known[node_id] = max(known.get(node_id, 0), epoch)
            for node_id, epoch in _epochs(header["unregistered"]).items():
                gone[node_id] = max(gone.get(node_id, 0), epoch)
        return sorted(n for n, epoch in known.items() if n not in self.headers and gone.get(n, -1) < epoch)


def _epochs(value: Any) -> dict[NodeId, BrokerEpoch]:
    """Parse `{"1": 17}`; an empty map may come as a list."""
    return {int(node): int(epoch) for node, epoch in value.items()} if isinstance(value, Mapping) else {}
