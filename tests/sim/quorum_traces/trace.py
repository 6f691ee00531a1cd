"""One step of a trace, and its line in traces.json. README.md has the format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

REQUEST_OF: Final = {
    "HandleVoteRequest": ("pre_vote", "replica_epoch", "last_log_epoch", "last_log_offset"),
    "HandleVoteResponse": ("pre_vote", "replica_epoch", "vote_granted", "leader", "error"),
    "AcceptBeginQuorumRequest": ("replica_epoch",),
    "SendFetchRequest": ("sent",),
    "AcceptFetchRequest": ("replica_epoch", "fetch_offset", "last_fetched_epoch"),
    "DivergingFetchRequest": ("replica_epoch", "fetch_offset", "last_fetched_epoch"),
    "RejectFetchRequest": ("replica_epoch", "fetch_offset", "last_fetched_epoch"),
    "HandleFetchResponse": ("replica_epoch", "fetch_offset", "last_fetched_epoch"),
    "HandleClientRequest": ("value",),
}
"""The facts of the message of an action, by the names of the specification."""
ANSWER_OF: Final = {
    "HandleVoteRequest": ("replica_epoch", "vote_granted", "leader", "error", "unnamed"),
    "AcceptFetchRequest": ("replica_epoch", "leader", "hwm", "entries", "unnamed"),
    "DivergingFetchRequest": ("replica_epoch", "leader", "diverging_epoch", "diverging_end_offset", "unnamed"),
    "RejectFetchRequest": ("replica_epoch", "leader", "error", "unnamed"),
}
"""The facts of the answer to it."""
_CODES: Final = {
    "HandleVoteRequest": "vq",
    "HandleVoteResponse": "vr",
    "AcceptBeginQuorumRequest": "bq",
    "ResendBeginQuorumEpochRequest": "rb",
    "SendFetchRequest": "sf",
    "AcceptFetchRequest": "af",
    "DivergingFetchRequest": "df",
    "RejectFetchRequest": "rf",
    "HandleFetchResponse": "fr",
    "HandleClientRequest": "cl",
    "VoterFetchTimeout": "ft",
    "VoterElectionTimeout": "et",
    "ConcludePreVote": "cp",
    "BecomeLeader": "bl",
    "CheckQuorumResign": "rs",
    "RestartWithState": "rw",
    "ChangeNetworkConnectivity": "cc",
}
_ACTIONS: Final = {code: action for action, code in _CODES.items()}
_FIELDS: Final = {
    "r": "role",
    "e": "epoch",
    "v": "vote",
    "l": "leader",
    "h": "hwm",
    "g": "log",
    "d": "refused",
    "a": "attached",
}
_LETTERS: Final = {name: letter for letter, name in _FIELDS.items()}


@dataclass(slots=True)
class Step:
    """An action of the specification, the message that it consumed, its answer, and what changed in each server.

    A log is text: its entries' epochs, with the value of a client's entry, as `1.1v3.2`.
    """

    action: str
    server: int
    peer: int
    message: dict[str, Any] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)
    changes: dict[int, dict[str, Any]] = field(default_factory=dict)

    def encode(self) -> str:
        """The line."""
        parts = [f"{_CODES[self.action]}{self.server}{self.peer}"]
        if self.message:
            parts.append("=" + ",".join(_text(self.message[name]) for name in REQUEST_OF[self.action]))
        if self.answer:
            parts.append(">" + ",".join(_text(self.answer[name]) for name in ANSWER_OF[self.action]))
        for server, changed in self.changes.items():
            parts += [f"{server}{_LETTERS[name]}{_text(value)}" for name, value in changed.items()]
        return " ".join(parts)

    @classmethod
    def decode(cls, line: str) -> Step:
        """Read a line."""
        head, *parts = line.split(" ")
        step = cls(_ACTIONS[head[:2]], int(head[2]), int(head[3]))
        for part in parts:
            if part[0] == "=":
                step.message = _named(REQUEST_OF[step.action], part[1:])
            elif part[0] == ">":
                step.answer = _named(ANSWER_OF[step.action], part[1:])
            else:
                name = _FIELDS[part[1]]
                step.changes.setdefault(int(part[0]), {})[name] = _value(name, part[2:])
        return step


def _named(names: tuple[str, ...], text: str) -> dict[str, Any]:
    return {name: _value(name, part) for name, part in zip(names, text.split(","), strict=True)}


def _text(value: Any) -> str:
    return {None: "-", True: "t", False: "f"}[value] if value is None or isinstance(value, bool) else str(value)


def _value(name: str, text: str) -> Any:
    if text in ("-", "t", "f"):
        return {"-": None, "t": True, "f": False}[text]
    return text if name in ("log", "entries") or not text.isdigit() else int(text)
