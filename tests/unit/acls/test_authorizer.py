"""The authorizer against a brutally simple reference of Kafka's rules."""

from hypothesis import given
from hypothesis import strategies as st

from yak.acls.authorizer import Authorizer
from yak.acls.bindings import (
    SUPPORTED,
    AccessControlEntry,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    encode_entry,
    encode_pattern,
)
from yak.limits import ACL_DECISIONS_MAX

ANN, BOB, HERE, THERE = "User:ann", "User:bob", "10.0.0.1", "::1"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
PRINCIPALS, HOSTS = (ANN, BOB, "User:*"), (HERE, THERE, "*", "0:0:0:0:0:0:0:1")
NAMES = ("*", "o", "or", "orders", "orders-paid", "x")
OPERATIONS = [operation for operation in Operation if operation is not Operation.ANY]

patterns = st.builds(
    ResourcePattern,
    st.sampled_from((TOPIC, GROUP)),
    st.sampled_from(NAMES),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
)
entries = st.builds(
    AccessControlEntry,
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from((Permission.ALLOW, Permission.DENY)),
)
acls = st.lists(st.builds(AclBinding, patterns, entries), max_size=12)
asked = st.tuples(
    st.sampled_from((ANN, BOB)),
    st.sampled_from((HERE, THERE)),
    st.sampled_from(OPERATIONS),
    st.sampled_from((TOPIC, GROUP)),
    st.sampled_from([*NAMES[1:], "hardcode", "zebra"]),
)


def stored(bindings):
    """The ACLs as an image has them."""
    image = {}
    for binding in bindings:
        image.setdefault(encode_pattern(binding.pattern), {})[encode_entry(binding.entry)] = ""
    return image


def made(bindings, super_users=(), *, allows_without_acl=False):
    authorizer = Authorizer(super_users, allows_without_acl=allows_without_acl)
    authorizer.set_acls(stored(bindings))
    return authorizer


def acl(name, operation, principal=ANN, *, kind=TOPIC, deny=False, prefixed=False, host="*"):
    pattern = ResourcePattern(kind, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)
    return AclBinding(pattern, AccessControlEntry(principal, host, operation, Permission(3 - deny)))


# ------------------------------------------------------------------------------------------------------ the reference


def is_covering(binding, kind, name):
    pattern = binding.pattern
    if pattern.resource_type != kind:
        return False
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, "*")


def is_for(entry, principal, host):
    host_of_entry = "::1" if ":" in entry.host else entry.host
    return entry.principal in (principal, "User:*") and host_of_entry in (host, "*")


def is_implied(operation, by):
    if operation == Operation.DESCRIBE:
        return by in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    return operation == Operation.DESCRIBE_CONFIGS and by == Operation.ALTER_CONFIGS


def reference(bindings, principal, host, operation, kind, name, *, default):
    covering = [binding.entry for binding in bindings if is_covering(binding, kind, name)]
    mine = [entry for entry in covering if is_for(entry, principal, host)]
    exact = (Operation.ALL, operation)
    if any(entry.permission is Permission.DENY and entry.operation in exact for entry in mine):
        return False
    allowed = [entry.operation for entry in mine if entry.permission is Permission.ALLOW]
    if any(each in exact or is_implied(operation, each) for each in allowed):
        return True
    return default and not covering


@given(acls, acls, st.lists(asked, min_size=1, max_size=4))
def test_changed_acls_decide_as_if_they_had_always_been_there(before, after, questions):
    image = stored(before)
    authorizer = Authorizer((), allows_without_acl=False)
    authorizer.set_acls(image)
    for binding in after:
        pattern = encode_pattern(binding.pattern)
        image = image | {pattern: image.get(pattern, {}) | {encode_entry(binding.entry): ""}}
    authorizer.set_acls(image)
    for question in questions:
        assert authorizer.authorize(*question) == reference(before + after, *question, default=False)


@given(acls, st.lists(asked, min_size=1, max_size=6), st.booleans())
def test_authorize_decides_as_the_reference(bindings, questions, default):
    authorizer = made(bindings, allows_without_acl=default)
    for question in questions * 2:  # the second time from memory
        assert authorizer.authorize(*question) == reference(bindings, *question, default=default)


@given(acls, asked, st.booleans())
def test_super_user_may_do_everything(bindings, question, default):
    authorizer = made(bindings, (ANN,), allows_without_acl=default)
    assert authorizer.authorize(ANN, *question[1:])
    assert authorizer.authorize_any(ANN, *question[1:4])


def any_reference(bindings, principal, host, operation, kind, *, default):
    """Kafka's Authorizer.authorizeByResourceType, one pattern after the other."""
    if reference(bindings, principal, host, operation, kind, "hardcode", default=default):
        return True
    mine = [
        (pattern, entry.permission)
        for pattern, entry in bindings
        if pattern.resource_type is kind
        and is_for(entry, principal, host)
        and entry.operation in (Operation.ALL, operation)
    ]
    denied = [pattern for pattern, permission in mine if permission is Permission.DENY]
    everything = ResourcePattern(kind, "*", PatternType.LITERAL)
    if everything in denied:
        return False
    return any(
        pattern == everything
        or not any(
            pattern == other or (other.pattern_type is PatternType.PREFIXED and pattern.name.startswith(other.name))
            for other in denied
        )
        for pattern, permission in mine
        if permission is Permission.ALLOW
    )


@given(acls, asked, st.booleans())
def test_authorize_any_decides_as_the_reference(bindings, question, default):
    expected = any_reference(bindings, *question[:4], default=default)
    assert made(bindings, allows_without_acl=default).authorize_any(*question[:4]) == expected


# ---------------------------------------------------------------------------------------------------------- examples


def test_deny_wins_over_allow_whatever_the_patterns():
    authorizer = made([acl("*", Operation.ALL), acl("orders", Operation.READ, deny=True, prefixed=True)])
    assert not authorizer.authorize(ANN, HERE, Operation.READ, TOPIC, "orders-paid")
    assert authorizer.authorize(ANN, HERE, Operation.WRITE, TOPIC, "orders-paid")
    assert authorizer.authorize(ANN, HERE, Operation.READ, TOPIC, "other")


def test_denied_read_does_not_deny_the_describe_that_it_would_imply():
    authorizer = made([acl("orders", Operation.WRITE), acl("orders", Operation.READ, deny=True)])
    assert authorizer.authorize(ANN, HERE, Operation.DESCRIBE, TOPIC, "orders")


def test_resource_without_acl_is_open_only_with_the_config():
    assert not made([]).authorize(ANN, HERE, Operation.READ, TOPIC, "orders")
    authorizer = made([acl("orders", Operation.READ, BOB)], allows_without_acl=True)
    assert authorizer.authorize(ANN, HERE, Operation.READ, TOPIC, "other")
    assert not authorizer.authorize(ANN, HERE, Operation.READ, TOPIC, "orders")


def test_changed_acls_replace_the_remembered_decisions():
    authorizer = made([acl("orders", Operation.READ)])
    assert authorizer.authorize(ANN, HERE, Operation.READ, TOPIC, "orders")
    authorizer.set_acls({})
    assert not authorizer.authorize(ANN, HERE, Operation.READ, TOPIC, "orders")


def test_remembered_decisions_are_bounded():
    authorizer = made([acl("t", Operation.READ, prefixed=True)])
    for number in range(ACL_DECISIONS_MAX + 10):
        assert authorizer.authorize(ANN, HERE, Operation.READ, TOPIC, f"t{number}")
    assert authorizer.authorize(ANN, HERE, Operation.READ, TOPIC, "t" * 10_000)
    assert len(authorizer._decisions) <= ACL_DECISIONS_MAX


def test_authorize_any_needs_one_resource_that_is_not_denied():
    write, args = Operation.WRITE, (ANN, HERE, Operation.WRITE, TOPIC)
    assert not made([]).authorize_any(*args)
    assert made([acl("orders", write)]).authorize_any(*args)
    assert not made([acl("orders", write), acl("orders", write, deny=True)]).authorize_any(*args)
    assert not made([acl("orders", write), acl("ord", write, deny=True, prefixed=True)]).authorize_any(*args)
    assert made([acl("ord", write, prefixed=True), acl("orders", write, deny=True, prefixed=True)]).authorize_any(*args)
    assert not made([acl("orders", write), acl("*", Operation.ALL, deny=True)]).authorize_any(*args)
    assert not made([acl("orders", Operation.READ)]).authorize_any(*args)
    assert not made([acl("orders", write, host=THERE)]).authorize_any(*args)


def test_operations_are_bits_of_the_supported_ones():
    authorizer = made([acl("orders", Operation.READ), acl("paid", Operation.ALL)])
    read = 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert authorizer.operations(ANN, HERE, TOPIC, "orders") == read
    assert authorizer.operations(ANN, HERE, TOPIC, "paid") == sum(1 << each for each in SUPPORTED[TOPIC])
    assert authorizer.operations(BOB, HERE, TOPIC, "paid") == 0


def test_acls_of_a_newer_version_are_left_out():
    known = stored([acl("orders", Operation.READ)])
    newer = {"FUTURE,LITERAL,x": {"ALLOW,READ,*,User:ann": ""}, "TOPIC,LITERAL,y": {"ALLOW,FLY,*,User:ann": ""}}
    newer |= {"another form": {"ALLOW,READ,*,User:ann": ""}, "TOPIC,LITERAL,z": {"another form": ""}}
    authorizer = Authorizer((), allows_without_acl=False)
    authorizer.set_acls(known | newer)
    assert authorizer.authorize(ANN, HERE, Operation.READ, TOPIC, "orders")
    assert not authorizer.authorize(ANN, HERE, Operation.READ, TOPIC, "y")
    assert not authorizer.authorize(ANN, HERE, Operation.READ, TOPIC, "z")
