"""Regular expressions of a KIP-848 subscription (`SubscribedTopicRegex`): their engine, and a bound for its work.

Kafka matches them with RE2/J; this is RE2, which has the same syntax and whose time is linear in the name. Both refuse back
references, looking around and atomic groups. Linear is still too much for a large expression and many long names, so the work
is counted before it is done: a step is one instruction of the compiled expression for one byte of a name.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

import re2

from yak.errors import ErrorCode, PeerError

LENGTH_MAX = 1_000
"""Characters of an expression. A topic name has at most 249; a member that lists more topics should subscribe to names."""
STEPS_MAX = 2**26
"""Steps of one resolution against all topics, and what a heartbeat may begin for all expressions of its group: 0.25 s, since
a step takes at most 4 ns. An expression of 200 instructions (`[a-z]+-events` has 13) fits for 10,000 topics whose names have 30
characters."""
_PROGRAM_BYTES_MAX = 64 * 1024
"""Memory of one compiled expression and of its state cache. A larger cache makes the worst case slower: RE2 builds states
in it that are used once (16 times slower at 8 MiB, RE2's default)."""
_COMPILED_MAX = 256
_STEPS_TO_COMPILE = 100
"""For each instruction, in steps that take as long."""
_STEPS_TO_CALL = 400
"""For each name that is handed to RE2."""


class Expression:
    """A compiled expression."""

    __slots__ = ("_program_size", "_regexp", "_shown")

    def __init__(self, expression: str) -> None:
        """Raises PeerError(INVALID_REGULAR_EXPRESSION) with the reason."""
        self._shown = expression if len(expression) <= 100 else expression[:100] + "..."
        if len(expression) > LENGTH_MAX:
            raise self._refusal(f"it has {len(expression)} characters, more than {LENGTH_MAX}")
        options = re2.Options()
        options.max_mem = _PROGRAM_BYTES_MAX
        options.log_errors = False
        options.never_capture = True
        if expression.isascii():
            # topic names are ASCII too, and classes of characters take a quarter of the instructions
            options.encoding = re2.Options.Encoding.LATIN1
        try:
            self._regexp = re2.compile(expression.encode(), options)
        except UnicodeEncodeError:
            raise self._refusal("it is no valid Unicode") from None
        except re2.error as error:
            reason = error.args[0]
            raise self._refusal(reason.decode(errors="replace") if isinstance(reason, bytes) else reason) from None
        self._program_size: int = self._regexp.programsize

    def _refusal(self, reason: str) -> PeerError:
        return PeerError(
            ErrorCode.invalid_regular_expression,
            f"SubscribedTopicRegex `{self._shown}` is not a valid regular expression: {reason}.",
        )

    def steps(self, names: Collection[str]) -> int:
        """What compiling the expression and matching these names may take."""
        # topic names are ASCII; one byte more for the end of each
        return self._program_size * (_STEPS_TO_COMPILE + sum(map(len, names)) + len(names)) + _STEPS_TO_CALL * len(
            names
        )

    def matching(self, names: Collection[str]) -> tuple[str, ...]:
        """The names that fit as a whole, sorted. Raises PeerError(INVALID_REGULAR_EXPRESSION) when it takes too many steps."""
        if self.steps(names) > STEPS_MAX:
            raise self._refusal(f"it is too large to be compared with {len(names)} topics")
        fits = self._regexp.fullmatch
        return tuple(sorted(name for name in names if fits(name.encode())))


@lru_cache(maxsize=_COMPILED_MAX)
def compiled(expression: str) -> Expression:
    """The compiled expression. Raises PeerError(INVALID_REGULAR_EXPRESSION) with the reason."""
    return Expression(expression)
