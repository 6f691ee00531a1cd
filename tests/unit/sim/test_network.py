"""Connections of the simulated network: order, cuts, losses, and what each end is told."""

import pytest

from yak.sim.network import Network
from yak.sim.seeded_random import SeededRandom
from yak.sim.world import World


class Node:
    """The broker's end, as far as the network knows it."""

    def __init__(self) -> None:
        self.party, self.host, self.port = "n1", "node1", 9092
        self.is_listening = self.is_powered = True
        self.line = None
        self.got: list[bytes] = []
        self.ended = 0

    def accept(self, line) -> int:
        self.line = line
        return 1

    def receive(self, _connection_id: int, frames: list[bytes]) -> None:
        self.got += frames

    def disconnect(self, _connection_id: int) -> None:
        self.ended += 1


class Caller:
    """The asking end."""

    def __init__(self) -> None:
        self.line = None
        self.got: list[bytes] = []
        self.how: list[str] = []

    def connected(self, line) -> None:
        self.line = line

    def answered(self, frames: list[bytes]) -> None:
        self.got += frames

    def lost(self, how: str, _reason: str) -> None:
        self.how.append(how)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def network(world) -> Network:
    return Network(world, SeededRandom(1))


@pytest.fixture
def node(network) -> Node:
    node = Node()
    network.add(node)
    return node


def run(world: World, milliseconds: int) -> None:
    reached: list[None] = []
    world.after(milliseconds * 1000, lambda: reached.append(None))
    world.run(lambda: bool(reached), events_max=10_000)


def connect(network: Network, world: World, port: int = 9092) -> Caller:
    caller = Caller()
    network.connect("clients", "node1", port, caller)
    run(world, 10)
    return caller


def test_frames_arrive_in_order_in_both_directions(world, network, node):
    caller = connect(network, world)
    frames = [bytes([number]) for number in range(50)]
    for frame in frames:
        caller.line.send(frame)
        node.line.reply(frame)
    run(world, 50)
    assert node.got == frames
    assert caller.got == frames


def test_connect_without_a_listener_is_refused_at_once(world, network, node):
    node.is_listening = False
    assert connect(network, world).how == ["refused"]
    assert connect(network, world, port=1).how == ["unreachable"]


@pytest.mark.parametrize("way", [("clients", "n1"), ("n1", "clients")])
def test_a_cut_in_either_direction_lets_a_connect_time_out(world, network, node, way):
    network.cut(*way)
    caller = connect(network, world)
    run(world, 1_900)
    assert not caller.how
    run(world, 200)
    assert caller.how == ["timeout"]


def test_data_held_by_a_cut_arrives_after_the_reconnect(world, network, node):
    caller = connect(network, world)
    network.cut("clients", "n1")
    caller.line.send(b"late")
    node.line.reply(b"not cut")
    run(world, 60_000)
    assert not node.got
    assert caller.got == [b"not cut"]
    network.reconnect("clients", "n1")
    run(world, 10)
    assert node.got == [b"late"]


def test_two_cuts_of_one_direction_need_two_reconnects(world, network, node):
    network.cut("clients", "n1")
    network.cut("clients", "n1")
    network.reconnect("clients", "n1")
    assert network.is_cut(("clients", "n1"))
    network.reconnect("clients", "n1")
    assert not network.is_cut(("clients", "n1"))


def test_process_end_resets_at_once_and_power_loss_only_after_the_restart(world, network, node):
    killed = connect(network, world)
    network.process_ended("n1")
    run(world, 10)
    assert killed.how[0] in ("reset", "closed")

    silent = connect(network, world)
    node.is_powered = node.is_listening = False
    network.power_lost("n1")
    silent.line.send(b"anybody?")
    run(world, 10_000)
    assert not silent.how
    node.is_powered = True
    run(world, 2_000)
    assert silent.how == ["reset"]


def test_close_by_the_caller_reaches_the_node_after_its_requests(world, network, node):
    caller = connect(network, world)
    caller.line.send(b"last")
    caller.line.close()
    node.line.reply(b"too late")
    run(world, 100)
    assert node.got == [b"last"]
    assert node.ended == 1
    assert not caller.got
    assert not caller.how


def test_broken_connection_resets_both_ends_and_loses_data_in_flight(world, network, node):
    caller = connect(network, world)
    caller.line.send(b"lost")
    assert network.break_connections("n1", "clients", 100) == 1
    run(world, 100)
    assert not node.got
    assert node.ended == 1
    assert caller.how == ["reset"]
