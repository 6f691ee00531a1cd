"""Arguments of `yak groups`: states and types, and the syntax of other tools."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.client.groups.asking import GroupBrokers
    from yak.commands.options import Globals

VERBS = {
    "--list": "list",
    "--describe": "describe",
    "--members": "members",
    "--reset-offsets": "reset",
    "--delete-offsets": "delete",
    "--delete": "delete",
}
ALIASES = {"ls": "list", "rm": "delete", "desc": "describe", "show": "describe", "seek": "reset"}


def rewrite(words: list[str]) -> list[str]:
    """Translate `--describe --group audit` of kafka-consumer-groups.sh to `describe audit`; keep other arguments."""
    if words and words[0] in ALIASES:
        return [ALIASES[words[0]], *words[1:]]
    if not words or not words[0].startswith("--"):
        return words
    verb = next((word for word in words if word in VERBS), None)
    if verb is None:
        return words
    rest: list[str] = []
    groups: list[str] = []
    following = iter(words)
    for word in following:
        if word == verb:
            continue
        if word in ("--group", "-g"):
            name = next(following, None)
            if name is None:
                raise UsageError("usage", f"{word} needs a value", try_=(f"yak groups {VERBS[verb]} GROUP",))
            groups.append(name)
        elif word.startswith("--group="):
            groups.append(word.removeprefix("--group="))
        elif word == "--members" and verb == "--describe":
            verb = word
        else:
            rest.append(word)
    return [VERBS[verb], *groups, *rest]


def connect(g: "Globals") -> "GroupBrokers":
    """A context manager with a connection to the cluster. Raises YakError when it cannot be reached."""
    from yak.client.admin import Admin
    from yak.client.groups.asking import GroupBrokers

    return GroupBrokers(Admin(g.bootstrap_servers, timeout_ms=g.timeout_ms, verbose=g.verbose))


def chosen(texts: Sequence[str] | None, known: Sequence[str], what: str, whose: str = "groups") -> tuple[str, ...]:
    """Values in Kafka's spelling, from repeated or comma-separated ones in any case. Raises UsageError (`usage`)."""
    spelt = {each.lower(): each for each in known}
    words = [word.strip() for text in texts or () for word in text.split(",") if word.strip()]
    for word in words:
        if word.lower() not in spelt:
            raise UsageError("usage", f'"{word}" is not a {what} of {whose}', why=f"{what}s are {', '.join(known)}")
    return tuple(dict.fromkeys(spelt[word.lower()] for word in words))
