"""`yak sim`: run, quorum, mutants, model. Each has a file of its own."""

from yak.commands.app import CommandGroup
from yak.commands.sim_model import model
from yak.commands.sim_mutants import mutants
from yak.commands.sim_quorum import quorum
from yak.commands.sim_run import run

sim = CommandGroup(
    "sim",
    "Run the broker in the deterministic simulator.",
    examples=(
        "yak sim run --seed 81723",
        "yak sim run --brokers 3 --seeds 200",
        "yak sim run --seed 5 --lines | less",
        "yak sim quorum --seeds 200",
        "yak sim mutants",
    ),
    leaves={"run": run, "quorum": quorum, "mutants": mutants, "model": model},
)
