"""The result of one check."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "FAIL", "skip"]
"""`skip`: the check was impossible; the detail says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `try_` is a line to type or do, for `warn` and `FAIL`."""

    check: str
    state: State
    detail: str
    try_: str = ""

    def as_json(self) -> dict[str, str]:
        """The JSON contract: these keys stay."""
        return {"check": self.check, "state": self.state, "detail": self.detail, "try": self.try_}
