"""Hidden aliases: singular names of commands, earlier names of renamed commands, and Kafka's own spelling."""

from yak.errors import UsageError

_SINGULAR = {
    noun: f"{noun}s"
    for noun in ("topic", "group", "transaction", "broker", "user", "acl", "token", "quota", "fault", "cert")
}
_NODE_ACTIONS = ("add", "kill", "pause", "resume", "restart")


def resolve(arguments: list[str]) -> list[str]:
    """The arguments of a command line in today's form: `up --down` becomes `down`, `log --at 3` `metadata snapshot --at 3`."""
    name, *rest = arguments
    if name in _SINGULAR:
        return [_SINGULAR[name], *rest]
    if name == "log":
        is_state = any(word == "--at" or word.startswith("--at=") for word in rest)
        return ["metadata", "snapshot" if is_state else "log", *rest]
    if name == "up":
        if "--down" in rest:
            rest.remove("--down")
            return ["down", *rest]
        action = next((word for word in rest if word in _NODE_ACTIONS), None)
        if action is not None:
            rest.remove(action)
            return ["node", action, *rest]
    return arguments


def names_as_arguments(
    arguments: list[str], verb: str, options: tuple[str, ...], example: str
) -> tuple[list[str], list[str]]:
    """The values of an option of Kafka's tools such as `--topic`, and the other arguments without the verb.

    Raises UsageError (`usage`) for an option without a value.
    """
    names: list[str] = []
    rest: list[str] = []
    following = iter(arguments)
    for word in following:
        if word in options:
            name = next(following, None)
            if name is None:
                raise UsageError("usage", f"{word} needs a value", try_=(example,))
            names.append(name)
        elif word.startswith(f"{options[0]}="):
            names.append(word.removeprefix(f"{options[0]}="))
        elif word != verb:
            rest.append(word)
    return names, rest
