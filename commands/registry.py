"""All subcommands: module, attribute, and summary for `yak --help`.

The list is static, so that `yak --help` imports no command; `test_help_golden.py` compares the summary of each single
command with the first line of its docstring.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One subcommand."""

    name: str
    summary: str
    section: str

    @property
    def module(self) -> str:
        return f"yak.commands.{self.name}"

    @property
    def attribute(self) -> str:
        """What the module calls it: a function with `@command`, or a `CommandGroup`."""
        return "help_" if self.name == "help" else self.name


_SUMMARIES = {
    "Messages": {
        "produce": "Write records to a topic.",
        "consume": "Read records from topics.",
        "bench": "Measure a cluster's throughput and latency.",
    },
    "Cluster": {
        "topics": "List, describe, create and change topics.",
        "groups": "List and describe consumer groups, reset their offsets.",
        "transactions": "List, describe and abort transactions, find hanging ones.",
        "brokers": "List, describe and configure brokers.",
        "isr": "Show leader, in-sync replicas and lag of each partition.",
        "failover": "Move partitions to other leaders, or kill a leader.",
        "cluster": "Show the cluster and its metadata store; move it.",
        "quorum": "Show the metadata quorum, add and remove voters.",
        "metadata": "Show the cluster's metadata records, and its state as of a time.",
        "users": "List, add and remove the users that may log in.",
        "acls": "List, add and remove ACLs: what users may do.",
        "tokens": "Create, list, renew and expire delegation tokens.",
        "quotas": "List, set and remove quotas of users, client ids and ips.",
        "ui": "Monitor and test a cluster in a terminal or browser.",
        "spark": "Run Spark jobs, SQL and programs over topics.",
        "doctor": "Check that clients can reach and use a cluster.",
    },
    "On this machine": {
        "up": "Start a cluster on this machine.",
        "down": "Stop a cluster on this machine.",
        "node": "Add, remove, kill, pause, resume or restart one broker.",
        "demo": "Kill a broker under load, and count the records.",
        "serve": "Run one broker in the foreground.",
        "sim": "Run the broker in the deterministic simulator.",
        "faults": "Inject faults into brokers, for tests of Kafka clients.",
        "chaos": "Inject faults into real brokers, and check the clients' history.",
    },
    "Settings and help": {
        "certs": "Create and show TLS certificates.",
        "context": "Name clusters and switch between them.",
        "config": "Show settings and their origins.",
        "version": "Show the versions of yak and what it uses.",
        "help": "Explain a command, an error or a topic.",
    },
}
SECTIONS = tuple(_SUMMARIES)
ENTRIES = tuple(
    Entry(name, summary, section) for section, found in _SUMMARIES.items() for name, summary in found.items()
)
"""The commands, in the order of the help."""
BY_NAME = {entry.name: entry for entry in ENTRIES}
