"""A fork: librdkafka's threads are in the parent alone. In the child its handles wait without end, or abort the process
when they are freed; so they are closed there for the program, and never freed."""

import os
from typing import Any, Protocol
from weakref import WeakSet


class Forked(Protocol):
    """A client, producer or consumer."""

    def leave_to_parent(self) -> Any:
        """Be closed; librdkafka's handle."""


made: WeakSet[Forked] = WeakSet()
"""All that this process has made, in `yak.client.api`."""


def _in_child() -> None:
    if made:
        from ctypes import py_object, pythonapi

        for each in list(made):
            pythonapi.Py_IncRef(py_object(each.leave_to_parent()))


os.register_at_fork(after_in_child=_in_child)
