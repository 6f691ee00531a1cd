"""The TLS configs of single listeners that change while the broker runs: `listener.name.<name>.ssl.keystore.location`.

They are set on this broker's resource (KIP-226, Kafka's DynamicSecurityConfigs). The shell reads the files again at each
change, also when the value stays, and keeps what it has when it cannot use them. Passwords and keys cannot be set so:
they would be in the metadata.
"""

from yak.config.ssl_configs import of_one_listener
from yak.core.context import Context
from yak.core.events import ReconfigureListeners
from yak.ids import NodeId


class ListenerConfigs:
    """This broker's own configs of single listeners."""

    def __init__(self, context: Context, node_id: NodeId) -> None:
        self._context, self._node_id = context, node_id
        self._applied: dict[str, str] = {}

    def apply(self) -> None:
        """The configs may have changed: the shell has to use them."""
        found = self._own()
        if found != self._applied:
            self._applied = found
            self.read_again()

    def read_again(self) -> None:
        """Make the shell read the files of the listeners, changed or not."""
        self._context.emit(ReconfigureListeners(self._own()))

    def _own(self) -> dict[str, str]:
        configs = self._context.image.broker_configs.get(self._node_id, {})
        return {name: value for name, value in configs.items() if of_one_listener(name) is not None}
