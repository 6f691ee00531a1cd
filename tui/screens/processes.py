"""Brokers' processes on this machine: killed, paused, restarted and resumed, after a question."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from textual import work

from yak.errors import YakError
from yak.tui.rows.failover import REDIS, Processes, sole_in_sync
from yak.tui.screens.base import YakScreen
from yak.tui.source.local_control import LocalClusterControl
from yak.tui.state.picture import Picture

End = Literal["kill", "pause", "restart"]
_LOCAL_ACTIONS: Final = ("kill", "pause", "resume", "restart", "add")
_AFTER: Final[dict[End, str]] = {
    "kill": "It ends at once{pid}, as in a crash. U starts it again on its data.",
    "pause": "It stops answering{pid}; its connections stay open. U resumes it.",
    "restart": "It hands over its leaders, stops{pid}, and is started again.",
}
_REDIS: Final = (
    "It ends at once, as in a crash; what it holds is on its disk. Records flow on without it, only changes of topics "
    "and leaders wait. U starts it again."
)


class ControlsBrokers(YakScreen):
    """A screen whose cursor is on a broker's process, or on a partition that a broker leads."""

    NO_PROCESS = "put the cursor on a broker"
    processes: Processes | None = None
    """As they were seen last; None on screens that do not show them."""

    def chosen_process(self) -> str | None:
        """The node id under the cursor, or `redis`."""
        raise NotImplementedError

    def process_to_resume(self) -> str | None:
        """The one to resume or start; None: all that are down."""
        return self.chosen_process()

    @property
    def control(self) -> LocalClusterControl | None:
        """The control of local processes; None if the brokers are not ours."""
        return self.app.source.local

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide process actions unless `yak up` started the brokers here."""
        if action in _LOCAL_ACTIONS and self.control is None:
            return False
        return super().check_action(action, parameters)

    async def read_processes(self) -> Processes | None:
        """The processes now. None if their state cannot be read: the same error prevents actions, and is shown then."""
        control = self.control
        if control is None:
            return None
        try:
            status = await asyncio.to_thread(control.status)
            redis_pid = await asyncio.to_thread(control.redis_pid)
        except YakError:
            return None
        return Processes({each.node_id: each for each in status.brokers}, status.redis_running, redis_pid)

    @work(group="drill")
    async def action_kill(self) -> None:
        await self.end("kill", self.chosen_process())

    @work(group="drill")
    async def action_pause(self) -> None:
        await self.end("pause", self.chosen_process())

    @work(group="drill")
    async def action_restart(self) -> None:
        await self.end("restart", self.chosen_process())

    async def end(self, action: End, chosen: str | None) -> None:
        control, processes = self.control, self.processes  # known already: the question must open before the next key
        if chosen is None or control is None or (chosen == REDIS and (action != "kill" or processes is None)):
            self.app.notice(self.NO_PROCESS)
        elif chosen == REDIS and processes is not None:
            command = f"kill -9 {processes.redis_pid}"
            if await self.confirmed("Kill the metadata store", _REDIS, command=command, yes="Kill"):
                await self.carry_out(command, asyncio.to_thread(control.stop_redis))
        else:
            node = int(chosen)
            text, title, yes = end_question(action, node, self.picture, processes)
            command = control.command(f"node {action} {node}")
            if await self.confirmed(title, text, command=command, yes=yes):
                done: Callable[[int], object] = getattr(control, action)
                await self.act(action, node, command, partial(done, node))

    async def act(self, action: End, node: int, command: str, done: Callable[[], object]) -> bool:
        """Do it, and record it as a command; returns whether it succeeded."""
        del action, node
        return await self.carry_out(command, asyncio.to_thread(done))

    @work(group="drill")
    async def action_resume(self) -> None:
        """Repair the chosen process if it is down, else all that are."""
        control, processes = self.control, self.processes or await self.read_processes()
        if control is None or processes is None:
            return
        plan = resume_plan(self.process_to_resume(), processes, control)
        if not plan:
            self.app.notice("nothing to resume: all processes run")
            return
        text, command = "\n".join(each.text for each in plan), " && ".join(each.command for each in plan)
        if await self.confirmed("Resume", text, command=command, yes="Resume"):
            for each in plan:
                await self.carry_out(each.command, asyncio.to_thread(each.action))

    @work(group="drill")
    async def action_add(self) -> None:
        control = self.control
        if control is None:
            return
        text = "It starts empty and gets no partition until topics are created or replicas are moved to it."
        command = control.command("node add")
        if await self.confirmed("Add a broker", text, command=command, yes="Add"):
            await self.carry_out(command, asyncio.to_thread(control.add))


def end_question(action: End, node: int, picture: Picture, processes: Processes | None) -> tuple[str, str, str]:
    """Text, title, and the label of yes."""
    unsafe = sole_in_sync(picture, node)
    leads = sum(each.leader == node for each in picture.partitions.values())
    process = processes.brokers.get(node) if processes is not None else None
    pid = "" if process is None else " (no process)" if process.pid is None else f" (process {process.pid})"
    text = f"It leads {leads} of {len(picture.partitions)} partitions. "
    if node == picture.controller_id:
        text += "It is the controller: another broker is elected. "
    text += _AFTER[action].format(pid=pid)
    if unsafe:
        names = ", ".join(unsafe[:3]) + (" and others" if len(unsafe) > 3 else "")
        text += f"\nNo other replica in sync could lead {names}: offline until it is back."
    return text, f"{action.capitalize()} broker {node}", action.capitalize()


@dataclass(frozen=True, slots=True)
class Remedy:
    """One repair."""

    text: str
    command: str
    action: Callable[[], object]


def resume_plan(chosen: str | None, processes: Processes, control: LocalClusterControl) -> list[Remedy]:
    """Repairs for the chosen broker if it is down, else for all. A stopped Redis comes first: brokers need it."""
    plan: list[Remedy] = []
    if processes.redis_running is False:
        plan.append(Remedy("Redis is started again on its data.", control.command("up -d"), control.start_redis))
        if chosen == REDIS:
            return plan
    broken = [node for node, each in sorted(processes.brokers.items()) if each.state in ("paused", "dead", "stopped")]
    if chosen is not None and chosen != REDIS and int(chosen) in broken:
        broken = [int(chosen)]
    action: Callable[[int], object]
    for node in broken:
        if processes.brokers[node].state == "paused":
            text, command, action = f"Broker {node} goes on.", f"resume {node}", control.resume
        else:
            text, command, action = f"Broker {node} is started again on its data.", f"restart {node}", control.restart
        plan.append(Remedy(text, control.command(f"node {command}"), partial(action, node)))
    return plan
