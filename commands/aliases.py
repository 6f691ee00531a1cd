"""Hidden aliases: singular names of commands, and the earlier words of commands that were renamed."""

_SINGULAR = {"topic": "topics", "group": "groups", "broker": "brokers"}
_NODE_ACTIONS = ("add", "kill", "pause", "resume", "restart")


def resolve(words: list[str]) -> list[str]:
    """The words of a command line in today's form: `up --down` becomes `down`, `log --at 3` `metadata snapshot --at 3`."""
    name, *rest = words
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
    return words
