"""The listener options of `yak up`: where clients of other networks connect, TLS, and logins."""

from dataclasses import dataclass

from yak.config.listeners import SecurityProtocol


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """The listener options of `yak up`: `--listen` and `--advertise` as typed, for broker 1."""

    listen: tuple[str, ...] = ()
    advertise: tuple[str, ...] = ()
    tls: bool = False
    users_file: str | None = None

    @property
    def protocol(self) -> SecurityProtocol:
        parts = ["SASL"] * bool(self.users_file) + (["SSL"] if self.tls else ["PLAINTEXT"] * bool(self.users_file))
        return SecurityProtocol("_".join(parts) or "PLAINTEXT")

    @property
    def is_plain(self) -> bool:
        """Whether the cluster has its own plain listener only."""
        return self == ListenerOptions()
