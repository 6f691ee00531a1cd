"""`ssl.principal.mapping.rules`: the name of a user from the distinguished name of a certificate (KIP-371).

The rules are tried in order, and the first one that matches the whole name gives the result (Kafka's
SslPrincipalMapper). A rule is `DEFAULT`, the name as it is, or `RULE:pattern/replacement/` with `L` or `U` at the end
for lower or upper case. In the replacement `$1` is the first group of the pattern.
"""

import re
from dataclasses import dataclass
from typing import Final

_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)", re.DOTALL)
_NAMED_GROUP: Final = re.compile(r"\(\?<([A-Za-z]\w*)>")
"""Java's spelling; Python's has a P."""
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)|\$\{(\w+)\}", re.DOTALL)


class NoMatchingRule(Exception):
    """No rule matches a distinguished name: its client is not authenticated."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `pattern` is None for DEFAULT."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The user's name, or None if the rule does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = self.pattern.sub(self._expanded, name)
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped

    def _expanded(self, match: re.Match[str]) -> str:
        """The replacement with its references, by the rules of Java's Matcher.appendReplacement.

        A reference to a group that the pattern lacks is literal text (SslPrincipalMapper.escapeLiteralBackReferences).
        """
        groups = match.re.groups

        def referenced(found: re.Match[str]) -> str:
            literal, digits, group = found.groups()
            if literal is not None:
                return str(literal)
            if group is not None:
                return (match[group] or "") if group in match.re.groupindex else found[0]
            length = len(digits)
            while length > 1 and int(digits[:length]) > groups:
                length -= 1
            if int(digits[:length]) > groups:
                return found[0]
            return (match[int(digits[:length])] or "") + digits[length:]

        return _REFERENCE.sub(referenced, self.replacement)


def _compiled(pattern: str) -> re.Pattern[str]:
    """Java's classes (`\\w`) and `(?i)` know the letters and digits of ASCII only. Raises re.error."""
    return re.compile(_NAMED_GROUP.sub(r"(?P<\1>", pattern), re.ASCII)


class PrincipalMapping:
    """All rules of a listener, in order."""

    def __init__(self, rules: tuple[Rule, ...] = (Rule(),)) -> None:
        self.rules = rules

    @classmethod
    def parse(cls, text: str) -> "PrincipalMapping":
        """The rules of a config's value; an empty one is DEFAULT. Raises ValueError with the rule that is wrong."""
        rules: list[Rule] = []
        at = 0
        while text[at:].strip():
            found = _RULE.match(text, at)
            if found is None:
                raise ValueError(f"{text[at:].strip()!r} is neither DEFAULT nor RULE:pattern/replacement/[LU]")
            default, pattern, replacement, case = found.groups()
            try:
                rules.append(Rule() if default else Rule(_compiled(pattern), replacement, case))
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
            at = found.end()
        return cls(tuple(rules) or (Rule(),))

    def name_of(self, distinguished_name: str) -> str:
        """The user's name. Raises NoMatchingRule."""
        for rule in self.rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoMatchingRule(distinguished_name)
