"""`yak serve --cores`: the brokers of one machine, each a child process with the options of this command and its own."""

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yak.commands.app import as_arguments
from yak.commands.options import Globals
from yak.commands.serve import Resolution, ServeFlags, print_resolved
from yak.local.cores.plan import CoreBroker, MachinePlan, bad_cores, hold_port, parse_cores, plan_machine

if TYPE_CHECKING:
    from yak.server.options import ServeOptions


def run_cores(g: Globals, flags: ServeFlags, options: "ServeOptions", resolved: Resolution, text: str) -> bool:
    """Run the brokers of `--cores` until they end; False when it is one, which is this process.

    Raises UsageError (`bad-cores`), StartRefused (`cores-data`), and SystemExit with the exit code of the brokers.
    """
    cores = parse_cores(text)
    if cores == 1:
        return False
    if flags.kafka_env:
        raise bad_cores("--cores and --kafka-env exclude each other", "the variables of Kafka's image name one broker")
    if flags.dry_run:
        plan = plan_machine(options, cores, lambda _host, port, _is_shared: port, secret_file=flags.cluster_secret_file)
        print_resolved(g, options, resolved, [_row(plan, broker) for broker in plan.brokers])
        return True
    with ExitStack() as held:
        plan = plan_machine(options, cores, partial(hold_port, held), secret_file=flags.cluster_secret_file)
        arguments = [_arguments(g, flags, options, plan, broker, resolved) for broker in plan.brokers]
        code = _serve(options, plan, arguments)
    if code:
        raise SystemExit(code)
    return True


def _row(plan: MachinePlan, broker: CoreBroker) -> dict[str, object]:
    listeners = ",".join(map(str, broker.listeners.bound))
    return {
        "name": f"core.{broker.index}",
        "value": f"node {broker.node_id}, {plan.rack}, {listeners}, {','.join(broker.data_dirs)}",
        "origin": "flag --cores",
    }


def _arguments(
    g: Globals,
    flags: ServeFlags,
    options: "ServeOptions",
    plan: MachinePlan,
    broker: CoreBroker,
    resolved: Resolution,
) -> list[str]:
    """The arguments of one broker: those of this command, and its own after them."""
    configs = dict(plan.configs)
    configs["listeners"] = ",".join(map(str, broker.listeners.bound))
    configs["advertised.listeners"] = ",".join(map(str, broker.listeners.advertised))
    protocols = "listener.security.protocol.map"
    if protocols in resolved.configs:
        configs[protocols] = resolved.configs[protocols][0]
    own = replace(
        flags,
        host=None,
        port=None,
        advertised=None,
        cores="1",  # over YAK_CORES
        dry_run=False,
        rack=plan.rack,
        no_http=broker.http_port is None,
        node_id=str(broker.node_id),
        data_dir=broker.data_dirs,
        ready_file=broker.ready_file,
        listen=(),
        advertise=(),
        http_port=None if broker.http_port is None else str(broker.http_port),
        configs=(*flags.configs, *(f"{name}={value}" for name, value in configs.items())),
    )
    if plan.voters is not None:
        own.metadata, own.voters, own.cluster_secret_file = options.metadata, plan.voters, plan.secret_file
    return [*as_arguments(g.flags), "serve", *as_arguments(own)]


def _serve(options: "ServeOptions", plan: MachinePlan, arguments: list[list[str]]) -> int:
    from yak.local.cores.supervisor import Supervisor, spawn_bound, supervise
    from yak.local.spawn import yak_argv
    from yak.private_files import make_directory
    from yak.server import log

    log.set_up(options.log_format, options.log_level, log.LastingStream(sys.stderr))
    for broker in plan.brokers:
        for folder in broker.data_dirs:
            make_directory(os.path.dirname(folder), is_ours=_are_ours)
    if plan.secret_file is not None:
        _make_secret(plan)

    def spawn(index: int) -> Any:
        Path(plan.brokers[index].ready_file).unlink(missing_ok=True)
        return spawn_bound(yak_argv(*arguments[index]))

    supervisor = Supervisor(
        [broker.node_id for broker in plan.brokers],
        spawn,
        lambda index: os.path.exists(plan.brokers[index].ready_file),
        partial(_say_ready, options, plan),
    )
    try:
        return supervise(supervisor)
    finally:
        if options.ready_file is not None:
            Path(options.ready_file).unlink(missing_ok=True)


def _say_ready(options: "ServeOptions", plan: MachinePlan) -> None:
    from yak.config.listeners import bracketed
    from yak.private_files import replace_file
    from yak.server import log
    from yak.server.service_manager import report_ready

    report_ready()
    bootstrap = ",".join(f"{each.name}://{each.host}:{each.port}" for each in plan.bootstrap)
    log.write("info", "machine-ready", {"bootstrap": bootstrap, "brokers": len(plan.brokers), "rack": plan.rack})
    if options.ready_file is None:
        return
    brokers = []
    for broker in plan.brokers:
        with open(broker.ready_file, encoding="utf-8") as file:
            brokers.append(json.load(file))
    advertised = options.all_listeners().inter_broker
    shared = next(each for each in plan.bootstrap if each.name == advertised.name)
    ready = brokers[0] | {
        "address": f"{bracketed(advertised.host)}:{advertised.port or shared.port}",
        "pid": os.getpid(),
        "brokers": brokers,
    }
    replace_file(options.ready_file, f"{json.dumps(ready)}\n".encode())


def _make_secret(plan: MachinePlan) -> None:
    """Make the secret that the brokers of a quorum share, unless one was given or made before."""
    from yak.local.quorum import new_secret, stored_secret
    from yak.private_files import replace_file

    assert plan.secret_file is not None
    if os.path.exists(plan.secret_file):
        return
    line = stored_secret(plan.brokers[0].data_dirs[:1]) or new_secret()
    replace_file(plan.secret_file, f"{line}\n".encode())


def _are_ours(names: list[str]) -> bool:
    return all(name.startswith(("core-", "cluster.secret")) for name in names)
