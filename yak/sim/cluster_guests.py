"""Clients of the metadata service in a simulated cluster: they register, change and unregister external brokers."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from yak.core import events
from yak.sim.cluster import Cluster
from yak.sim.cluster_books import ClusterBooks
from yak.sim.node import SimNode
from yak.sim.request_fields import build
from yak.sim.seeded_random import SeededRandom
from yak.sim.wire import read_answer, request_class, request_frame

BROKER_REGISTRATION, REGISTRATION_VERSION = 62, 4
UNREGISTER_BROKER, UNREGISTER_VERSION = 64, 0
PATIENCE_US = 3_000_000
IDS = 3
"""How many ids above those of the brokers are used."""


class Guests:
    """Sends requests from within the brokers' processes, as HTTP does, until it is stopped; in most runs it is off."""

    def __init__(self, cluster: Cluster, rng: SeededRandom, books: ClusterBooks) -> None:
        self._cluster = cluster
        self._rng = rng
        self._books = books
        self._is_stopped = not rng.chance(35)
        self._pause_us = rng.choice((200_000, 1_000_000))
        self._connections = 0
        self._waiting: dict[int, Callable[[Any], None]] = {}

    def start(self) -> None:
        """Schedule the first request."""
        if not self._is_stopped:
            for node in self._cluster.nodes:
                node.on_reply = self._answered
            self._go_on()

    def stop(self) -> None:
        """Change nothing more."""
        self._is_stopped = True

    def _go_on(self) -> None:
        if not self._is_stopped:
            self._cluster.world.after(self._rng.between(1_000, self._pause_us), self._work)

    def _work(self) -> None:
        node = self._rng.choice(self._cluster.nodes)
        node_id = self._rng.between(1, len(self._cluster.nodes) + IDS)
        if self._is_stopped or node.broker is None or not node.is_ready or node.is_paused:
            self._go_on()
            return
        guest = node.broker.image.external_brokers.get(node_id)
        if guest is not None and self._rng.chance(40):
            fields: dict[str, Any] = {"broker_id": node_id}
            self._ask(node, "guests closed", UNREGISTER_BROKER, UNREGISTER_VERSION, fields)
            return
        epoch = -1 if guest is None or self._rng.chance(20) else guest.broker_epoch
        what = "guests registered" if epoch < 0 else "guests changed"
        listener = {"name": "L", "host": f"h{self._rng.below(9)}", "port": 9092, "security_protocol": 0}
        fields = {
            "broker_id": node_id,
            "cluster_id": node.broker.image.cluster_id,
            "incarnation_id": self._rng.uuid4() if guest is None or epoch < 0 else uuid.UUID(guest.boot_id),
            "listeners": [listener],
            "features": [],
            "rack": None,
            "previous_broker_epoch": epoch,
        }
        self._ask(node, what, BROKER_REGISTRATION, REGISTRATION_VERSION, fields)

    def _ask(self, node: SimNode, what: str, api_key: int, version: int, fields: dict[str, Any]) -> None:
        self._connections -= 1
        connection_id = self._connections
        frame = request_frame(api_key, version, 0, build(request_class(api_key, version), fields))

        def settled(answer: Any | None) -> None:
            if self._waiting.pop(connection_id, None) is None:
                return
            if answer is None:
                self._books.count(f"{what}: no answer")
            elif answer.error_code == ErrorCode.none:
                self._books.count(what)
            else:
                self._books.count(f"{what}: {ErrorCode(answer.error_code).name}")
            self._go_on()

        self._waiting[connection_id] = lambda answer: settled(read_answer(api_key, version, answer)[1])
        self._cluster.world.after(PATIENCE_US, lambda: settled(None))
        node.post(events.ConnectionOpened(connection_id, f"in-process:{connection_id}", is_in_process=True))
        node.receive(connection_id, [frame])

    def _answered(self, connection_id: int, frame: bytes) -> None:
        take = self._waiting.get(connection_id)
        if take is not None:
            take(frame)
