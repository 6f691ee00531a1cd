"""What a room of the broker gets in place of the broker."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Literal

from yak.cluster.image import Image
from yak.config.broker_configs import BrokerConfig
from yak.core.events import Effect, Notice
from yak.core.jobs import Jobs
from yak.core.timers import Timers
from yak.faults.rules import FaultRules


@dataclass(slots=True)
class Clock:
    """The time of the current step, in ms since the epoch."""

    now_ms: int
    """Never goes back: for due times."""
    ahead_ms: int = 0
    """How far the wall clock is ahead of `now_ms`."""

    @property
    def wall_ms(self) -> int:
        """The wall clock: for timestamps and comparisons with them. It may go back."""
        return self.now_ms + self.ahead_ms


@dataclass(slots=True)
class Context:
    """The time, the configs, the metadata, and the ways to act: all that one room needs of the others."""

    clock: Clock
    config: BrokerConfig
    image: Image
    """The cluster's metadata that this broker has on its disk."""
    emit: Callable[[Effect], None]
    """Adds an effect to those that the step returns."""
    jobs: Jobs
    timers: Timers
    faults: FaultRules = field(default_factory=FaultRules)
    """The faults that tests inject; empty unless `yak.fault.injection.enable`."""
    is_stopping: bool = False
    """This broker leads no partition any more: it is in controlled shutdown, and other brokers take over."""
    is_closing: bool = False
    """The logs are being closed: no flush and no truncation begins any more."""

    def after(self, key: Hashable, wait_ms: int, action: Callable[[], None]) -> None:
        """Run `action` after this time, once. A timer that the key has is moved."""
        self.timers.arm(key, self.clock.now_ms + wait_ms, action)

    def within(self, key: Hashable, wait_ms: int, action: Callable[[], None]) -> None:
        """As `after`, unless the key's timer is due earlier."""
        self.timers.arm_at_the_latest(key, self.clock.now_ms + wait_ms, action)

    def notice(self, level: Literal["debug", "info", "warning", "error"], event: str, **fields: object) -> None:
        """Write a line to the log."""
        self.emit(Notice(level, event, fields))
