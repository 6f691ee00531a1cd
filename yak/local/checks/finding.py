"""The result of one check."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "FAIL", "skip"]
"""`skip`: it could not be known here, and why is said."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw. `try_` is a line to type or do, for `warn` and `FAIL`."""

    check: str
    state: State
    detail: str
    try_: str = ""

    def as_json(self) -> dict[str, str]:
        """The machine-readable form; these keys stay."""
        return {"check": self.check, "state": self.state, "detail": self.detail, "try": self.try_}
