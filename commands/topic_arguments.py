"""Arguments of `yak topics` in the syntax of other tools, and `NAME=VALUE` lists."""

from yak.errors import UsageError

VERBS = ("list", "describe", "create", "alter", "delete")
ALIASES = {"ls": "list", "rm": "delete", "desc": "describe", "show": "describe"}


def rewrite(words: list[str]) -> list[str]:
    """Translate `--create --topic x --partitions 3` of kafka-topics.sh to `create x --partitions 3`.

    With `--list`, `--describe` and so on anywhere, `--topic NAME` becomes the argument. Other arguments stay unchanged.
    """
    if words and words[0] in ALIASES:
        return [ALIASES[words[0]], *words[1:]]
    verb = next((word[2:] for word in words if word.startswith("--") and word[2:] in VERBS), None)
    if verb is None or (words and words[0] in VERBS):
        return words
    rest: list[str] = []
    names: list[str] = []
    following = iter(words)
    for word in following:
        if word == f"--{verb}":
            continue
        if word in ("--topic", "-t"):
            name = next(following, None)
            if name is None:
                raise UsageError("usage", f"{word} needs a value", try_=(f"yak topics {verb} NAME",))
            names.append(name)
        elif word.startswith("--topic="):
            names.append(word.removeprefix("--topic="))
        else:
            rest.append(word)
    return [verb, *(part for name in names for part in name.split(",")), *rest]


def key_values(texts: list[str] | None) -> dict[str, str]:
    """`NAME=VALUE` texts as a dict. Raises UsageError (`usage`)."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError("usage", f'"{text}" is not NAME=VALUE', try_=("-c retention.ms=60000",))
        pairs[name.strip()] = value
    return pairs
