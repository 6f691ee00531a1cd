import contextlib
import socket

import pytest

from yak.errors import UsageError
from yak.tui.web import binding


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def test_any_port_is_any_and_a_name_is_bound_where_its_address_leads():
    with binding.bind("localhost", 0) as listener:
        assert port_of(listener) > 0
        assert listener.getsockname()[0] == "127.0.0.1"


def test_a_port_that_was_asked_for_and_is_taken_is_refused_with_who_has_it():
    with binding.bind("127.0.0.1", 0) as first, pytest.raises(UsageError) as refused:
        binding.bind("127.0.0.1", port_of(first))
    assert refused.value.code == "port-in-use"
    assert "listens there" in refused.value.why


def test_without_a_port_the_next_free_one_is_taken(monkeypatch):
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(binding.bind("127.0.0.1", 0))
        monkeypatch.setattr(binding, "PORT", port_of(first))
        found = stack.enter_context(binding.bind("127.0.0.1", None))
        assert 0 < port_of(found) - port_of(first) <= binding._TRIED_MAX


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(UsageError) as refused:
        binding.bind("192.0.2.1", 0)
    assert refused.value.code == "cannot-listen"


def test_a_name_without_an_address_is_refused():
    with pytest.raises(UsageError) as refused:
        binding.bind("no such host", 0)
    assert refused.value.code == "unknown-host"
