"""The agent at work: waits, shows what happened to `supervision`, and does what that says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from slurm_resilience.agent import rank_processes
from slurm_resilience.agent.child import SHIELDED, Child
from slurm_resilience.agent.clerk import Clerk
from slurm_resilience.agent.doorbell import Doorbell
from slurm_resilience.agent.log import Log
from slurm_resilience.agent.notice import (
    CommandEnded,
    EndMoved,
    Event,
    Moment,
    NewerAttempt,
    Ordered,
    RankLost,
    RanksSeen,
    Seen,
    Signalled,
    StopFileTouched,
    Tick,
)
from slurm_resilience.agent.owned_tree import OwnedTree
from slurm_resilience.agent.supervision import (
    Action,
    Forward,
    KillTree,
    Rules,
    ShowStop,
    State,
    all_done,
    next_look_s,
    observe,
    writers_time_s,
)
from slurm_resilience.agent.witness import Witness
from slurm_resilience.clock import Clock
from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.signals.runtime_folder import StopPageWriter
from slurm_resilience.signals.stop_request import StopRequest
from slurm_resilience.signals.time_left import Bearing

LATE_S = 0.3
"""How long after the command its signal may still be on its way to us."""
LATE_AFTER_A_SIGNAL_S = 3.0
"""The same where it died of a signal that Slurm sends: a busy node hands one to its processes seconds apart."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What the loop acts with."""

    child: Child
    tree: OwnedTree
    doorbell: Doorbell
    clerk: Clerk
    witness: Witness
    stop_page: StopPageWriter
    log: Log
    clock: Clock
    bearing: Bearing
    """Taken at the agent's start: the wall clock is not read again for anything that has a deadline."""


class Loop:
    def __init__(self, rules: Rules, kind: CommandKind, tools: Tools) -> None:
        self.state = State()
        self.rules = rules
        self._kind = kind
        self.tools = tools
        self._said_done = False

    def hear(self, seconds: float) -> None:
        """Wait for signals, not longer than `seconds`, and take them in."""
        for name in self.tools.doorbell.wait(seconds):
            self.tools.witness.signalled(name, self.tools.clock.now_s())
            self._show(Signalled(name))
            self.tools.clerk.hand(self.tools.witness.record)

    def run(self) -> None:
        """Return when the command has ended, or was killed as far as that can be done; `state` holds how."""
        self._look()  # the command may have ended before anybody listened for that
        while self.state.code is None and self.state.kill is None:
            self.hear(next_look_s(self.rules, self.state, self._now()))
            self._look()

    def sweep(self, seconds: float) -> None:
        """The command has ended: what it left behind may leave by itself within `seconds`, then it is killed."""
        end_s = self.tools.clock.monotonic_s() + seconds
        while self.tools.tree.left() and self.tools.clock.monotonic_s() < end_s:
            self.hear(0.05)
        self._let_writers_finish()
        self._kill("what the command left behind", lambda count: count > 0, spare_writers=False)

    def _let_writers_finish(self) -> None:
        """A checkpoint that is being written outlives its ranks: they took the snapshot, others may finish it."""
        tools = self.tools
        end_s = tools.clock.monotonic_s() + writers_time_s(self.rules, self.state, self._now())
        told = False
        while writing := tools.tree.writing():
            left_s = end_s - tools.clock.monotonic_s()
            if left_s <= 0:
                tools.log.say("its time is over: the checkpoint that was being written is lost, the last one counts")
                return
            if not told:
                told = True
                tools.log.say(f"{len(writing)} of the ranks' writers finish their checkpoint, {left_s:.0f} s at most")
            for name in tools.doorbell.wait(0.05):
                tools.witness.signalled(name, tools.clock.now_s())
                if name == "SIGTERM":  # the kill is counted from here
                    end_s = min(end_s, tools.clock.monotonic_s() + self.rules.times.after_termination_s)
            tools.child.reap()

    def _look(self) -> None:
        tools = self.tools
        tools.child.reap()
        pages = rank_processes.seen_pages(tools.tree.runtime)
        if tools.child.code is not None:
            self._hear_what_may_have_ended_it()
            self._show(CommandEnded(tools.child.code, self.state.pages if pages is None else pages))
        elif pages is not None:
            if self.rules.ranks is None:  # torchrun counted them
                self.rules = replace(self.rules, ranks=rank_processes.local_world_size(pages))
            self._show(RanksSeen(pages))
            self._show(RankLost(rank_processes.lost_rank(self._kind, tools.child.pid, pages)))
        if pages is not None and tools.witness.saw(pages, tools.clock.monotonic_s()):
            tools.clerk.hand(tools.witness.record)
        while not tools.clerk.seen.empty():
            self._note(seen := tools.clerk.seen.get())
            self._show(seen)
        self._show(Tick())
        self._say_when_done()

    def _note(self, seen: Seen) -> None:
        tools = self.tools
        match seen:
            case EndMoved(end):
                tools.log.say(f"the end of the job's time has moved: {end.end_s - self._now().wall_s:.0f} s from now")
            case NewerAttempt(number):
                tools.witness.fenced(number, tools.clock.now_s())
                tools.clerk.hand(tools.witness.record)
            case Ordered() | StopFileTouched():
                pass

    def _hear_what_may_have_ended_it(self) -> None:
        """Where Slurm signals every process, the command may have died of it before we heard: a crash it is not."""
        of_a_signal = self.tools.child.code in {128 + number for number in SHIELDED}
        end_s = self.tools.clock.monotonic_s() + (LATE_AFTER_A_SIGNAL_S if of_a_signal else LATE_S)
        while self.state.stop is None and self.state.kill is None:
            left_s = end_s - self.tools.clock.monotonic_s()
            if left_s <= 0 or all_done(self.state.pages, self.rules.ranks):
                return
            self.hear(left_s)

    def _show(self, event: Event) -> None:
        self.state, actions = observe(self.rules, self.state, event, self._now())
        for action in actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case ShowStop(request, fresh):
                self.tools.stop_page.write(request)  # memory: before anything that could wait
                self.tools.witness.asked(request, self.tools.clock.now_s())
                self.tools.clerk.hand(self.tools.witness.record)
                self.tools.log.say(self._stop_line(request, fresh))
            case Forward(name):
                told = rank_processes.forward(
                    name, self._kind, self.tools.child.pid, self.state.pages, self.tools.tree.guardian
                )
                if told:
                    self.tools.log.say(f"{name} handed on to {_named(told)}")
            case KillTree(_, because):
                self._kill(because, lambda _: True)
                self._look()

    def _kill(self, because: str, worth_saying: Callable[[int], bool], *, spare_writers: bool = True) -> None:
        count = len(self.tools.tree.left())
        if not worth_saying(count):
            return
        self.tools.log.say(f"{because}: killing {count} process{'' if count == 1 else 'es'}")
        writing = self.tools.tree.writing() if spare_writers else frozenset()
        left = self.tools.tree.kill(spare=writing)
        if writing:
            self._let_writers_finish()
            left = self.tools.tree.kill()
        if left:
            self.tools.log.say(f"{left} of them can't be killed: they wait for a device or a file system")

    def _stop_line(self, request: StopRequest, fresh: bool) -> str:
        left_s = request.deadline_s - self.tools.clock.monotonic_s()
        left = f"{left_s:.0f} s left" if left_s != float("inf") else "no deadline"
        return f"{request.because}: asking the ranks to stop, {left}" if fresh else f"the deadline came nearer: {left}"

    def _say_when_done(self) -> None:
        if self._said_done or not all_done(self.state.pages, self.rules.ranks):
            return
        self._said_done = True
        steps = {page.stopped_after_step for page in self.state.pages if page.stopped_after_step >= 0}
        if steps:
            after = ", ".join(str(step) for step in sorted(steps))
            self.tools.log.say(f"all {len(self.state.pages)} ranks stopped after step {after}")

    def _now(self) -> Moment:
        monotonic_s = self.tools.clock.monotonic_s()
        return Moment(monotonic_s, self.tools.bearing.wall_s(monotonic_s))


def _named(pids: list[int]) -> str:
    return f"process {pids[0]}" if len(pids) == 1 else f"processes {', '.join(map(str, pids))}"
