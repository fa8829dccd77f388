"""What an all-reduce in pairs and of all says about the nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slurm_resilience.preflight.result import Finding, Problem, Result, broken, fail, ok, warn
from slurm_resilience.preflight.round import Answer, Card
from slurm_resilience.preflight.rounds.blame import Pair, blame, slowest
from slurm_resilience.preflight.rounds.peers import listed

CHECK = "all-reduce"
SLOW_TIMES = 2.0
"""As dlrover's network check names a straggler."""
SLOW_S = 0.003
BASELINES = 3
"""So many must be recorded before a node is judged by them."""
JUDGED_BYTES = {"gloo": 4 << 20, "nccl": 64 << 20}
"""The size of which pairs are compared, and of which the baseline is."""
SIZES = {
    "gloo": (4 << 10, 256 << 10, 4 << 20, 16 << 20),
    "nccl": (4 << 10, 4 << 20, 64 << 20, 256 << 20, 1 << 30),
}
PAIR_SIZES = {backend: (64 << 10, size) for backend, size in JUDGED_BYTES.items()}
_NONE: Mapping[str, Any] = {}


def turns_of(ranks: int, *, one_by_one: bool) -> list[list[list[int]]]:
    """Groups that are at it at the same time, turn after turn; the group of all comes last.

    Each rank has two different partners. Nodes on one machine share its CPUs: their pairs take turns, or they would
    measure each other.
    """
    everybody = [list(range(ranks))]
    if ranks < 3:
        return [everybody]
    ring = [[rank, (rank + 1) % ranks] for rank in range(ranks)]
    # A ring's edges: in two colours, or in three, where one rank is left over in each turn.
    turns = [ring[0:-1:2], ring[1:-1:2], ring[-1:]] if ranks % 2 else [ring[0::2], ring[1::2]]
    turns = [[sorted(pair) for pair in turn] for turn in turns]
    if one_by_one and ranks <= 8:
        turns = [[pair] for turn in turns for pair in turn]
    return [*turns, everybody]


class Judgement:
    def __init__(
        self,
        tasks: Sequence[int],
        baselines: Mapping[str, Mapping[str, Any]],
        cards: Mapping[int, Card],
        answers: Mapping[int, Answer],
    ) -> None:
        self._baselines = baselines
        self._one_machine = len({cards[task].boot_id for task in tasks}) == 1
        self._nodes = [cards[task].node for task in tasks]
        self._answers = [answers.get(task) or Answer(None, "it did not answer") for task in tasks]
        self._said: list[Mapping[str, Any]] = [answer.values or _NONE for answer in self._answers]
        self._turns = turns_of(len(tasks), one_by_one=False)

    def results(self) -> list[Result]:
        absent = [rank for rank, said in enumerate(self._said) if said.get("stage") not in ("groups", "done")]
        if absent:
            return self._absent(absent)
        concerned: set[int] = set()
        results: list[Result] = []
        for found in (self._wrong(), self._failed(), self._slow(), self._against_baselines()):
            for ranks, finding in found:
                if not concerned & set(ranks):
                    concerned |= set(ranks)
                    node = self._nodes[ranks[0]] if len(ranks) == 1 else None
                    results.append(Result(CHECK, node, finding))
        for rank, node in enumerate(self._nodes):
            if rank not in concerned:
                results.append(Result(CHECK, node, self._fine(rank), self._answers[rank].took_s))
        return results

    def _absent(self, absent: list[int]) -> list[Result]:
        """Somebody did not come so far. Who can't reach the first node is named, unless nobody can."""
        first, hosts = self._nodes[0], self._said[0].get("stage") in ("store", "groups", "done")
        unreached = [rank for rank in absent if rank != 0 and hosts and self._was_connecting(rank)]
        if len(unreached) > 1 and len(unreached) == len(self._nodes) - 1:
            sentence = f"no node could join {first} for an all-reduce: {self._why(unreached[0])}"
            remedy = (
                f"let the job's other nodes in on all ports of {first} from 1024 up; see the checks of names and tcp"
            )
            return [Result(CHECK, first, fail(Problem.NODE, sentence, remedy))]
        return [
            Result(CHECK, self._nodes[rank], self._of_absent(rank, unreached))
            for rank in absent
            if hosts or rank == 0 or self._said[rank].get("stage") != "store"  # else it waited for the first one
        ]

    def _of_absent(self, rank: int, unreached: list[int]) -> Finding:
        node, said = self._nodes[rank], self._said[rank]
        if rank in unreached:
            sentence = f"{node} could not join {self._nodes[0]} for an all-reduce: {self._why(rank)}"
            return fail(Problem.NODE, sentence, f"see the checks of names and tcp of {node}")
        if said.get("stage") == "import" and said.get("error"):
            sentence = f"torch can't be loaded on {node}: {said['error']}"
            remedy = f"compare its installation on {node} with another node's: `python -c 'import torch'`"
            return fail(Problem.NODE, sentence, remedy)
        if said.get("stage") == "import":
            return broken(f"{node} was still loading torch when the time was up")
        return broken(f"no all-reduce on {node}: {self._why(rank)}")

    def _was_connecting(self, rank: int) -> bool:
        said = self._said[rank]
        return said.get("stage") == "store" and str(said.get("now")).startswith("connecting")

    def _why(self, rank: int) -> str:
        said = self._said[rank]
        now = f", while {said['now']}" if said.get("now") else ""
        error = said.get("error") or self._answers[rank].trouble or "its time was up"
        return f"{error}{now}"

    def _groups(self, *, size: int | None = 2) -> Iterable[tuple[int, tuple[int, ...], Mapping[str, Any]]]:
        for rank, said in enumerate(self._said):
            for group in said.get("groups", ()):
                if size is None or len(group["ranks"]) == size:
                    yield rank, tuple(group["ranks"]), group

    def _vote(self, bad: set[Pair]) -> Iterable[tuple[tuple[int, ...], str]]:
        """Ranks and their names, of whom or of which pair it is said; of all, where no pair shows it."""
        tried = {pair for turn in self._turns for pair in map(_pair, turn) if len(pair) == 2}
        verdict = blame(_both_ways(bad), _both_ways(tried))
        if verdict.everybody or not bad:
            yield tuple(range(len(self._nodes))), "all nodes"
            return
        for rank in verdict.nodes:
            yield (rank,), self._nodes[rank]
        for pair in verdict.pairs:
            yield pair, f"{self._nodes[pair[0]]} and {self._nodes[pair[1]]}"

    def _wrong(self) -> Iterable[tuple[tuple[int, ...], Finding]]:
        wrong = [
            (rank, ranks, measure)
            for rank, ranks, group in self._groups(size=None)
            for measure in group["measures"]
            if measure["wrong"]
        ]
        if not wrong:
            return
        worst = max(measure["wrong"] for _, _, measure in wrong)
        for ranks, who in self._vote({_pair(ranks) for _, ranks, _ in wrong if len(ranks) == 2}):
            sentence = (
                f"{who} got wrong sums in an all-reduce ({worst} of the numbers): memory, GPU or network corrupts data"
            )
            remedy = f"take {who} out of service and test memory and network there"
            yield ranks, fail(Problem.NODE, sentence, remedy, wrong=worst)

    def _failed(self) -> Iterable[tuple[tuple[int, ...], Finding]]:
        failed = {ranks: str(group["error"]) for _, ranks, group in self._groups(size=None) if group.get("error")}
        if not failed:
            expected = {_pair(group) for turn in self._turns for group in turn}
            if undone := expected - {ranks for _, ranks, _ in self._groups(size=None)}:
                who = listed([self._nodes[rank] for rank in sorted({rank for ranks in undone for rank in ranks})])
                yield tuple(range(len(self._nodes))), broken(f"the time was up before {who} had done their all-reduce")
            return
        pairs = {_pair(ranks) for ranks in failed if len(ranks) == 2}
        for ranks, who in self._vote(pairs):
            of_these = [why for group, why in failed.items() if set(ranks) & set(group)]
            sentence = f"an all-reduce with {who} failed: {of_these[0] if of_these else next(iter(failed.values()))}"
            if len(ranks) > 2 and not pairs:
                sentence = f"an all-reduce of all nodes failed, of pairs none did: {next(iter(failed.values()))}"
            remedy = "see the checks of names, tcp and interfaces; GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME choose one"
            yield ranks, fail(Problem.NODE, sentence, remedy)

    def _slow(self) -> Iterable[tuple[tuple[int, ...], Finding]]:
        times: dict[Pair, float] = {}
        for _, ranks, group in self._groups():
            if (seconds := self._judged_s(group)) is not None:
                times[_pair(ranks)] = min(times.get(_pair(ranks), seconds), seconds)
        verdict = slowest(times, times=SLOW_TIMES, least_s=SLOW_S)
        for rank, ratio in verdict.nodes.items():
            node = self._nodes[rank]
            sentence = f"{node} is slow: an all-reduce with it takes {ratio:.1f} times as long as among the others"
            remedy = f"look at load, clocks and network of {node}, or leave it out: every step waits for the slowest"
            yield (rank,), warn(Problem.NODE, sentence, remedy, times_the_median=round(ratio, 2))
        if self._one_machine:  # nothing lies between its nodes: a slow pair had a bad moment
            return
        for pair, ratio in verdict.pairs.items():
            who = f"{self._nodes[pair[0]]} and {self._nodes[pair[1]]}"
            sentence = f"an all-reduce between {who} takes {ratio:.1f} times as long as elsewhere in this job"
            remedy = f"look at what lies between {who}: a switch, an uplink"
            yield pair, warn(Problem.NODE, sentence, remedy, times_the_median=round(ratio, 2))

    def _against_baselines(self) -> Iterable[tuple[tuple[int, ...], Finding]]:
        """All nodes of a job slow together are not found by comparing them."""
        if self._one_machine:  # what its nodes can do depends on how many of them there are, and on what else it does
            return
        for rank, node in enumerate(self._nodes):
            metric = pair_metric(self._backend(rank))
            before, now = baseline_of(self._baselines.get(node, _NONE), metric), self._measured(rank).get(metric)
            if before is not None and now and before > SLOW_TIMES * now:
                ratio = before / now
                sentence = f"{node} is {ratio:.1f} times as slow in an all-reduce as it was before"
                remedy = f"look at load and network of {node}; if it is to stay like that, remove its baseline"
                yield (rank,), warn(Problem.NODE, sentence, remedy, **self._measured(rank))

    def _backend(self, rank: int) -> str:
        return str(self._said[rank].get("backend") or "gloo")

    def _judged_s(self, group: Mapping[str, Any]) -> float | None:
        """What the judged size takes; reckoned from the largest that was tried, where the link is too slow for it."""
        judged = JUDGED_BYTES.get(str(self._said[group["ranks"][0]].get("backend")), JUDGED_BYTES["gloo"])
        fitting = [measure for measure in group["measures"] if measure["bytes"] <= judged]
        if not fitting:
            return None
        largest = max(fitting, key=lambda measure: measure["bytes"])
        return float(largest["best_s"]) * judged / float(largest["bytes"])

    def _measured(self, rank: int) -> dict[str, Any]:
        backend = self._backend(rank)
        facts: dict[str, Any] = {"backend": backend}
        for whose, ranks, group in self._groups(size=None):
            if whose != rank:
                continue
            if len(ranks) == 2:
                seconds = self._judged_s(group)
                speed = 0 if seconds is None else round(JUDGED_BYTES[backend] / seconds)  # of two: 2(n-1)/n is 1
                facts[pair_metric(backend)] = max(facts.get(pair_metric(backend), 0), speed)
            if len(ranks) == len(self._nodes):
                facts["job_median_s"] = {f"{measure['bytes']}": measure["median_s"] for measure in group["measures"]}
                facts["job_bus_bytes_per_s"] = max((m["bus_bytes_per_s"] for m in group["measures"]), default=0)
        return facts

    def _fine(self, rank: int) -> Finding:
        return ok(f"{self._nodes[rank]} adds up rightly with the others", **self._measured(rank))


def pair_metric(backend: str) -> str:
    """The best of a node's pairs, in `measured` and in its baseline."""
    return f"pair_{backend}_bus_bytes_per_s"


def baseline_of(recorded: Mapping[str, Any], metric: str) -> float | None:
    """The median of what was measured before; None where that was done too rarely to judge by it."""
    of_check = recorded.get(CHECK)
    values = of_check.get(metric) if isinstance(of_check, Mapping) else None
    numbers = sorted(float(value) for value in values or () if isinstance(value, int | float))
    return numbers[len(numbers) // 2] if len(numbers) >= BASELINES else None


def _both_ways(pairs: Iterable[Pair]) -> list[Pair]:
    """An all-reduce has no direction."""
    return [way for one, other in pairs for way in ((one, other), (other, one))]


def _pair(ranks: Sequence[int]) -> Any:
    return tuple(sorted(ranks))
