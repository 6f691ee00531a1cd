"""Filters of ACLs (Kafka's AclBindingFilter): each part is a value, or matches any."""

from __future__ import annotations

from typing import NamedTuple

from yak.acls.bindings import (
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)


class AclFilter(NamedTuple):
    """Selects ACLs; None and ANY match all. MATCH selects the patterns that apply to a resource of this name."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, binding: AclBinding) -> bool:
        """Whether it selects an ACL."""
        return self.matches_pattern(binding.pattern) and self.matches_entry(binding.entry)

    @property
    def only_pattern(self) -> ResourcePattern | None:
        """The one resource pattern that it can select; None if there may be several."""
        is_one = self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
        if self.name is None or not is_one or self.resource_type is ResourceType.ANY:
            return None
        return ResourcePattern(self.resource_type, self.name, self.pattern_type)

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        """Kafka's ResourcePatternFilter.matches."""
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name == WILDCARD

    def matches_entry(self, entry: AccessControlEntry) -> bool:
        """Kafka's AccessControlEntryFilter.matches."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )
