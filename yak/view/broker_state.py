"""The state of a broker: one set of words for the command line, the terminal UI and HTTP."""

from enum import StrEnum


class BrokerState(StrEnum):
    """The states of a registration (`yak.cluster.records.BrokerState`), and two that only a client sees."""

    ACTIVE = "ACTIVE"
    """Registered and unfenced: it may lead."""
    STOPPING = "STOPPING"
    """In controlled shutdown: its leaders move."""
    FENCED = "FENCED"
    """Considered dead, or not yet unfenced: it leads nothing."""
    CLOSED = "CLOSED"
    """Stopped in order."""
    SILENT = "SILENT"
    """Listed as active, but does not answer this client."""
    DOWN = "DOWN"
    """Fenced or closed, and no broker could tell which."""

    def seen(self, *, answers: bool) -> "BrokerState":
        """The state for a client that asked the broker itself."""
        return BrokerState.SILENT if self is BrokerState.ACTIVE and not answers else self
