"""The table of all screens: digit, name, module. Modules are loaded at the first visit."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yak.tui.screens.base import YakScreen


@dataclass(frozen=True, slots=True)
class Entry:
    """A screen. `digit` may be empty; `aliases` are other words after `:`. With `has_tabs` each opens the tab of its name."""

    name: str
    label: str
    place: str
    digit: str = ""
    aliases: tuple[str, ...] = ()
    has_tabs: bool = False

    def opens(self, word: str, argument: str | None) -> str | None:
        """What one of its words and an argument open in it."""
        return argument or (word if self.has_tabs and word in self.aliases else None)

    def make(self) -> "YakScreen":
        """Load the module and create the screen."""
        module, _, attribute = self.place.partition(":")
        made: YakScreen = getattr(import_module(f"yak.tui.screens.{module}"), attribute)()
        return made


SCREENS: Final = (
    Entry("dashboard", "Dashboard", "dashboard:DashboardScreen", "1", ("brokers", "cluster", "home")),
    Entry("topics", "Topics", "topics:TopicsScreen", "2", ("topic", "t")),
    Entry("messages", "Messages", "messages:MessagesScreen", "3", ("m", "tail", "browse")),
    Entry("producer", "Producer", "producer:ProducerScreen", "4", ("produce", "send")),
    Entry("consumer", "Consumer", "consumer:ConsumerScreen", "5", ("consume", "c")),
    Entry("groups", "Groups", "groups:GroupsScreen", "6", ("group",)),
    Entry("metadata", "Metadata log", "metadata:MetadataScreen", "7", ("log",)),
    Entry("failover", "Failover", "failover:FailoverScreen", "8", ("chaos", "drill")),
    Entry("replication", "Replication", "replication:ReplicationScreen", "9", ("isr", "partitions", "replicas")),
    Entry("activity", "Activity", "activity:ActivityScreen", "0", ("events", "history")),
    Entry("security", "Security", "security:SecurityScreen", "", ("users", "acls", "quotas"), has_tabs=True),
    Entry("contexts", "Contexts", "contexts:ContextsScreen", "", ("ctx", "context")),
)
BY_NAME: Final = {entry.name: entry for entry in SCREENS}
