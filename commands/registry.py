"""All subcommands: module, attribute, and summary for `yak --help`.

The list is static, so that `yak --help` imports no command; `test_registry.py` compares each summary with the first
line of the command's docstring. A command whose module is not installed (a slim build) is not listed.
"""

from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True, slots=True)
class Entry:
    """One subcommand: `attribute` of `module` is a function with `@command`, or a `CommandGroup`."""

    name: str
    module: str
    attribute: str
    summary: str
    section: str

    def is_there(self) -> bool:
        """Whether the command's module exists; this imports nothing but `yak.commands`."""
        return find_spec(self.module) is not None


SECTIONS = ("Messages", "Cluster", "On this machine", "Settings and help")

ENTRIES: tuple[Entry, ...] = (
    Entry("produce", "yak.commands.produce", "produce", "Write records to a topic.", "Messages"),
    Entry("consume", "yak.commands.consume", "consume", "Read records from topics.", "Messages"),
    Entry("bench", "yak.commands.bench", "bench", "Measure a cluster's throughput and latency.", "Messages"),
    Entry("topics", "yak.commands.topics", "topics", "List, describe, create and change topics.", "Cluster"),
    Entry(
        "groups", "yak.commands.groups", "groups", "List and describe consumer groups, reset their offsets.", "Cluster"
    ),
    Entry(
        "transactions",
        "yak.commands.transactions",
        "transactions",
        "List, describe and abort transactions, find hanging ones.",
        "Cluster",
    ),
    Entry("brokers", "yak.commands.brokers", "brokers", "List, describe and configure brokers.", "Cluster"),
    Entry("isr", "yak.commands.isr", "isr", "Show leader, in-sync replicas and lag of each partition.", "Cluster"),
    Entry(
        "failover",
        "yak.commands.failover",
        "failover",
        "Move partitions to other leaders, or kill a leader.",
        "Cluster",
    ),
    Entry("cluster", "yak.commands.cluster", "cluster", "Show the cluster and its metadata store; move it.", "Cluster"),
    Entry(
        "quorum",
        "yak.commands.quorum",
        "quorum",
        "Show the metadata quorum, add and remove voters.",
        "Cluster",
    ),
    Entry(
        "metadata",
        "yak.commands.metadata",
        "metadata",
        "Show the cluster's metadata records, and its state as of a time.",
        "Cluster",
    ),
    Entry("users", "yak.commands.users", "users", "List, add and remove the users that may log in.", "Cluster"),
    Entry("acls", "yak.commands.acls", "acls", "List, add and remove ACLs: what users may do.", "Cluster"),
    Entry("tokens", "yak.commands.tokens", "tokens", "Create, list, renew and expire delegation tokens.", "Cluster"),
    Entry(
        "quotas",
        "yak.commands.quotas",
        "quotas",
        "List, set and remove quotas of users, client ids and ips.",
        "Cluster",
    ),
    Entry("ui", "yak.commands.ui", "ui", "Monitor and test a cluster in a terminal or browser.", "Cluster"),
    Entry("spark", "yak.commands.spark", "spark", "Run Spark jobs, SQL and programs over topics.", "Cluster"),
    Entry("doctor", "yak.commands.doctor", "doctor", "Check that clients can reach and use a cluster.", "Cluster"),
    Entry("up", "yak.commands.up", "up", "Start a cluster on this machine.", "On this machine"),
    Entry("down", "yak.commands.down", "down", "Stop a cluster on this machine.", "On this machine"),
    Entry(
        "node",
        "yak.commands.node",
        "node",
        "Add, remove, kill, pause, resume or restart one broker.",
        "On this machine",
    ),
    Entry("demo", "yak.commands.demo", "demo", "Kill a broker under load, and count the records.", "On this machine"),
    Entry("serve", "yak.commands.serve", "serve", "Run one broker in the foreground.", "On this machine"),
    Entry("sim", "yak.commands.sim", "sim", "Run the broker in the deterministic simulator.", "On this machine"),
    Entry(
        "faults",
        "yak.commands.faults",
        "faults",
        "Inject faults into brokers, for tests of Kafka clients.",
        "On this machine",
    ),
    Entry(
        "chaos",
        "yak.commands.chaos",
        "chaos",
        "Inject faults into real brokers, and check the clients' history.",
        "On this machine",
    ),
    Entry("certs", "yak.commands.certs", "certs", "Create and show TLS certificates.", "Settings and help"),
    Entry("context", "yak.commands.context", "context", "Name clusters and switch between them.", "Settings and help"),
    Entry("config", "yak.commands.config", "config", "Show settings and their origins.", "Settings and help"),
    Entry(
        "version", "yak.commands.version", "version", "Show the versions of yak and what it uses.", "Settings and help"
    ),
    Entry("help", "yak.commands.help", "help_", "Explain a command, an error or a topic.", "Settings and help"),
)


def available() -> tuple[Entry, ...]:
    """The installed commands, in the order of the help."""
    return tuple(entry for entry in ENTRIES if entry.is_there())


def find(name: str) -> Entry | None:
    """The installed command of this name, or None."""
    for entry in ENTRIES:
        if entry.name == name and entry.is_there():
            return entry
    return None
