"""All-reduce: pairs that name the node which is slow, wrong or not there."""

import ast
import json
import os
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience import command
from slurm_resilience.integrations import all_reduce
from slurm_resilience.launch.rendezvous import can_be_bound, candidate_ports, ephemeral_ports
from slurm_resilience.preflight.check import Context
from slurm_resilience.preflight.result import Outcome
from slurm_resilience.preflight.rounds import reducing
from slurm_resilience.preflight.rounds.all_reduce import Ready
from slurm_resilience.preflight.rounds.all_reduce_judgement import pair_metric, turns_of
from tests.unit.preflight.rounds.playing import cards_of, play

MIB = 1 << 20


def run(
    count=4,
    *,
    slow=(),
    wrong=(),
    failed=(),
    absent=None,
    baselines=None,
    best_s=0.01,
    torch=None,
    boot=None,
    cut_short=False,
):
    """`slow`, `wrong`, `failed`: ranks. `absent`: what a rank says instead, by rank."""

    def measure(size, ranks, rank):
        seconds = best_s * (10 if set(ranks) & set(slow) else 1)
        bad = 5 if set(ranks) & set(wrong) else 0
        return {"bytes": size, "best_s": seconds, "median_s": seconds, "bus_bytes_per_s": size / seconds, "wrong": bad}

    def instead(task, function, assignment):
        if function == "ready":
            return {"torch": (torch or {}).get(task, True), "python": "/usr/bin/python3", "port": 15555}
        if task in (absent or {}):
            return absent[task]
        groups = []
        for turn in turns_of(count, one_by_one=False):
            own = next((group for group in turn if task in group), None)
            if own is None:
                continue
            if set(own) & set(failed):
                groups.append({"ranks": own, "measures": [], "error": "RuntimeError: Connection refused"})
            else:
                sizes = (65536, 4 * MIB) if len(own) == 2 < count else (4096, 4 * MIB, 16 * MIB)
                sizes = sizes[:1] if cut_short and set(own) & set(slow) else sizes
                groups.append({"ranks": own, "measures": [measure(size, own, task) for size in sizes]})
        arrived = [rank for rank in range(count) if rank not in (absent or {})]
        return {"rank": task, "stage": "done", "backend": "gloo", "arrived": arrived, "groups": groups}

    cards = cards_of(count) if boot is None else cards_of(count, boot_id=boot)
    return play(Ready(baselines or {}, 24.0), cards, instead=instead)


def test_healthy_nodes_are_fine_and_tell_their_speed():
    played = run()
    assert played.bad == {}
    assert played.results[0].finding.measured[pair_metric("gloo")] == 4 * MIB / 0.01


@pytest.mark.parametrize("count", [3, 4, 5, 8])
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_slow_node_is_named_and_only_it(count, bad):
    played = run(count, slow=[bad])
    assert list(played.bad) == [f"n{bad + 1}"]
    assert f"n{bad + 1} is slow: an all-reduce with it takes 10.0 times" in played.bad[f"n{bad + 1}"]
    assert played.of(Outcome.WARN)


def test_a_node_too_slow_for_the_size_that_is_judged_is_named_by_a_smaller_one():
    assert list(run(4, slow=[1], cut_short=True).bad) == ["n2"]


@pytest.mark.parametrize("count", [3, 4, 5, 8])
def test_wrong_sums_are_a_failure_of_the_node_that_is_in_all_of_them(count):
    played = run(count, wrong=[1])
    assert list(played.bad) == ["n2"]
    assert "n2 got wrong sums" in played.bad["n2"]
    assert played.of(Outcome.FAIL)


@pytest.mark.parametrize("count", [3, 4, 5])
def test_a_node_with_which_no_group_forms_is_named(count):
    played = run(count, failed=[1])
    assert list(played.bad) == ["n2"]
    assert "an all-reduce with n2 failed: RuntimeError: Connection refused" in played.bad["n2"]


def test_of_two_nodes_neither_can_be_named():
    assert list(run(2, wrong=[0]).bad) == [None]
    assert run(2, slow=[0]).bad == {}


def test_a_node_that_never_came_is_named_with_what_it_was_at():
    away = {"stage": "store", "error": "DistNetworkError: timed out", "now": "connecting to n1:15555"}
    played = run(absent={2: away})
    assert list(played.bad) == ["n3"]
    assert "n3 could not join n1" in played.bad["n3"]
    assert "connecting to n1:15555" in played.bad["n3"]


def test_a_first_node_that_nobody_reaches_is_named_and_not_they():
    away = {"stage": "store", "error": "DistNetworkError: timed out", "now": "connecting to n1:15555"}
    assert list(run(absent=dict.fromkeys((1, 2, 3), away)).bad) == ["n1"]


def test_a_torch_that_breaks_at_import_is_the_nodes_failure():
    played = run(absent={1: {"stage": "import", "error": "ImportError: libcuda.so.1"}})
    assert list(played.bad) == ["n2"]
    assert "torch can't be loaded on n2: ImportError" in played.bad["n2"]


def test_a_torch_that_loads_too_long_is_broken():
    played = run(absent={1: {"stage": "import", "error": None}})
    assert [result.node for result in played.of(Outcome.BROKEN)] == ["n2"]


def test_a_rank_that_hangs_is_broken():
    played = run(absent={1: {"trouble": "no answer within 32 s, while all-reduce"}})
    assert [result.node for result in played.of(Outcome.BROKEN)] == ["n2"]


def test_without_torch_it_is_skipped():
    played = run(torch=dict.fromkeys(range(4), False))
    assert [(result.node, result.finding.outcome) for result in played.results] == [(None, Outcome.SKIPPED)]
    assert "there is no torch in /usr/bin/python3" in played.results[0].finding.sentence


def test_a_node_alone_without_torch_is_named_in_the_reason():
    assert "there is no torch on n2 in" in run(torch={1: False}).results[0].finding.sentence


def test_pairs_of_nodes_on_one_machine_are_not_judged():
    """Nothing lies between them: what is slow there is the machine."""
    assert run(boot="one").bad == {}
    assert list(run(boot="one", slow=[1]).bad) == ["n2"]
    assert run(boot="one", baselines=recorded(*[9e9] * 5)).bad == {}


def recorded(*speeds):
    return {"n2": {"all-reduce": {pair_metric("gloo"): list(speeds)}}}


def test_a_node_much_slower_than_it_was_before_is_a_warning():
    usual = 4 * MIB / 0.01
    played = run(baselines=recorded(*[3 * usual] * 3))
    assert list(played.bad) == ["n2"]
    assert "n2 is 3.0 times as slow in an all-reduce as it was before" in played.bad["n2"]


def test_two_measures_are_no_baseline_and_a_little_slower_is_nothing():
    usual = 4 * MIB / 0.01
    assert run(baselines=recorded(9 * usual, 9 * usual)).bad == {}
    assert run(baselines=recorded(*[1.9 * usual] * 5)).bad == {}
    assert run(baselines={"n2": {"all-reduce": "junk"}}).bad == {}
    assert run(baselines=recorded(None, "x", [], usual)).bad == {}


@given(st.integers(3, 65), st.booleans())
def test_each_rank_has_two_partners_and_no_two_groups_at_a_time(ranks, one_by_one):
    *turns, last = turns_of(ranks, one_by_one=one_by_one)
    assert last == [list(range(ranks))]
    partners = Counter(chain.from_iterable(chain.from_iterable(turns)))
    assert set(partners.values()) == {2}
    assert len({tuple(pair) for turn in turns for pair in turn}) == ranks
    for turn in turns:
        members = list(chain.from_iterable(turn))
        assert len(members) == len(set(members))
    if one_by_one and ranks <= 8:
        assert {len(turn) for turn in turns} == {1}


def test_two_ranks_have_one_group():
    assert turns_of(2, one_by_one=True) == [[[0, 1]]]


def test_a_first_node_that_loads_torch_too_long_is_not_the_others_failure():
    waiting = {"stage": "store", "error": "DistNetworkError: timed out", "now": "connecting to n1:15555"}
    played = run(absent={0: {"stage": "import", "error": None}, **dict.fromkeys((1, 2, 3), waiting)})
    assert [(result.node, result.finding.outcome) for result in played.results] == [("n1", Outcome.BROKEN)]


def test_a_rank_whose_peer_never_comes_says_who_did():
    pytest.importorskip("torch")
    port = next(port for port in candidate_ports(f"alone {os.getpid()}", ephemeral_ports()) if can_be_bound(port))
    part = {
        "rank": 0,
        "ranks": 2,
        "host": "127.0.0.1",
        "port": port,
        "turns": [[[0, 1]]],
        "limit_s": 80,
        "arrive_s": 0.3,
    }
    done = command.run([sys.executable, all_reduce.__file__, json.dumps(part)], timeout_s=100)
    said = json.loads(done.out.partition(all_reduce.MARK)[2])
    assert (said["stage"], said["arrived"], said["groups"]) == ("done", [0], [])


def test_the_program_needs_nothing_of_this_package():
    """It is run by the training's interpreter, which may not have it."""
    tree = ast.parse(Path(all_reduce.__file__).read_text())
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    assert {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names) == {"torch"}


def test_program_and_round_agree_on_the_line():
    assert all_reduce.MARK == reducing.MARK


def test_a_python_that_cant_run_it_is_told():
    given = {
        "rank": 0,
        "ranks": 2,
        "port": 1,
        "names": ["localhost"],
        "addresses": [],
        "same_host": True,
        "limit_s": 20.0,
        "one_by_one": False,
    }
    context = Context("n1", {}, python="/no/such/python")
    said = reducing.reduce(context, given, lambda _: None)
    assert said["stage"] == "start"
    assert "/no/such/python" in said["error"]
    assert not reducing.ready(context, {"port": False}, lambda _: None)["torch"]
