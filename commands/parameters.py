"""Options and arguments of commands, for `Annotated`."""

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer

from yak.commands.app import WHAT, Bundle, flag
from yak.view.partition_state import Conditions


def option(names: str, help_: str, panel: str | None = None, **more: Any) -> Any:
    """An option: its names separated by commas, its line of the help, and its group there (None: the general one)."""
    return typer.Option(*names.split(", "), help=help_, rich_help_panel=panel, **more)


def argument(name: str, help_: str, **more: Any) -> Any:
    """A positional argument: its name in the usage line, and its line of the help."""
    return typer.Argument(metavar=name, help=help_, **more)


DryRun: TypeAlias = Annotated[bool, option("--dry-run", "Validate on the broker, change nothing.", WHAT)]
DataDir: TypeAlias = Annotated[
    str | None, option("--data-dir", "Data directory of the cluster.  [./yak-data]", WHAT, metavar="DIR")
]
NodeId: TypeAlias = Annotated[int, argument("NODE", "The node id of the broker.", min=0, max=2**31 - 1)]
_SHOW = "Show only"


@dataclass(frozen=True, slots=True)
class PartitionFilter(Bundle):
    """Conditions for the listed partitions, or for topics with such partitions. The long names are those of kafka-topics.sh."""

    under_replicated: bool = flag(
        "--under-replicated, --under-replicated-partitions", "Under-replicated ones.", _SHOW, default=False
    )
    under_min_isr: bool = flag(
        "--under-min-isr, --under-min-isr-partitions", "Those that refuse acks=all.", _SHOW, default=False
    )
    at_min_isr: bool = flag(
        "--at-min-isr, --at-min-isr-partitions", "Those with just min.insync.replicas in sync.", _SHOW, default=False
    )
    offline: bool = flag("--offline, --unavailable-partitions", "Those without a leader.", _SHOW, default=False)

    @property
    def conditions(self) -> Conditions:
        """The conditions, one of which a partition must fulfil."""
        return Conditions(self.offline, self.under_min_isr, self.at_min_isr, self.under_replicated)
