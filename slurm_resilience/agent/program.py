"""The agent from its first to its last line: sets up, runs the loop, tells how it ended."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
from pathlib import Path

from slurm_resilience.agent import deputy
from slurm_resilience.agent.child import SHIELDED, Child
from slurm_resilience.agent.clerk import Clerk
from slurm_resilience.agent.command_line import command, environment
from slurm_resilience.agent.doorbell import BLOCKED_AT_START, Doorbell
from slurm_resilience.agent.guardian import Guardian
from slurm_resilience.agent.log import Log
from slurm_resilience.agent.loop import Loop, Tools
from slurm_resilience.agent.meeting import met
from slurm_resilience.agent.owned_tree import OwnedTree
from slurm_resilience.agent.place import Place, place
from slurm_resilience.agent.process_tree import become_subreaper
from slurm_resilience.agent.runtime import folder_name, make_runtime_folder
from slurm_resilience.agent.supervision import Forwarding, Rules
from slurm_resilience.agent.verdict import Verdict, judge, not_started, stopped_before_start
from slurm_resilience.agent.witness import Witness
from slurm_resilience.clock import SystemClock
from slurm_resilience.errors import EXIT_CONFIGURATION, ConfigurationError, ResilienceError
from slurm_resilience.launch.plan import CommandKind, Plan, read_plan
from slurm_resilience.manifest.agent_record import AgentRecord, Outcome
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.runtime_folder import StopPageWriter
from slurm_resilience.signals.time_left import take_bearing

RECORD_S = 10.0
"""How long the last record may take: after that the supervisor must do without."""
DEPUTY_S = 60.0
DEPUTY_LEAST_S = 10.0
PAGES_FOR_UNKNOWN = 64
"""Reserved where torchrun counts the ranks; one beyond them makes its page itself, unreserved."""
LAG_WORTH_SAYING_S = 2.0
SOFTWARE = 70
"""The agent itself failed (EX_SOFTWARE)."""


def main() -> None:
    """The caller has blocked the signals of `BLOCKED_AT_START`."""
    if len(sys.argv) != 2:
        Log("?").say("usage: python -m slurm_resilience.agent PLAN_JSON")
        os._exit(EXIT_CONFIGURATION)
    log = Log("?")
    try:
        plan = read_plan(Path(sys.argv[1]))
        here = place(plan.kind, os.environ)
        log = Log(here.name)
        code = run_agent(plan, here, log)
    except ResilienceError as error:
        log.say(str(error))
        code = error.exit_code
    except OSError as error:  # no process to be had, say: nothing was started, and the guardian, if any, tidies up
        log.say(f"the node agent can't start: {error}")
        code = SOFTWARE
    os._exit(code)  # the clerk may hang in a file system that doesn't answer; nobody waits for it


def rules(plan: Plan) -> Rules:
    signal_name: str | None = None
    if plan.forward_signal is not None:
        forwarding, signal_name = Forwarding.CHOSEN, f"SIG{plan.forward_signal.removeprefix('SIG')}"
        if signal_name not in signal.Signals.__members__:
            raise ConfigurationError(f"there is no signal {plan.forward_signal!r} to hand on")
    else:
        forwarding = Forwarding.AS_IT_CAME if plan.kind is CommandKind.TASK else Forwarding.NOT
    return Rules(
        times=plan.times,
        ranks=1 if plan.kind is CommandKind.TASK else _number_of_ranks(plan),
        forwarding=forwarding,
        forward_signal=signal_name,
        end_s=plan.end_s,
        stop_before_end_s=plan.stop_before_end_s,
        over_time_limit_s=plan.over_time_limit_s,
    )


def _number_of_ranks(plan: Plan) -> int | None:
    """None: `gpu`, `cpu` or `auto`, which torchrun counts on the node."""
    return plan.nproc_per_node if isinstance(plan.nproc_per_node, int) else None


def shielded(rules: Rules) -> frozenset[signal.Signals]:
    """What is blocked in the tree: Slurm's signals, but for the one that somebody in there is to hear from us."""
    match rules.forwarding:
        case Forwarding.NOT:
            return SHIELDED
        case Forwarding.CHOSEN:
            return SHIELDED - {signal.Signals[str(rules.forward_signal)]}
        case Forwarding.AS_IT_CAME:
            return frozenset()


def run_agent(plan: Plan, here: Place, log: Log) -> int:
    """From the runtime folder to its removal. Raises ConfigurationError before anything was started."""
    settled = met(plan, here)
    argv = command(settled, here.node_id) if settled is not None else []
    name = folder_name(plan.run_id, plan.attempt, here.node_id, here.local_task)
    pages = _number_of_ranks(plan) or PAGES_FOR_UNKNOWN
    local_ranks = range(pages) if here.local_task is None else [here.local_task]
    obeyed = rules(plan)
    runtime = make_runtime_folder(Path(plan.runtime_parent), name, local_ranks, log)
    marker = f"{plan.run_id}.{plan.attempt}.{here.slot}.{secrets.token_hex(8)}"
    guardian = Guardian(marker, runtime)
    guardian.start()
    if not become_subreaper():
        log.say("this kernel has no subreapers: a process that leaves its parents is found by its environment only")
    child = Child()
    tree = OwnedTree(marker, runtime, guardian.pid, child)
    with StopPageWriter(runtime) as stop_page:
        loop = _loop(plan, here, obeyed, tree, child, stop_page, log)
        try:
            verdict = _work(plan, obeyed, loop, argv, environment(plan, os.environ, runtime, marker))
        except Exception as error:  # noqa: BLE001  # a mistake of ours: the tree must not go on without us, unseen
            tree.kill()
            verdict = Verdict(Outcome.FAILED, SOFTWARE, f"the node agent failed: {type(error).__name__}: {error}")
        _tell(loop, verdict)
    _send_deputy(plan, here, loop)
    shutil.rmtree(runtime, ignore_errors=True)
    guardian.dismiss(seconds=1.0)
    return verdict.exit_code


def _loop(
    plan: Plan, here: Place, obeyed: Rules, tree: OwnedTree, child: Child, stop_page: StopPageWriter, log: Log
) -> Loop:
    clock = SystemClock()
    run = RunDirectory(Path(plan.run))
    doorbell = Doorbell()
    witness = Witness(AgentRecord(here.slot, here.host, os.getpid(), clock.now_s(), Outcome.RUNNING))
    clerk = Clerk(run, plan.attempt, here.slot, log, doorbell.ring, beat_s=plan.beat_s)
    bearing = take_bearing(monotonic_s=clock.monotonic_s(), wall_s=clock.now_s(), start_s=plan.start_s)
    if bearing.lag_s > LAG_WORTH_SAYING_S:
        log.say(f"this node's clock is {bearing.lag_s:.0f} s behind the controller's: reckoning with that")
    return Loop(obeyed, plan.kind, Tools(child, tree, doorbell, clerk, witness, stop_page, log, clock, bearing))


def _work(plan: Plan, obeyed: Rules, loop: Loop, argv: list[str], variables: dict[str, str]) -> Verdict:
    """Start the command unless a signal came first, and stay with it to its end and that of all it left behind."""
    tools = loop.tools
    failure: str | None = None
    early = signal.sigpending() & BLOCKED_AT_START - {signal.SIGCONT}
    if not early:  # one thread and every signal blocked, up to here
        try:
            tools.child.start(argv, variables, shielded(obeyed))
        except OSError as error:
            failure = f"{argv[0]} can't be started: {error.strerror}"
    tools.clerk.hand(tools.witness.record)
    tools.clerk.start()
    tools.doorbell.open()
    if early:
        loop.hear(0.0)
        return stopped_before_start("a signal came" if loop.state.stop is None else loop.state.stop.because)
    if failure is not None:
        return not_started(failure)
    loop.run()
    verdict = judge(loop.state, loop.rules.ranks)
    loop.sweep(_leave_s(plan, verdict, loop, tools.clock.monotonic_s()))
    return verdict


def _tell(loop: Loop, verdict: Verdict) -> None:
    tools = loop.tools
    if verdict.why is not None:
        tools.log.say(verdict.why)
    tools.witness.ended(verdict, loop.state.code, tools.clock.now_s())
    tools.clerk.hand(tools.witness.record)
    if not tools.clerk.settle(seconds=RECORD_S):
        tools.log.say("the record of this node could not be written in time")


def _leave_s(plan: Plan, verdict: Verdict, loop: Loop, now_s: float) -> float:
    """How long what the command left behind may still run: an uploader that finishes its work, say."""
    if verdict.outcome not in (Outcome.FINISHED, Outcome.STOPPED) or loop.state.newer is not None:
        return 0.0
    if loop.state.stop is None:
        return plan.times.leave_s
    return min(plan.times.leave_s, max(loop.state.stop.deadline_s - now_s, 0.0))


def _send_deputy(plan: Plan, here: Place, loop: Loop) -> None:
    if loop.state.newer is not None or not deputy.is_needed(plan, here.slot):
        return  # the end of a ghost is for nobody to conclude: its run goes on
    stop = loop.state.stop
    # After the deadline there are some seconds until Slurm's own kill: better tried and cut off than not tried.
    left_s = DEPUTY_S if stop is None else stop.deadline_s - loop.tools.clock.monotonic_s()
    seconds = min(DEPUTY_S, max(left_s, DEPUTY_LEAST_S))
    deputy.send(plan, RunDirectory(Path(plan.run)).attempt(plan.attempt), loop.tools.log, seconds=seconds)
