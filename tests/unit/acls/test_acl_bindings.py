"""ACLs as texts in the metadata, and filters."""

from hypothesis import given
from hypothesis import strategies as st

from yak.acls.bindings import (
    AccessControlEntry,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    bindings_of,
    decode_entry,
    decode_pattern,
    encode_entry,
    encode_pattern,
)
from yak.acls.filters import AclFilter

texts = st.text(min_size=1, max_size=20) | st.sampled_from(("a,b", "%2C", "%", '"', "\x00\n", "ü,%25", "*", "User:x"))
patterns = st.builds(ResourcePattern, st.sampled_from(ResourceType), texts, st.sampled_from(PatternType))
entries = st.builds(AccessControlEntry, texts, texts, st.sampled_from(Operation), st.sampled_from(Permission))


@given(patterns)
def test_pattern_survives_the_metadata(pattern):
    assert decode_pattern(encode_pattern(pattern)) == pattern


@given(entries)
def test_entry_survives_the_metadata(entry):
    assert decode_entry(encode_entry(entry)) == entry


@given(st.lists(st.builds(AclBinding, patterns, entries), max_size=8))
def test_all_bindings_of_an_image_are_found(bindings):
    image = {}
    for binding in bindings:
        image.setdefault(encode_pattern(binding.pattern), {})[encode_entry(binding.entry)] = ""
    assert sorted(bindings_of(image)) == sorted(set(bindings))


@given(st.builds(AclBinding, patterns, entries))
def test_empty_filter_matches_every_acl_and_an_exact_one_matches_it(binding):
    pattern, entry = binding
    assert AclFilter().matches(binding)
    exact = AclFilter(
        pattern.resource_type, pattern.name, pattern.pattern_type, entry.principal, entry.host, entry.operation
    )
    assert exact.matches(binding)
    assert not exact._replace(principal=entry.principal + "x").matches(binding)
    assert not exact._replace(host=entry.host + "x").matches(binding)


def found(wanted, *patterns):
    entry = AccessControlEntry("User:ann", "*", Operation.READ, Permission.ALLOW)
    return [pattern.name for pattern in patterns if wanted.matches(AclBinding(pattern, entry))]


def test_match_selects_the_patterns_that_apply_to_a_name():
    topic = ResourceType.TOPIC
    everything = (
        ResourcePattern(topic, "*", PatternType.LITERAL),
        ResourcePattern(topic, "orders", PatternType.LITERAL),
        ResourcePattern(topic, "ord", PatternType.PREFIXED),
        ResourcePattern(topic, "orders-", PatternType.PREFIXED),
        ResourcePattern(ResourceType.GROUP, "orders", PatternType.LITERAL),
    )
    assert found(AclFilter(topic, "orders", PatternType.MATCH), *everything) == ["*", "orders", "ord"]
    assert found(AclFilter(topic, "orders", PatternType.LITERAL), *everything) == ["orders"]
    assert found(AclFilter(topic, "ord", PatternType.PREFIXED), *everything) == ["ord"]
    assert found(AclFilter(topic, None, PatternType.PREFIXED), *everything) == ["ord", "orders-"]
    assert found(AclFilter(name="orders", pattern_type=PatternType.ANY), *everything) == ["orders", "orders"]
