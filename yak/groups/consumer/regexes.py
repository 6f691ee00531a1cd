"""Expressions that say which topics a member wants, kept so cheap that none can stop the broker.

Kafka matches them with RE2/J, whose time is linear in the name. Python's `re` tries one way after the other, and an
expression like `(a+)+` has more ways through one name than there are atoms. Hence an expression is read once before it is
used, and the ways through it are counted from its shape: an open repetition can end at any character, an alternative and a
`?` double them. What has too many, or repeats a group that has more than one way in it, is refused; so is what RE2 does not
have (references back, looking around, atomic groups). `[a-z]+-events`, `(dev|prod)\\..*` and `.*` pass.

The scanner matches nothing: it counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from yak.errors import ErrorCode, PeerError
from yak.limits import TOPIC_NAME_LENGTH_MAX

LENGTH_MAX = 1_000
"""Characters of an expression. The longest name has 249; who lists more topics should subscribe to their names."""
WAYS_MAX = 2**28
"""Ways through one name of the greatest length. Four open repetitions in a row just pass: half a second on a name of 249
characters that fit them all, a few milliseconds on one of 60."""
CHOICES_MAX = 2**16
"""Of these, ways that differ in alternatives and in `?` only, which take longer each."""
_REPETITIONS_MAX = 1_000
"""RE2's bound for a count in braces."""
_DEPTH_MAX = 50

_BRACES = re.compile(r"\{(\d{1,9})(,(\d{0,9}))?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_GROUP_OPEN = re.compile(r"\((?:\?(?:P<[A-Za-z_]\w*>|[ims]*(?:-[ims]+)?:))?")
_FLAGS = re.compile(r"\(\?[ims]+\)")


@lru_cache(maxsize=256)
def compiled(expression: str) -> re.Pattern[str]:
    """The expression, for `fullmatch`. Raises PeerError(INVALID_REGULAR_EXPRESSION) with the reason."""
    try:
        _Scanner(expression).check()
        return re.compile(expression, re.ASCII)
    except (re.error, OverflowError, _Refused) as error:
        shown = expression if len(expression) <= 100 else expression[:100] + "..."
        raise PeerError(
            ErrorCode.invalid_regular_expression,
            f"SubscribedTopicRegex `{shown}` is not a valid regular expression: {error}.",
        ) from None


def matching(expression: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that an expression means as a whole, in order. Raises as `compiled` does."""
    fits = compiled(expression).fullmatch
    return tuple(sorted(name for name in names if fits(name)))


class _Refused(Exception):
    """What an expression is refused for."""


class _Ways(NamedTuple):
    """How many ways lead through a part of an expression: open repetitions in a row, times choices."""

    open_repetitions: int = 0
    choices: int = 1

    def then(self, other: _Ways) -> _Ways:
        """Both parts, one after the other."""
        return _Ways(self.open_repetitions + other.open_repetitions, self.choices * other.choices)

    def instead(self, other: _Ways) -> _Ways:
        """Either part."""
        return _Ways(max(self.open_repetitions, other.open_repetitions), self.choices + other.choices)

    def total(self) -> int:
        """Ways through the longest name."""
        return math.comb(TOPIC_NAME_LENGTH_MAX + self.open_repetitions, self.open_repetitions) * self.choices


_ONE_WAY = _Ways()


class _Scanner:
    """One pass over an expression."""

    def __init__(self, expression: str) -> None:
        if len(expression) > LENGTH_MAX:
            raise _Refused(f"it has {len(expression)} characters, more than {LENGTH_MAX}")
        self.text = expression
        self.position = 0

    def check(self) -> None:
        """Raises _Refused."""
        flags = _FLAGS.match(self.text)
        self.position = flags.end() if flags else 0
        ways = self._alternatives(0)
        if self.position < len(self.text):
            raise _Refused("a closing parenthesis has no opening one")
        if ways.total() > WAYS_MAX or ways.choices > CHOICES_MAX:
            raise _Refused("it has too many repetitions or alternatives in a row for names to be compared in time")

    def _alternatives(self, depth: int) -> _Ways:
        """Up to the closing parenthesis or the end."""
        if depth > _DEPTH_MAX:
            raise _Refused(f"groups are nested more than {_DEPTH_MAX} deep")
        before: _Ways | None = None
        here = _ONE_WAY
        while self.position < len(self.text) and self.text[self.position] != ")":
            if self.text[self.position] == "|":
                self.position += 1
                before, here = here if before is None else before.instead(here), _ONE_WAY
            else:
                here = here.then(self._repeated(self._atom(depth)))
        return here if before is None else before.instead(here)

    def _atom(self, depth: int) -> _Ways:
        char = self.text[self.position]
        if char == "(":
            return self._group(depth)
        if char == "\\":
            self._escape()
        elif char == "[":
            found = _CLASS.match(self.text, self.position)
            if found is None:
                raise _Refused("a class of characters has no end")
            if "[:" in found[0]:
                raise _Refused("named classes of characters, as [:alpha:], are not known")
            self.position = found.end()
        elif self.text.startswith("{,", self.position):
            raise _Refused("a repetition must say how often at least")
        else:
            self.position += 1
        return _ONE_WAY

    def _escape(self) -> None:
        following = self.text[self.position + 1 : self.position + 2]
        if following.isdigit():
            raise _Refused("references to an earlier group, and octal numbers, are not known")
        if following == "Z":
            raise _Refused("\\Z is not known")
        self.position += 2

    def _group(self, depth: int) -> _Ways:
        opening = _GROUP_OPEN.match(self.text, self.position)
        assert opening is not None
        self.position = opening.end()
        if self.text.startswith("?", self.position):
            raise _Refused("looking ahead or behind, atomic groups, conditions and comments are not known")
        inside = self._alternatives(depth + 1)
        if self.position >= len(self.text):
            raise _Refused("an opening parenthesis has no closing one")
        self.position += 1
        return inside

    def _repeated(self, once: _Ways) -> _Ways:
        """The ways through an atom with the quantifier that follows it, if one does."""
        bounds = self._quantifier()
        if bounds is None:
            return once
        least, most = bounds
        if most is not None and most > _REPETITIONS_MAX:
            raise _Refused(f"a repetition of more than {_REPETITIONS_MAX}")
        if most is not None and most <= 1:
            return once if least == most else once.instead(_ONE_WAY)
        if once != _ONE_WAY:
            raise _Refused("it repeats a group that has repetitions or alternatives in it")
        return _Ways(1) if most is None else _Ways(0, max(1, most - least + 1))

    def _quantifier(self) -> tuple[int, int | None] | None:
        char = self.text[self.position : self.position + 1]
        bounds: tuple[int, int | None]
        if char and char in "*+?":
            self.position += 1
            bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        else:
            found = _BRACES.match(self.text, self.position)
            if found is None:
                return None
            self.position = found.end()
            least = int(found[1])
            bounds = least, least if found[2] is None else int(found[3]) if found[3] else None
        # A `?` may follow, for as little as possible; `+` would make it possessive, which RE2 does not have.
        if self.text.startswith("?", self.position):
            self.position += 1
        elif self.text.startswith(("+", "*"), self.position):
            raise _Refused("a repetition is repeated")
        return bounds
