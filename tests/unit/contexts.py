"""A context of which a test sets the parts that are used."""

from types import SimpleNamespace

from yak.core.context import Context


class StubContext(SimpleNamespace):
    """The parts that a test sets, and the context's own ways to arm timers."""

    after, within, is_stopping = Context.after, Context.within, False
