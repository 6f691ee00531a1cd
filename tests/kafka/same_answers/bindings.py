"""ACLs are created, described and deleted, with all patterns, by filters of all kinds."""

from __future__ import annotations

import random
import time
from typing import Any, Final

from tests.kafka.same_answers.admin import _sorted
from tests.kafka.same_answers.engine import Scenario, Side
from tests.kafka.same_answers.rights import CONFIGS as RIGHTS_CONFIGS
from tests.kafka.same_answers.rights import _free

CONFIGS: Final = RIGHTS_CONFIGS
_ANY, _MATCH, _LITERAL, _PREFIXED = 1, 2, 3, 4


def bindings(side: Side, rng: random.Random) -> None:
    """Names that are prefixes of each other, and the wildcard."""
    side.hidden = frozenset(["error_message"])
    run = f"acl-{side.run}"
    names = [run, f"{run}-a", f"{run}-a-b", f"{run}-ä", "*"]
    people = ["User:u1", "User:u2", "User:*", "Group:g", "u", ""]
    try:
        for _ in range(40):
            what, version = rng.choice(["create", "create", "describe", "describe", "delete"]), rng.randint(1, 3)
            if what == "create":
                fields = {"creations": [_new(rng, names, people) for _ in range(rng.choice([1, 1, 2, 3]))]}
                answer = side.once(30, version, **fields)
                time.sleep(0.05)  # Kafka answers before its broker has them
            elif what == "describe":
                fields = _filter(rng, names, people)
                answer = side.once(29, version, **fields)
            else:
                fields = {"filters": [_filter(rng, names, people) for _ in range(rng.choice([1, 1, 2]))]}
                answer = side.once(31, version, **fields)
                time.sleep(0.05)
            side.record(f"{what} v{version} {fields}", _sorted(answer))
    finally:
        _free(side)


def _new(rng: random.Random, names: list[str], people: list[str]) -> dict[str, Any]:
    kind = rng.choice([2, 2, 2, 3, 4, 5, 6, 7])
    name = rng.choice([*names, *names, ""]) if kind != 4 else "other"  # not the cluster: the client needs it
    return {
        "resource_type": kind,
        "resource_name": name if kind != 7 else rng.choice(["User:x", "*", "x"]),
        "resource_pattern_type": rng.choice([_LITERAL] * 4 + [_PREFIXED] * 2),
        "principal": rng.choice([*people[:2] * 5, *people]),
        "host": rng.choice(["*", "*", "1.2.3.4", "::1", "host", ""]),
        "operation": rng.choice([2, 3, 4, 8, 9, 12, 13, 14]),
        "permission_type": rng.choice([2, 3, 3, 3]),
    }


def _filter(rng: random.Random, names: list[str], people: list[str]) -> dict[str, Any]:
    return {
        "resource_type_filter": rng.choice([1, 2, 2, 3, 4, 5, 7]),
        "resource_name_filter": rng.choice([None, *names, *names, ""]),
        "pattern_type_filter": rng.choice([_ANY, _MATCH, _MATCH, _LITERAL, _PREFIXED]),
        "principal_filter": rng.choice([None, None, *people]),
        "host_filter": rng.choice([None, None, "*", "1.2.3.4"]),
        "operation": rng.choice([1, 1, 2, 3, 12]),
        "permission_type": rng.choice([1, 1, 2, 3]),
    }


SCENARIOS: Final[tuple[Scenario, ...]] = (bindings,)
