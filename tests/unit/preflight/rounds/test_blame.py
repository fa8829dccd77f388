"""Who is to blame for what went wrong between pairs."""

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.preflight.rounds.blame import Blame, blame, slowest
from slurm_resilience.preflight.rounds.peers import peers_of
from tests.unit.preflight.rounds.playing import cards_of


def all_pairs(count):
    return list(combinations(range(count), 2))


def all_ways(count):
    return list(permutations(range(count), 2))


@pytest.mark.parametrize(
    ("bad", "count", "verdict"),
    [
        ([], 4, Blame((), ())),
        ([(1, 0), (1, 2), (1, 3)], 4, Blame((1,), ())),
        ([(0, 1), (2, 1), (3, 1)], 4, Blame((1,), ())),  # the other direction alone
        ([(0, 1), (2, 1)], 4, Blame((1,), ())),  # two of its three pairs
        ([(0, 1)], 4, Blame((), ((0, 1),))),  # something between the two
        ([(0, 1)], 2, Blame((), ((0, 1),))),  # nobody to ask
        ([(0, 1), (0, 2)], 3, Blame((0,), ())),
        ([(0, 1)], 3, Blame((), ((0, 1),))),
        ([(0, 1), (0, 2), (1, 2)], 3, Blame((), ((0, 1), (0, 2), (1, 2)), everybody=True)),
        ([(0, 1), (0, 2), (0, 3), (0, 4), (2, 3)], 5, Blame((0,), ((2, 3),))),
    ],
)
def test_a_vote_names_the_node_that_explains_the_trouble(bad, count, verdict):
    assert blame(bad, all_ways(count)) == verdict


@given(st.integers(3, 60), st.data())
def test_one_bad_node_among_three_or_more_is_named_and_only_it(count, data):
    bad = data.draw(st.integers(0, count - 1))
    tried = [(task, peer) for task, peers in peers_of(cards_of(count)).items() for peer in peers]
    troubled = [pair for pair in tried if bad in pair]
    into, out = [way for way in troubled if way[1] == bad], [way for way in troubled if way[0] == bad]
    assert blame(data.draw(st.sampled_from([troubled, into, out])), tried) == Blame((bad,), ())


@given(st.integers(5, 40), st.data())
def test_two_bad_nodes_are_both_named(count, data):
    bad = data.draw(st.sets(st.integers(0, count - 1), min_size=2, max_size=2))
    tried = all_ways(count)
    assert blame([pair for pair in tried if bad & set(pair)], tried) == Blame(tuple(sorted(bad)), ())


@given(st.sets(st.sampled_from(all_ways(9))))
def test_everything_bad_is_explained_by_a_node_or_named_as_a_pair(bad):
    verdict = blame(bad, all_ways(9))
    if not verdict.everybody:
        left = {tuple(sorted(way)) for way in bad if not set(way) & set(verdict.nodes)}
        assert left == set(verdict.pairs)


@given(st.integers(3, 12), st.data(), st.floats(4.5, 1000))
def test_a_slow_node_is_named_and_not_those_it_slows_down(count, data, factor):
    slow = data.draw(st.integers(0, count - 1))
    took = {pair: 0.1 * (factor if slow in pair else 1) for pair in all_pairs(count)}
    found = slowest(took, times=4.0, least_s=0.05)
    assert list(found.nodes) == [slow]
    assert found.pairs == {}


@given(st.integers(3, 12), st.floats(0.0001, 10), st.data())
def test_nodes_that_differ_by_less_than_the_factor_are_not_slow(count, base, data):
    took = {pair: base * data.draw(st.floats(1, 1.9)) for pair in all_pairs(count)}
    found = slowest(took, times=2.0, least_s=0.0)
    assert (found.nodes, found.pairs) == ({}, {})


def test_a_slow_pair_of_fast_nodes_is_named_as_a_pair():
    took = dict.fromkeys(all_pairs(4), 0.1) | {(1, 3): 1.0}
    found = slowest(took, times=4.0, least_s=0.05)
    assert found.nodes == {}
    assert found.pairs == {(1, 3): pytest.approx(10)}


def test_two_nodes_cant_be_told_apart():
    assert slowest({(0, 1): 100.0}, times=2.0, least_s=0.0).nodes == {}


def test_a_few_milliseconds_are_no_difference():
    took = dict.fromkeys(all_pairs(4), 0.001) | {(0, 1): 0.04, (0, 2): 0.04, (0, 3): 0.04}
    assert slowest(took, times=4.0, least_s=0.05).nodes == {}
