"""Convert behaviours that TLC wrote (`-simulate file=PREFIX,num=N`) into the compact traces of traces.json.

    .venv/bin/python -m tests.sim.quorum_traces.convert tests/sim/quorum_traces/traces.json COUNT PREFIX_*

Of all behaviours, the COUNT with the most leaders, truncations, commits and restarts are kept. README.md has the format.
"""

from __future__ import annotations

import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.sim.quorum_traces.trace import ANSWER_OF, REQUEST_OF, Step

_TOKEN = re.compile(r"<<|>>|\|->|:>|@@|\.\.|[\[\]{}(),]|-?\d+|\"[^\"]*\"|\w+")
_STATE = re.compile(r"^STATE_\d+ == \n(.*?)\n\n", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(r"^/\\ (\w+) = ", re.MULTILINE)
_READ = {"state", "current_epoch", "voted_for", "leader", "log", "hwm", "net_messages", "hist"}
_ROLES = {"Leader", "Follower", "Candidate", "Prospective", "Unattached", "Resigned"}
_SERVERS = (1, 2, 3)


class _Value:
    """Reads one value of TLA+: records are dicts, sequences tuples, sets frozensets of frozen values."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._next = 0

    def _take(self) -> str:
        self._next += 1
        token: str = self._tokens[self._next - 1]
        return token

    def _is(self, token: str) -> bool:
        return self._next < len(self._tokens) and self._tokens[self._next] == token

    def read(self) -> Any:
        token = self._take()
        if token == "<<":
            return tuple(self._items(">>"))
        if token == "{":
            return frozenset(self._items("}"))
        if token == "[":
            return self._record()
        if token[0] == '"':
            return token[1:-1]
        if token.lstrip("-").isdigit():
            if self._is(".."):
                self._take()
                return frozenset(range(int(token), int(self._take()) + 1))
            return int(token)
        return {"TRUE": True, "FALSE": False, "Nil": None}.get(token, token)

    def _items(self, end: str) -> list[Any]:
        found = []
        while not self._is(end):
            found.append(self.read())
            if self._is(","):
                self._take()
        self._take()
        return found

    def _record(self) -> Any:
        fields = []
        while not self._is("]"):
            name = self._take()
            assert self._take() == "|->"
            fields.append((name, self.read()))
            if self._is(","):
                self._take()
        self._take()
        return Record(fields)


class Record(frozenset[Any]):
    """A record of TLA+, which can be in a set."""

    def __getitem__(self, name: str) -> Any:
        return next(value for key, value in self if key == name)

    def get(self, name: str) -> Any:
        """The field, or None."""
        return next((value for key, value in self if key == name), None)


def read_states(path: Path) -> list[dict[str, Any]]:
    """The variables that a trace needs, state by state."""
    states = []
    for body in _STATE.findall(path.read_text() + "\n\n"):
        parts = _VARIABLE.split(body)[1:]
        pairs = zip(parts[::2], parts[1::2], strict=True)
        states.append({name: _Value(text).read() for name, text in pairs if name in _READ})
    return states


def view(state: dict[str, Any], server: int) -> dict[str, Any]:
    """What a trace says of one server."""
    index = server - 1
    assert state["state"][index] in _ROLES
    return {
        "role": state["state"][index][0],
        "epoch": state["current_epoch"][index],
        "vote": state["voted_for"][index],
        "leader": state["leader"][index],
        "hwm": state["hwm"][index],
        "log": ".".join(_entry(entry) for entry in state["log"][index]),
        "refused": state["hist"]["refused"][index],
        "attached": state["hist"]["attached"][index],
    }


def _entry(entry: Any) -> str:
    return f"{entry['epoch']}{entry['value'] if entry['command'] == 'AppendCommand' else ''}"


def steps_of(states: list[dict[str, Any]]) -> list[Step]:
    """The steps, up to the first whose messages are ambiguous."""
    steps = []
    for before, after in pairwise(states):
        hist = after["hist"]
        step = Step(hist["action"], hist["server"], hist["peer"])
        if not _find_messages(step, before, after):
            break
        for server in _SERVERS:
            old, new = view(before, server), view(after, server)
            changed = {name: value for name, value in new.items() if old[name] != value}
            if changed:
                step.changes[server] = changed
        steps.append(step)
    while steps and steps[-1].action == "HandleVoteResponse":
        steps.pop()  # it may have decided an election, which the next step would show
    return steps


def _find_messages(step: Step, before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Find the message of a step, and its answer; False if the sets of messages do not show which they are."""
    consumed, sent = before["net_messages"] - after["net_messages"], after["net_messages"] - before["net_messages"]
    names = REQUEST_OF.get(step.action, ())
    if step.action == "HandleClientRequest":
        step.message = {"value": after["log"][step.server - 1][-1]["value"]}
    elif step.action == "SendFetchRequest":
        step.message = {"sent": bool(sent)}
    elif names:
        if len(consumed) != 1:
            return False
        (message,) = consumed
        # a fetch's response is found again by its request
        step.message = _facts(message["correlation"] if step.action == "HandleFetchResponse" else message, names)
    if step.action in ANSWER_OF:
        if len(sent) != 1:
            return False
        (answer,) = sent
        step.answer = _facts(answer, ANSWER_OF[step.action]) | {"unnamed": answer in after["hist"]["unnamed"]}
    return True


def _facts(message: Any, names: tuple[str, ...]) -> dict[str, Any]:
    facts = {name: message.get(name) for name in names}
    if facts.get("entries") is not None:
        facts["entries"] = ".".join(map(_entry, facts["entries"])) or None
    return facts


def score(steps: list[Step]) -> tuple[int, int]:
    """How much a trace has of what a quorum is about."""
    worth = {"BecomeLeader": 3, "DivergingFetchRequest": 6, "RestartWithState": 2, "HandleClientRequest": 1}
    commits = sum("hwm" in changed for step in steps for changed in step.changes.values())
    return sum(worth.get(step.action, 0) for step in steps) + commits, len(steps)


def main(target: str, count: str, *paths: str) -> None:
    """Write the file, one trace a line."""
    traces = [steps_of(read_states(Path(path))) for path in sorted(paths)]
    best = sorted(traces, key=score, reverse=True)[: int(count)]
    lines = [json.dumps([step.encode() for step in steps], separators=(",", ":")) for steps in best]
    Path(target).write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
