"""An administrator that moves the metadata of a simulated cluster between Redis and the quorum, again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from yak.config.broker_config_table import METADATA_STORE_TARGET
from yak.sim.cluster_admin import INCREMENTAL_ALTER_CONFIGS

if TYPE_CHECKING:
    from yak.sim.routing import Channel
    from yak.sim.store import MovingStore

_BROKER = 4
_VERSION = 1
_RETRY_US = 200_000
_AGAIN_US = 5_000_000
_MOVES_MAX = 5


class StoreMoves:
    """Sets `yak.metadata.store.target` now and then; the end of a run waits until the metadata are at the last target."""

    def __init__(self, channel: Channel, store: MovingStore) -> None:
        self._channel, self._store, self._rng = channel, store, channel.rng
        self._left = self._rng.between(1, _MOVES_MAX)
        self._pause_us = self._rng.choice((100_000, 1_000_000, 4_000_000))
        self._target = ""
        self._accepted = ""
        self._is_asking = False

    def start(self) -> None:
        self._channel.world.after(self._rng.between(1_000, self._pause_us), self._move)

    def settle(self) -> None:
        """Begin no more moves; the last one must end.

        An earlier call may reach Redis late and set another target, so the request is repeated until the metadata are there.
        """
        self._left = 0
        if self._target and not self._is_asking and self.trouble() is not None:
            self._ask()
        self._channel.world.after(_AGAIN_US, self.settle)

    def trouble(self) -> str | None:
        """Where the metadata are not yet; None if they are where they shall be."""
        if self._target != self._accepted:
            return f"the target {self._target} of the metadata was not accepted"
        is_there = not self._target or self._store.is_in_quorum == (self._target == "raft")
        if not is_there or self._store.state.cluster.get("state") != "LIVE":
            return f"the metadata are not in {self._target or 'redis'}"
        return None

    def _move(self) -> None:
        if self._left > 0:
            self._left -= 1
            # mostly to the other store, and sometimes back before the move is over
            is_in_quorum = self._store.is_in_quorum != self._rng.chance(20)
            self._target = "redis" if is_in_quorum else "raft"
            if not self._is_asking:
                self._ask()
            self.start()

    def _ask(self) -> None:
        target = self._target
        self._is_asking = True
        config = {"name": METADATA_STORE_TARGET, "config_operation": 0, "value": target}
        resource = {"resource_type": _BROKER, "resource_name": "", "configs": [config]}
        fields = {"resources": [resource], "validate_only": False}

        def done(answer: Any | None) -> None:
            self._is_asking = False
            if answer is not None and answer.responses[0].error_code == ErrorCode.none:
                self._accepted = target
            if self._accepted != self._target:
                self._channel.world.after(_RETRY_US, self._again)

        self._channel.send(INCREMENTAL_ALTER_CONFIGS, _VERSION, fields, done)

    def _again(self) -> None:
        if not self._is_asking and self._accepted != self._target:
            self._ask()
