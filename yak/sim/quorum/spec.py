"""The specification of a run of the quorum: a seed, and restrictions of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from yak.sim.spec import Spec


@dataclass(frozen=True, slots=True)
class QuorumSpec(Spec):
    """One run. The seed determines everything that is not set here."""

    subcommand: ClassVar = "quorum"
    brokers: int = 0
