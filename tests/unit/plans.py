"""A plan for tests of whoever runs plans."""

from collections.abc import Callable
from dataclasses import dataclass

from yak.ports.disk import Disk


@dataclass(frozen=True, slots=True)
class Calls:
    """A plan that calls a function."""

    work: Callable[[], object]

    def run(self, disk: Disk) -> object:
        return self.work()
