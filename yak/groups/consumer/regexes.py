"""Regular expressions of a KIP-848 subscription (`SubscribedTopicRegex`): their engine, and a bound for its work.

Kafka matches them with RE2/J. This is RE2, which has the same syntax; its time is linear in the length of the name.
Both refuse back references, lookaround and atomic groups. Linear time is still too long for a large expression and many
long names, so the work is counted in advance. A step is one instruction of the compiled expression for one byte of a
name.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from yak.errors import ErrorCode, PeerError

LENGTH_MAX = 1_000
"""Characters of an expression. A topic name has at most 249; a longer list should be a list of names."""
STEPS_MAX = 2**26
"""Steps of one resolution against all topics. A heartbeat also starts no further expression after so many steps: 0.25
s, since a step takes at most 4 ns. An expression of 200 instructions (`[a-z]+-events` has 13) can match 10,000 topics
whose names have 30 characters."""
_PROGRAM_BYTES_MAX = 64 * 1024
"""Memory of one compiled expression and its state cache. A larger cache makes the worst case slower: RE2 builds states
in it that are used once (16 times slower at 8 MiB, RE2's default)."""
_COMPILED_MAX = 256
_STEPS_TO_COMPILE = 100
"""Compiling one instruction takes as long as this many steps."""
_STEPS_TO_CALL = 400
"""Calling RE2 for one name takes as long as this many steps."""


class Expression:
    """A compiled expression."""

    __slots__ = ("_program_size", "_regexp", "_text")

    def __init__(self, expression: str, *, is_of_ascii: bool = True) -> None:
        """`is_of_ascii`: all names to match are ASCII. Raises PeerError(INVALID_REGULAR_EXPRESSION) with the reason."""
        self._text = expression if len(expression) <= 100 else expression[:100] + "..."
        if len(expression) > LENGTH_MAX:
            raise self._refusal(f"it has {len(expression)} characters, more than {LENGTH_MAX}")
        import re2  # imported when it is needed: most groups have no expression

        options = re2.Options()
        options.max_mem = _PROGRAM_BYTES_MAX
        options.log_errors = False
        options.never_capture = True
        if is_of_ascii and expression.isascii():
            # as topic names are; in Latin-1, character classes take a quarter of the instructions
            options.encoding = re2.Options.Encoding.LATIN1
        try:
            self._regexp = re2.compile(expression.encode(), options)
        except UnicodeEncodeError:
            raise self._refusal("it is not valid Unicode") from None
        except re2.error as error:
            reason = error.args[0]
            raise self._refusal(reason.decode(errors="replace") if isinstance(reason, bytes) else reason) from None
        self._program_size: int = self._regexp.programsize

    def _refusal(self, reason: str) -> PeerError:
        return PeerError(
            ErrorCode.invalid_regular_expression,
            f"SubscribedTopicRegex `{self._text}` is not a valid regular expression: {reason}.",
        )

    def steps(self, names: Collection[str]) -> int:
        """An upper bound of the steps to compile the expression and match these names."""
        # one more byte for the end of each name
        size_bytes = sum(len(name) if name.isascii() else len(name.encode()) for name in names) + len(names)
        return self._program_size * (_STEPS_TO_COMPILE + size_bytes) + _STEPS_TO_CALL * len(names)

    def matching(self, names: Collection[str]) -> tuple[str, ...]:
        """The names that match as a whole, sorted. Raises PeerError(INVALID_REGULAR_EXPRESSION) for too many steps."""
        if self.steps(names) > STEPS_MAX:
            raise self._refusal(f"it is too large to be compared with {len(names)} topics")
        fits = self._regexp.fullmatch
        return tuple(sorted(name for name in names if fits(name.encode())))


@lru_cache(maxsize=_COMPILED_MAX)
def compiled(expression: str) -> Expression:
    """The compiled expression. Raises PeerError(INVALID_REGULAR_EXPRESSION) with the reason."""
    return Expression(expression)
