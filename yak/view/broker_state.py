"""The state of a broker as a client sees it: the same names on the command line, the terminal UI and HTTP."""

from enum import StrEnum


class SeenState(StrEnum):
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
    """Fenced or closed; no broker knew which."""

    def seen(self, *, answers: bool) -> "SeenState":
        return SeenState.SILENT if self is SeenState.ACTIVE and not answers else self
