"""Preflight from its first word to its report: one step, one process on each node, phase after phase, each bounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slurm_resilience.clock import Clock, SystemClock
from slurm_resilience.errors import CommandMissing
from slurm_resilience.launch.host_list import expand
from slurm_resilience.preflight.conversation import Conversation, Interrupted
from slurm_resilience.preflight.drain import drain_lines
from slurm_resilience.preflight.gathering import Gathering, judged_across, run_rounds
from slurm_resilience.preflight.report import Report
from slurm_resilience.preflight.request import CLOCK, PRESENCE, PreflightRequest, Registry
from slurm_resilience.preflight.result import Outcome, Problem, Result, broken, fail, ok
from slurm_resilience.preflight.srun_step import last_word
from slurm_resilience.preflight.step import Step
from slurm_resilience.preflight.timekeeping import compare_clocks
from slurm_resilience.preflight.verdict import Verdict, could_not_run, judge
from slurm_resilience.preflight.wire import context_value

RESTARTS = 2
"""How often the step is started again without nodes on which srun could not start it."""
LEAVE_S = 3.0
"""How long the nodes have to leave by themselves."""
_ANSWER = "look there (scontrol show node, ping, dmesg), and leave the node out until it is known what ails it"


@dataclass(slots=True)
class Course:
    """What has come out so far; the phases add to it."""

    talk: Conversation
    expected: tuple[str, ...]
    results: list[Result] = field(default_factory=list)
    offsets_s: dict[str, float] = field(default_factory=dict)
    errors_s: dict[str, float] = field(default_factory=dict)


def preflight(
    request: PreflightRequest,
    step: Step,
    registry: Registry,
    *,
    clock: Clock | None = None,
    say: Callable[[str], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
    under_slurm: bool = True,
    job: tuple[str | None, int] = (None, 0),
) -> Report:
    """Look at the nodes of `step`. Whatever hangs, it comes back; when `stopped` says so, within seconds.

    Raises nothing that a node, a check or srun could cause: then the report says that it could not run.
    """
    clock = clock or SystemClock()
    started_s, began_s = clock.now_s(), clock.monotonic_s()
    course = Course(Conversation(step, clock, stopped), step.nodes)
    try:
        verdict = _conduct(request, course, registry, say)
    except Interrupted:
        verdict = could_not_run("interrupted")
    except CommandMissing as error:
        verdict = could_not_run(str(error))
    finally:
        course.talk.step.stop(LEAVE_S)
    if course.talk.job is not None:
        job = course.talk.job, course.talk.restart
    return Report(
        outcome=verdict.outcome,
        exit_code=int(verdict.exit_code),
        sentence=verdict.sentence,
        job=job[0],
        restart=job[1],
        nodes=course.expected,
        started_s=started_s,
        took_s=clock.monotonic_s() - began_s,
        results=tuple(course.results),
        clock_offsets_s=course.offsets_s,
        clock_errors_s=course.errors_s,
        exclude=verdict.exclude,
        drain=drain_lines(course.results, verdict.exclude) if under_slurm else (),
    )


def _conduct(request: PreflightRequest, course: Course, registry: Registry, say: Callable[[str], None]) -> Verdict:
    say("waiting for the nodes")
    end_s = _gather_nodes(request, course, say)
    talk = course.talk
    if not talk.nodes:
        return could_not_run(_why_nobody(talk))
    heard = {each.card.node for each in talk.nodes.values()}
    if not any(each.ready for each in talk.nodes.values()):
        # Where srun can't be started again without the silent ones, the others can't be asked anything.
        course.results += _presence(request, course)
        silent = [node for node in course.expected if node not in heard]
        return judge(course.results, course.expected) if silent else could_not_run("no node hears what it is told")
    for each in talk.nodes.values():
        each.lost = None if each.ready else "does not hear what it is told"
    cards = [card for _, card in sorted(talk.living.items())]
    say(f"{len(cards)} of {len(course.expected)} nodes answer; comparing their clocks")
    _clocks(request, course, end_s)
    baselines = registry.baselines([card.node for card in cards])
    gathering = Gathering(talk, request, end_s, course.results, say)
    gathering.run_checks([check for check in registry.checks if request.wants(check.name)], baselines)
    rounds = registry.rounds(
        all_reduce=request.all_reduce,
        run_dir=request.run_dir,
        baselines=baselines,
        time_limit_s=request.time_limit_s,
    )
    run_rounds(gathering, [each for each in rounds if request.wants(each.name)])
    talk.say({"kind": "bye"})
    course.results[:0] = _presence(request, course)
    course.results += judged_across(registry, course.results, request)
    registry.record(course.results)
    return judge(course.results, course.expected)


def _gather_nodes(request: PreflightRequest, course: Course, say: Callable[[str], None]) -> float:
    """Start the step and hear everybody's card; where srun can't start it on some node, again without that one.

    The end of all time, on the monotonic clock.
    """
    began_s = _start(request, course, say)
    for _ in range(RESTARTS):
        talk = course.talk
        silent = _silent(talk)
        if not silent or not (talk.nodes or silent <= set(talk.complaints)) or _hears_us(talk):
            break
        smaller = talk.step.without(silent)
        if smaller is None:
            break
        say(f"no word from {', '.join(sorted(silent))}: going on without")
        talk.step.stop(0.0)
        course.talk = Conversation(smaller, talk.clock, talk.stopped, complaints=talk.complaints, aside=talk.aside)
        _start(request, course, say)
    return began_s + request.time_limit_s


def _start(request: PreflightRequest, course: Course, say: Callable[[str], None]) -> float:
    """Until all are ready, or the limit. When it began, on the monotonic clock."""
    talk = course.talk
    talk.step.start()
    talk.say({"kind": "hello", "context": context_value(request.context())})
    if talk.step.queues:
        _wait_in_the_queue(talk, say)
    began_s = talk.clock.monotonic_s()

    def everybody() -> bool:
        course.expected = course.expected or _names_of(talk)
        wanted = len(talk.step.nodes or course.expected)
        ready = wanted > 0 and len(talk.nodes) >= wanted and _hears_us(talk)
        return ready or bool(_unlaunched(talk))

    talk.listen(everybody, began_s + min(request.start_limit_s, request.time_limit_s))
    course.expected = course.expected or _names_of(talk)
    return began_s


def _wait_in_the_queue(talk: Conversation, say: Callable[[str], None]) -> None:
    """Slurm says how long; a person at the terminal may lose patience, we don't."""
    told = ""
    while not talk.listen(lambda: bool(talk.nodes), talk.clock.monotonic_s() + 1.0) and not talk.step.over:
        if talk.aside and talk.aside[-1] != told:
            told = talk.aside[-1]
            say(told)


def _silent(talk: Conversation) -> set[str]:
    """Those that srun could not start, or else everybody of whom nothing was heard."""
    heard = {each.card.node for each in talk.nodes.values()}
    return _unlaunched(talk) or {node for node in talk.step.nodes if node not in heard}


def _unlaunched(talk: Conversation) -> set[str]:
    """srun gives a step up on all nodes when it could not start it on one: no use in waiting for more."""
    return {node for node in talk.step.nodes if node in talk.complaints and talk.complaints[node].launch}


def _hears_us(talk: Conversation) -> bool:
    return bool(talk.nodes) and all(each.ready for each in talk.nodes.values()) and not _unlaunched(talk)


def _names_of(talk: Conversation) -> tuple[str, ...]:
    """The step's nodes as the nodes know them, for where nobody could say it before."""
    if not talk.nodes:
        return ()
    heard = [card.node for _, card in sorted(talk.living.items())]
    listed = expand(talk.step_nodes) if talk.step_nodes else []
    return tuple(dict.fromkeys([*listed, *heard]))


def _why_nobody(talk: Conversation) -> str:
    said = last_word(talk.aside) or next((lines[-1] for lines in talk.noise.values() if lines), None)
    return f"no node has answered: {said}" if said else "no node has answered"


def _presence(request: PreflightRequest, course: Course) -> list[Result]:
    """Who said nothing, who was lost on the way, and that all others were there."""
    talk = course.talk
    by_node = {each.card.node: (task, each) for task, each in talk.nodes.items()}
    results = []
    for number, node in enumerate(course.expected):
        known = by_node.get(node)
        if known is None:
            complaint = talk.complaints.get(node)
            noise = talk.noise.get(number) if len(talk.step.nodes) == len(course.expected) else None
            why = complaint.why if complaint else "its preflight process did not start or can't be heard"
            last = f" ({noise[-1][:200]})" if noise else ""
            limit = "" if complaint else f" within {request.start_limit_s:g} s"
            finding = fail(Problem.NODE, f"{node} said nothing{limit}: {why}{last}", _ANSWER)
        elif not any(each.ready for each in talk.nodes.values()):
            finding = broken("it is there, but can't be asked anything before all nodes are")
        elif known[1].lost is not None:
            finding = fail(Problem.NODE, f"{node} {known[1].lost}", _ANSWER)
        else:
            finding = ok("it answered from the beginning to the end")
        results.append(Result(PRESENCE, node, finding))
    if request.wants(PRESENCE):
        return results
    return [each for each in results if each.finding.outcome is not Outcome.OK]


def _clocks(request: PreflightRequest, course: Course, end_s: float) -> None:
    offsets, results = compare_clocks(course.talk, course.expected, end_s)
    course.offsets_s = {node: offset.seconds for node, offset in offsets.items()}
    course.errors_s = {node: offset.error_s for node, offset in offsets.items()}
    if request.wants(CLOCK):
        course.results += results
