"""What the nodes' findings say when they are held against each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.preflight.across import judge
from slurm_resilience.preflight.result import Outcome, Problem, Result, broken, fail, ok, skipped, warn

NODES = ("n1", "n2", "n3", "n4")
VERSIONS = {
    "kernel": "6.1.0",
    "os": "Debian 12",
    "driver": "570.86.15",
    "python": "3.11.7",
    "torch": "2.13.0",
    "cuda": "12.8",
    "nccl": "2.27.3",
}


def told(check, facts, nodes=NODES, **changed):
    """`facts` of this check on all nodes, but for what `changed` says of one."""
    return [Result(check, node, ok("told", **{**facts, **changed.get(node, {})})) for node in nodes]


def bad(results):
    fine = (Outcome.OK, Outcome.SKIPPED)
    return [
        (r.check, r.node, r.finding.outcome, r.finding.sentence)
        for r in judge(results)
        if r.finding.outcome not in fine
    ]


def only(results):
    (found,) = [r for r in judge(results) if r.finding.outcome not in (Outcome.OK, Outcome.SKIPPED)]
    return found


def test_nodes_that_are_alike_are_fine():
    results = [
        *told("versions", VERSIONS),
        *told("environment", {"variables": {"NCCL_DEBUG": "INFO"}, "path_sha256": "ab"}),
        *told("gpu", {"gpus": 8, "models": ["H100"]}),
        *told("memory", {"total_bytes": 1 << 40}),
        *told("storage-speed", {"write_bytes_per_s": 1e9, "read_bytes_per_s": 2e9, "fsync_s": 0.002}),
    ]
    assert bad(results) == []
    checks = [result.check for result in judge(results)]
    assert checks == ["same-versions", "same-environment", "same-hardware", "same-speed"]


def test_nothing_told_is_nothing_to_compare():
    assert judge([]) == ()
    assert judge([Result("versions", node, broken("it broke")) for node in NODES]) == ()
    assert judge(told("versions", VERSIONS, nodes=("n1",))) == ()


@pytest.mark.parametrize(
    ("name", "value", "outcome"),
    [
        ("torch", "2.12.1", Outcome.FAIL),
        ("nccl", "2.26.2", Outcome.FAIL),
        ("cuda", "12.6", Outcome.FAIL),
        ("python", "3.12.1", Outcome.FAIL),
        ("kernel", "6.1.1", Outcome.WARN),
        ("driver", "570.124", Outcome.WARN),
        ("os", "Debian 13", Outcome.WARN),
    ],
)
def test_the_odd_node_out_is_named_with_both_versions(name, value, outcome):
    found = only(told("versions", VERSIONS, n2={name: value}))
    assert (found.check, found.node, found.finding.outcome) == ("same-versions", "n2", outcome)
    assert found.finding.problem is Problem.NODE
    assert found.finding.measured == {"differs": {name: [value if name != "python" else "3.12", _shown(name)]}}
    assert f"n2 has {name} " in found.finding.sentence


def _shown(name):
    return "3.11" if name == "python" else VERSIONS[name]


def test_a_patch_of_python_is_no_difference():
    assert bad(told("versions", VERSIONS, n2={"python": "3.11.9"})) == []


def test_a_node_without_torch_is_the_odd_one_where_its_python_could_be_asked():
    others = told("versions", VERSIONS, nodes=("n1", "n3"))
    without = {name: value for name, value in VERSIONS.items() if name != "torch"}
    found = only([*others, Result("versions", "n2", ok("told", **without))])
    assert (found.node, found.finding.outcome) == ("n2", Outcome.FAIL)
    assert "torch none (the others: 2.13.0)" in found.finding.sentence
    silent = {name: without[name] for name in ("kernel", "os", "driver")}
    assert bad([*others, Result("versions", "n2", ok("told", **silent))]) == []


def test_a_node_that_is_odd_in_many_things_is_named_once_for_each_outcome():
    found = bad(told("versions", VERSIONS, n2={"torch": "2.12", "nccl": "2.26", "kernel": "5", "os": "x"}))
    assert [(node, outcome) for _, node, outcome, _ in found] == [("n2", Outcome.FAIL), ("n2", Outcome.WARN)]


@pytest.mark.parametrize("nodes", [("n1", "n2"), NODES])
def test_where_nothing_is_usual_no_node_is_the_odd_one(nodes):
    changed = {node: {"torch": "2.12"} for node in nodes[: len(nodes) // 2]}
    found = only(told("versions", VERSIONS, nodes=nodes, **changed))
    assert found.node is None
    assert found.finding.problem is Problem.USER
    assert "torch: 2.12 on n1" in found.finding.sentence


def test_a_warning_of_the_node_itself_doesnt_hide_its_versions():
    results = told("versions", VERSIONS, nodes=("n1", "n3", "n4"))
    odd = warn(Problem.USER, "torch is made for processors only", "install another", **{**VERSIONS, "torch": "2.12"})
    assert only([*results, Result("versions", "n2", odd)]).node == "n2"


@given(st.sampled_from(sorted(VERSIONS)), st.integers(3, 40), st.data())
def test_one_odd_node_among_three_or_more_is_named_and_only_it(name, count, data):
    nodes = [f"n{number}" for number in range(count)]
    odd = data.draw(st.sampled_from(nodes))
    assert only(told("versions", VERSIONS, nodes=nodes, **{odd: {name: "9.9"}})).node == odd


def environment(**variables):
    return {"variables": variables, "path_sha256": "ab", "nccl_files": {}}


def test_a_setting_that_differs_is_a_warning_with_both_values():
    found = only(told("environment", environment(NCCL_IB_HCA="mlx5"), n2=environment(NCCL_IB_HCA="mlx4")))
    assert (found.node, found.finding.outcome) == ("n2", Outcome.WARN)
    assert "NCCL_IB_HCA mlx4 (the others: mlx5)" in found.finding.sentence


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (environment(), "NCCL_DEBUG not set (the others: INFO)"),
        (
            environment(NCCL_DEBUG="INFO", TORCH_NCCL_BLOCKING_WAIT="1"),
            "TORCH_NCCL_BLOCKING_WAIT 1 (the others: not set)",
        ),
        ({**environment(NCCL_DEBUG="INFO"), "path_sha256": "cd"}, "path_sha256 cd"),
        ({**environment(NCCL_DEBUG="INFO"), "nccl_files": {"/etc/nccl.conf": "X=1"}}, "X=1"),
    ],
)
def test_what_is_set_on_one_node_only_is_told(odd, words):
    found = only(told("environment", environment(NCCL_DEBUG="INFO"), n2=odd))
    assert found.node == "n2"
    assert words in found.finding.sentence


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "NCCL_HOSTID"])
def test_what_each_node_has_for_itself_is_no_difference(name):
    assert bad(told("environment", environment(), **{node: environment(**{name: node}) for node in NODES})) == []


def test_ten_settings_that_differ_are_told_shortly():
    odd = environment(**{f"NCCL_{letter}": "x" * 200 for letter in "ABCDEFGHIJ"})
    sentence = only(told("environment", environment(), n2=odd)).finding.sentence
    assert len(sentence) < 700
    assert "and 6 more" in sentence


@pytest.mark.parametrize(
    ("check", "facts", "odd", "words"),
    [
        ("gpu", {"gpus": 8, "models": ["H100"]}, {"gpus": 7}, "GPUs: 7 (the others: 8)"),
        ("gpu", {"gpus": 8, "models": ["H100"]}, {"models": ["A100"]}, "GPU model: A100 (the others: H100)"),
        ("memory", {"total_bytes": 1 << 40}, {"total_bytes": 900 << 30}, "memory: 900 GiB (the others: 1 TiB)"),
        ("cpus", {"cpus": 64}, {"cpus": 32}, "CPUs: 32 (the others: 64)"),
    ],
)
def test_a_node_with_less_than_the_others_is_named(check, facts, odd, words):
    found = only(told(check, facts, n2=odd))
    assert (found.check, found.node, found.finding.outcome) == ("same-hardware", "n2", Outcome.WARN)
    assert words in found.finding.sentence


def test_firmware_may_take_a_little_memory():
    assert bad(told("memory", {"total_bytes": 1 << 40}, n2={"total_bytes": int((1 << 40) * 0.97)})) == []


SPEED = {"write_bytes_per_s": 1e9, "read_bytes_per_s": 2e9, "fsync_s": 0.002}


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"write_bytes_per_s": 2e7}, "writing to the run directory takes 50.0 times as long"),
        ({"read_bytes_per_s": 1e7}, "reading from the run directory"),
        ({"fsync_s": 3.0}, "a sync in the run directory takes 1500.0 times"),
    ],
)
def test_a_node_that_is_slow_at_storage_is_named(odd, words):
    found = only(told("storage-speed", SPEED, n2=odd))
    assert (found.check, found.node, found.finding.outcome) == ("same-speed", "n2", Outcome.WARN)
    assert words in found.finding.sentence


def test_small_differences_of_speed_are_chance():
    assert bad(told("storage-speed", SPEED, n2={"write_bytes_per_s": 1e8, "fsync_s": 0.5})) == []


def test_two_nodes_cant_say_which_of_them_is_slow():
    assert bad(told("storage-speed", SPEED, nodes=("n1", "n2"), n2={"write_bytes_per_s": 1e6})) == []


def test_a_check_that_failed_or_was_skipped_is_not_compared():
    results = [
        *told("storage-speed", SPEED, nodes=("n1", "n3", "n4")),
        Result("storage-speed", "n2", fail(Problem.NODE, "hangs", "leave it out", write_bytes_per_s=1)),
        *[Result("gpu", node, skipped("there are no GPUs", gpus=number)) for number, node in enumerate(NODES)],
    ]
    assert bad(results) == []


@given(
    st.dictionaries(
        st.sampled_from(NODES),
        st.dictionaries(
            st.sampled_from(["torch", "gpus", "total_bytes", "variables", "fsync_s", "models"]),
            st.one_of(st.none(), st.text(max_size=3), st.floats(), st.integers(), st.lists(st.integers()), st.just({})),
        ),
    )
)
def test_whatever_a_check_measured_is_survived(facts):
    checks = ("versions", "environment", "gpu", "memory", "storage-speed")
    judge([Result(check, node, ok("told", **found)) for check in checks for node, found in facts.items()])
