"""The flags `--listen` and `--advertise`: named listeners, as Kafka's configs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from yak.errors import UsageError

_NAMED: Final = (
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "controller.listener.names",
)
_MAP: Final = "listener.security.protocol.map"


@dataclass(slots=True, frozen=True)
class ListenerFlags:
    """The listeners as typed, `NAME://HOST:PORT` each."""

    listen: Sequence[str]
    advertise: Sequence[str]

    def configs(self, configs: Mapping[str, str]) -> dict[str, str]:
        """Kafka's configs for these flags, beside the given `configs`.

        A name without a security protocol is PLAINTEXT. A listener without `--advertise` is advertised as it listens.
        Raises UsageError (`usage`).
        """
        from yak.config.listeners import SecurityProtocol

        if not self.listen:
            if self.advertise:
                raise UsageError(
                    "usage",
                    "--advertise goes with --listen",
                    why="it is the advertised address of a named listener",
                    try_=("yak serve --listen EXTERNAL://0.0.0.0:19092 --advertise EXTERNAL://localhost:19092",),
                )
            return {}
        controllers = [name.strip().upper() for name in configs.get("controller.listener.names", "").split(",")]
        advertised = {_name(each) for each in self.advertise}
        rest = [each for each in self.listen if _name(each) not in [*advertised, *controllers]]
        protocols = configs.get(_MAP) or ",".join(f"{each}:{each}" for each in SecurityProtocol)
        mapped = {entry.rpartition(":")[0].strip().upper() for entry in protocols.split(",")}
        more = [f"{name}:PLAINTEXT" for name in dict.fromkeys(map(_name, self.listen)) if name not in mapped]
        return {
            "listeners": ",".join(self.listen),
            "advertised.listeners": ",".join(_in_order(self.listen, [*self.advertise, *rest])),
            **({_MAP: ",".join([protocols, *more])} if more else {}),
        }


def has_named_listeners(configs: Mapping[str, tuple[str, str]]) -> bool:
    """Whether the configs say more of listeners than one PLAINTEXT address."""
    if any(name in configs for name in _NAMED):
        return True
    texts = [configs[name][0] for name in ("listeners", "advertised.listeners") if name in configs]
    return any("," in text or ("://" in text and _name(text) != "PLAINTEXT") for text in texts)


def check_one_form(**flags: str | None) -> None:
    """Refuse the flags of a single listener beside named ones. Raises UsageError (`usage`)."""
    given = [f"--{name}" for name, value in flags.items() if value is not None]
    if given:
        raise UsageError(
            "usage",
            f"{', '.join(given)} and named listeners exclude each other",
            why="--host, --port and --advertised are for a broker with one listener",
            try_=("yak serve --listen EXTERNAL://0.0.0.0:19092 --advertise EXTERNAL://localhost:19092",),
        )


def _name(text: str) -> str:
    return text.partition("://")[0].strip().upper()


def _in_order(listen: Sequence[str], advertised: list[str]) -> list[str]:
    """The advertised listeners in the order of `--listen`: the first one is for other brokers."""
    names = [_name(each) for each in listen]
    return sorted(advertised, key=lambda each: names.index(_name(each)) if _name(each) in names else len(names))
