"""`yak --help` and `yak GROUP --help`, from static lists."""

from typing import TYPE_CHECKING

from yak.commands import registry

if TYPE_CHECKING:
    from yak.commands.app import CommandGroup

EXAMPLES = (
    ("yak up -d", "start a broker on this machine"),
    ('yak produce -m "hello"', "write a record to the topic yak"),
    ("yak consume --from-beginning --exit", "read it back"),
)
_FOOT = """\
Options, before or after the command:
  -b, --bootstrap-server HOST:PORT,...   ask these brokers first
  -C, --context NAME                     use a named cluster
  -o, --output FORMAT                    table, json, yaml, wide, csv or raw
  -q, -v, -y                             quiet, verbose, yes to questions
  --timeout 10s  --readonly  --no-color  --local  --config FILE  --version
  --install-completion                   complete commands and topics in this shell

yak COMMAND --help says more; yak help exit-codes lists what yak returns."""


def overview() -> str:
    """The help of `yak` itself."""
    lines = ["Usage: yak [OPTIONS] COMMAND [ARGS]...", "", "A Kafka-compatible log broker and its tools.", ""]
    width = max(len(line) for line, _ in EXAMPLES)
    lines += ["Examples:", *(f"  {line.ljust(width)}   {what}" for line, what in EXAMPLES), ""]
    width = max(map(len, registry.BY_NAME))
    for section in registry.SECTIONS:
        entries = [entry for entry in registry.ENTRIES if entry.section == section]
        lines += [f"{section}:", *(f"  {entry.name.ljust(width)}  {entry.summary}" for entry in entries), ""]
    return "\n".join([*lines, _FOOT])


def group_overview(group: "CommandGroup") -> str:
    """The help of a command that has subcommands."""
    leaves = group.visible()
    width = max(len(name) for name in leaves)
    lines = [f"Usage: yak {group.name} COMMAND [ARGS]...", "", group.summary, ""]
    if group.examples:
        lines += ["Examples:", *(f"  {line}" for line in group.examples), ""]
    lines += ["Commands:", *(f"  {name.ljust(width)}   {leaf.summary}" for name, leaf in leaves.items()), ""]
    if group.default is not None:
        lines += [f"Without a command: {group.default}."]
    return "\n".join([*lines, f"yak {group.name} COMMAND --help says more."])
