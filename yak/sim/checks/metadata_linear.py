"""I14: the metadata log is one hash chain without gaps, every broker's image is on it, and controller epochs rise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.cluster.image import Image
from yak.sim.books import Violation
from yak.sim.history import Watcher

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.node import SimNode
    from yak.sim.store import SimStore


class MetadataLinear(Watcher):
    """Replays the log into an image of its own."""

    def __init__(self, store: SimStore) -> None:
        self._store = store
        self._hashes: dict[int, str] = {0: ""}
        self._image = Image()
        self._controller_epoch = 0
        self._seen: dict[int, tuple[int, int]] = {}

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:  # noqa: ARG002
        """Apply the new records, which verifies the chain. A restore begins a new one."""
        if request.script == "seed_commit":
            self._controller_epoch = self._store.state.cluster["ctl_epoch"]
            self._image = Image()
        records = self._store.records_after(self._image.offset)
        self._image = self._image.apply_all(records)[0]
        for record in records:
            self._hashes[record.offset] = record.chain_hash
            if record.kind == "ControllerChange":
                epoch = int(str(record.payload["controller_epoch"]))
                if epoch <= self._controller_epoch:
                    raise Violation(f"I14: controller epoch {epoch} after {self._controller_epoch}")
                self._controller_epoch = epoch

    def stepped(self, node: SimNode) -> None:
        """A broker's image is on this chain, and never goes back within one incarnation."""
        assert node.broker is not None
        image = node.broker.image
        life, offset = self._seen.get(node.node_id, (0, 0))
        if image.offset == offset and life == node.starts_count:
            return
        if life == node.starts_count and image.offset < offset:
            raise Violation(f"I14: broker {node.node_id}: the image went from {offset} to {image.offset}")
        self._seen[node.node_id] = (node.starts_count, image.offset)
        if self._hashes.get(image.offset) != image.chain_hash:
            raise Violation(f"I14: broker {node.node_id}: its image at {image.offset} is of another history")

    def compare_content(self, nodes: list[SimNode]) -> None:
        """At the end of a run, compare the content of every image that is at the end of the log."""
        wanted = self._image.without_position()
        for node in nodes:
            image = None if node.broker is None else node.broker.image
            if image is not None and image.offset == self._image.offset and image.without_position() != wanted:
                raise Violation(f"I14: broker {node.node_id}: same records, another content")
