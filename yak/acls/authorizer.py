"""Decides what principals may do, by the rules of Kafka's StandardAuthorizer.

A super user may do everything. Otherwise the ACLs count whose pattern applies to the resource and whose entry has the
principal or `User:*`, and the host or `*`. One that denies the operation, or all, decides. Else one is needed that
allows the operation, all, or an operation that implies it. A resource to which no pattern applies is closed, or open
with `allow.everyone.if.no.acl.found`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from yak.acls.bindings import (
    SUPPORTED,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AccessControlEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    decode_entry,
    decode_pattern,
)
from yak.limits import ACL_DECISION_NAME_LENGTH_MAX, ACL_DECISIONS_MAX
from yak.security.hosts import canonical_host

_IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""The operations that imply another one where they are allowed (StandardAuthorizerData's IMPLIES_DESCRIBE)."""


class _Rule(NamedTuple):
    """An entry, with its host in one spelling."""

    principal: str
    host: str
    operation: Operation
    is_allowed: bool

    def applies_to(self, principal: str, host: str) -> bool:
        return self.principal in (principal, WILDCARD_PRINCIPAL) and self.host in (WILDCARD, host)

    def denies(self, operation: Operation) -> bool:
        return not self.is_allowed and self.operation in (Operation.ALL, operation)

    def allows(self, operation: Operation) -> bool:
        return self.is_allowed and (
            self.operation in (Operation.ALL, operation) or self.operation in _IMPLIED_BY.get(operation, ())
        )


class _Compiled(NamedTuple):
    """A resource pattern of the metadata; `pattern` is None if this version does not know its types."""

    pattern: ResourcePattern | None
    entries: Mapping[str, str]
    rules: list[_Rule]


_Rules: TypeAlias = dict[tuple[ResourceType, str], list[_Rule]]
_Decision: TypeAlias = tuple[str, str, int, int, str | None]
"""Principal, host, operation, resource type, name; None for any resource of the type."""


class Authorizer:
    """The ACLs in force. `authorize` remembers its decisions until the ACLs change."""

    def __init__(self, super_users: Collection[str], *, allows_without_acl: bool) -> None:
        self.super_users = frozenset(super_users)
        self._allows_without_acl = allows_without_acl
        self._literal: _Rules = {}
        self._prefixed: _Rules = {}
        self._prefix_lengths: dict[ResourceType, list[int]] = {}
        self._compiled: dict[str, _Compiled] = {}
        self._decisions: dict[_Decision, bool] = {}

    def set_acls(self, acls: Mapping[str, Mapping[str, str]]) -> None:
        """Put the ACLs of an image in force. Patterns with the same object as before are not compiled again."""
        before, self._compiled = self._compiled, {}
        self._literal, self._prefixed, self._decisions = {}, {}, {}
        lengths: dict[ResourceType, set[int]] = {}
        for text, entries in acls.items():
            compiled = before.get(text)
            if compiled is None or compiled.entries is not entries:
                compiled = _compile(text, entries)
            self._compiled[text] = compiled
            if compiled.pattern is None:
                continue
            kind, name, pattern_type = compiled.pattern
            if pattern_type is PatternType.PREFIXED:
                lengths.setdefault(kind, set()).add(len(name))
                self._prefixed[kind, name] = compiled.rules
            else:
                self._literal[kind, name] = compiled.rules
        self._prefix_lengths = {kind: sorted(found) for kind, found in lengths.items()}

    def authorize(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether a principal (`User:ann`) may do something with a resource, from an IP address as `host_of` spells it."""
        key = (principal, host, operation, kind, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = principal in self.super_users or self._decide(principal, host, operation, kind, name)
            if len(name) <= ACL_DECISION_NAME_LENGTH_MAX:
                self._remember(key, decision)
        return decision

    def _remember(self, key: _Decision, decision: bool) -> None:
        if len(self._decisions) >= ACL_DECISIONS_MAX:
            self._decisions.clear()
        self._decisions[key] = decision

    def _decide(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        is_covered = is_allowed = False
        for rules in self._applicable(kind, name):
            is_covered = True
            for rule in rules:
                if rule.applies_to(principal, host):
                    if rule.denies(operation):
                        return False
                    is_allowed = is_allowed or rule.allows(operation)
        return is_allowed or (not is_covered and self._allows_without_acl)

    def _applicable(self, kind: ResourceType, name: str) -> Iterator[list[_Rule]]:
        """The rules of the patterns that apply to a resource."""
        for literal in (name, WILDCARD):
            if (kind, literal) in self._literal:
                yield self._literal[kind, literal]
        for length in self._prefix_lengths.get(kind, ()):
            if length > len(name):
                return
            rules = self._prefixed.get((kind, name[:length]))
            if rules is not None:
                yield rules

    def authorize_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Whether a principal may do something with at least one resource of a type.

        Kafka's Authorizer.authorizeByResourceType: an entry must name the operation itself, or all. Whether a resource
        exists does not count.
        """
        key = (principal, host, operation, kind, None)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self.authorize(principal, host, operation, kind, _ANY_NAME) or self._decide_any(
                principal, host, operation, kind
            )
            self._remember(key, decision)
        return decision

    def _decide_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        names: dict[tuple[bool, PatternType], set[str]] = {
            (is_allowed, pattern_type): {
                name
                for (found, name), each in rules.items()
                if found is kind
                for rule in each
                if rule.is_allowed is is_allowed
                and rule.applies_to(principal, host)
                and rule.operation in (Operation.ALL, operation)
            }
            for is_allowed in (True, False)
            for pattern_type, rules in ((PatternType.LITERAL, self._literal), (PatternType.PREFIXED, self._prefixed))
        }
        denied, denied_prefixes = names[False, PatternType.LITERAL], tuple(names[False, PatternType.PREFIXED])
        if WILDCARD in denied:
            return False
        allowed = names[True, PatternType.LITERAL]
        return (
            WILDCARD in allowed
            or any(not name.startswith(denied_prefixes) for name in allowed - denied)
            or any(not name.startswith(denied_prefixes) for name in names[True, PatternType.PREFIXED])
        )

    def operations(self, principal: str, host: str, kind: ResourceType, name: str) -> int:
        """The operations that a principal may do with a resource, as bits by Kafka's codes (KIP-430)."""
        return sum(
            1 << operation for operation in SUPPORTED[kind] if self.authorize(principal, host, operation, kind, name)
        )


_ANY_NAME: Final = "hardcode"
"""The resource name in Kafka's check whether super users, or all, may do it with any resource of a type."""


def _compile(text: str, entries: Mapping[str, str]) -> _Compiled:
    """The pattern and the rules of a resource in the metadata. Entries of a newer version are left out."""
    known = (decode_entry(entry) for entry in entries)
    return _Compiled(decode_pattern(text), entries, [_rule_of(entry) for entry in known if entry is not None])


def _rule_of(entry: AccessControlEntry) -> _Rule:
    host = entry.host if entry.host == WILDCARD else canonical_host(entry.host)
    return _Rule(entry.principal, host, entry.operation, entry.permission is Permission.ALLOW)
