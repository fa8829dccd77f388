"""What was measured on a node before: kept in a small file, and never in the way."""

import json
import os
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.preflight import baseline
from slurm_resilience.preflight.baseline import (
    ASKED_THERE,
    KEPT,
    added,
    file_name,
    folder_of,
    for_the_nodes,
    read,
    record,
)
from slurm_resilience.preflight.result import Problem, Result, fail, ok, warn


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setattr(baseline, "PATIENCE_S", 100.0)


def measured(node="n1", check="all-reduce", **facts):
    return Result(check, node, ok("told", **facts))


def test_what_is_recorded_is_read_again_the_newest_last(tmp_path):
    for speed in (1.0, 2.0, 3.0):
        record(tmp_path / "new" / "folder", [measured(bytes_per_s=speed)])
    assert read(tmp_path / "new" / "folder", ["n1", "n2"]) == {"n1": {"all-reduce": {"bytes_per_s": [1.0, 2.0, 3.0]}}}


def test_only_the_newest_are_kept(tmp_path):
    for number in range(KEPT + 5):
        record(tmp_path, [measured(bytes_per_s=number)])
    assert read(tmp_path, ["n1"])["n1"]["all-reduce"]["bytes_per_s"] == list(range(5, KEPT + 5))


def test_each_node_has_its_file_and_the_format_is_told(tmp_path):
    record(tmp_path, [measured("n1", speed=1), measured("n2", speed=2)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n1.json", "n2.json"]
    assert json.loads((tmp_path / "n1.json").read_text())["format"] == 1


def test_counters_of_several_ports_are_kept_as_maps(tmp_path):
    record(tmp_path, [measured(check="infiniband", link_downed={"mlx5_0:1": 3})])
    assert read(tmp_path, ["n1"])["n1"]["infiniband"]["link_downed"] == [{"mlx5_0:1": 3}]


def test_only_numbers_of_nodes_that_are_fine_are_kept(tmp_path):
    results = [
        measured(backend="gloo", models=["a"], good=True, none=None, nan=float("nan"), speed=1),
        Result("tcp", "n1", fail(Problem.NODE, "broken", "mend it", speed=2)),
        Result("tcp", None, ok("of the job", speed=3)),
        Result("storage-speed", "n1", warn(Problem.NODE, "slow", "look", speed=4)),
    ]
    record(tmp_path, results)
    assert read(tmp_path, ["n1"])["n1"] == {"all-reduce": {"speed": [1]}, "storage-speed": {"speed": [4]}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"format": 2, "measured": {"a": {"b": [1]}}}',
        b'{"format": 1, "measured": [1]}',
        b'{"format": 1, "measured": {"a": [1], "b": {"c": 3}}}',
        b"[" * 100_000,
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_no_baseline_and_is_written_anew(tmp_path, content):
    (tmp_path / "n1.json").write_bytes(content)
    assert not any(read(tmp_path, ["n1"]).get("n1", {}).values())
    record(tmp_path, [measured(speed=1)])
    assert read(tmp_path, ["n1"])["n1"]["all-reduce"] == {"speed": [1]}


def test_a_folder_that_cant_be_made_or_read_hinders_nobody(tmp_path):
    (tmp_path / "file").write_text("no folder")
    record(tmp_path / "file", [measured(speed=1)])
    assert read(tmp_path / "file", ["n1"]) == {}
    record(None, [measured(speed=1)])
    assert read(None, ["n1"]) == {}


def test_a_home_directory_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(baseline, "PATIENCE_S", 0.2)
    os.mkfifo(tmp_path / "n1.json")  # to open it for reading waits for a writer
    assert read(tmp_path, ["n1"]) == {}
    release = os.open(tmp_path / "n1.json", os.O_RDWR | os.O_NONBLOCK)
    os.close(release)


def test_jobs_that_record_at_one_time_leave_a_whole_file(tmp_path):
    def one(number):
        record(tmp_path, [measured(speed=number)])

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(tmp_path, ["n1"])["n1"]["all-reduce"]["speed"]
    assert [path.name for path in tmp_path.iterdir()] == ["n1.json"]


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"SLURM_RESILIENCE_BASELINES": "/b", "XDG_STATE_HOME": "/s", "HOME": "/h"}, "/b"),
        ({"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/slurm-resilience/baselines"),
        ({"HOME": "/h"}, "/h/.local/state/slurm-resilience/baselines"),
        ({}, None),
    ],
)
def test_where_they_are_kept(environment, folder):
    assert folder_of(environment) == (None if folder is None else Path(folder))


@given(st.text(min_size=1, max_size=40))
def test_no_nodes_name_leads_out_of_the_folder(node):
    assert Path("/x", file_name(node)).parent == Path("/x")


@given(
    st.dictionaries(st.sampled_from("ab"), st.dictionaries(st.sampled_from("mn"), st.lists(st.integers(), max_size=30)))
)
def test_adding_never_forgets_what_is_newer(before):
    after = added(before, {"a": {"m": 7}})
    assert after["a"]["m"][-1] == 7
    assert after["a"]["m"][:-1] == before.get("a", {}).get("m", [])[-(KEPT - 1) :]


def test_nodes_are_told_what_their_checks_ask_for_and_no_more():
    ports = [{"mlx5_0/1": number} for number in range(20)]
    known = {
        "infiniband": {"active": ports, "downs": ports, "rates_gb_s": ports},
        "storage-speed": {"write_bytes_per_s": [1.0, 2.0], "fsync_s": [0.1]},
        "memory": {"total_bytes": [1]},
    }
    assert for_the_nodes({"n1": known, "n2": {"memory": {"total_bytes": [1]}}}) == {
        "n1": {
            "infiniband": {"active": ports[-1:], "downs": ports[-1:]},
            "storage-speed": {"write_bytes_per_s": [1.0, 2.0]},
        }
    }


def test_what_checks_ask_for_of_earlier_times_is_listed():
    folder = Path(baseline.__file__).parent / "checks"
    texts = [path.read_text() for path in folder.rglob("*.py")]
    asked = {pair for text in texts for pair in re.findall(r'earlier\(context, "([^"]+)", "([^"]+)"\)', text)}
    assert asked == ASKED_THERE
    assert sum(text.count("earlier(context") for text in texts) == len(asked) + 1  # where it is defined: `context: …`
