from __future__ import annotations

from dataclasses import asdict

import pytest

from slurm_resilience.triage.event import Speaker
from slurm_resilience.triage.reading.speakers import speaker_by_name, speakers_by_name, spoken


@pytest.mark.parametrize(
    ("line", "who", "said"),
    [
        ("plain", Speaker(), "plain"),
        ("7: text", Speaker(task=7), "text"),
        (" 7: text", Speaker(task=7), "text"),
        ("7: 8: text", Speaker(task=7), "8: text"),
        ("[rank3]: text", Speaker(rank=3), "text"),
        ("[rank3]:   text", Speaker(rank=3), "  text"),
        ("[rank3]:[W1129 20:11:12.123456789 ProcessGroupNCCL.cpp:1168] text", Speaker(rank=3), "text"),
        ("[E ProcessGroupNCCL.cpp:474] [Rank 3] text", Speaker(rank=3), "text"),
        ("[rank3]:[E1129 20:11:12.1 P.cpp:6] [PG ID 0 PG GUID 0(default_pg) Rank 3] text", Speaker(rank=3), "text"),
        ("[default3]:[rank11]: text", Speaker(rank=11, local_rank=3), "text"),
        ("4: [trainer3]:[rank11]: text", Speaker(task=4, rank=11, local_rank=3), "text"),
        ("E1129 20:11:12.123000 4711 torch/distributed/elastic/api.py:1002] text", Speaker(pid=4711), "text"),
        ("n3:4711:4720 [2] transport/net_ib.cc:12 NCCL WARN text", Speaker(node="n3", pid=4711),
         "transport/net_ib.cc:12 NCCL WARN text"),
        ("n3.site:4711:4720 [2] NCCL INFO text", Speaker(node="n3.site", pid=4711), "NCCL INFO text"),
        ("Nov 30 11:22:33 n3 kernel: NVRM: Xid", Speaker(node="n3"), "kernel: NVRM: Xid"),
        ("2026-11-30T11:22:33.123456+01:00 n3 kernel: text", Speaker(node="n3"), "kernel: text"),
        ("2026-11-30 11:22:33,123 INFO trainer: text", Speaker(), "INFO trainer: text"),
        ("2026-11-30T11:22:33.123+01:00 INFO trainer: text", Speaker(), "INFO trainer: text"),
        ("[12345.678901] NVRM: Xid", Speaker(), "NVRM: Xid"),
        ("[2026-11-29T20:11:12.123] error: text", Speaker(), "error: text"),
        ("[n3:4711] *** Process received signal ***", Speaker(node="n3", pid=4711), "*** Process received signal ***"),
        ("(Worker pid=4711, ip=10.0.0.1) text", Speaker(pid=4711), "text"),
        ("n2: [rank6]: text", Speaker(node="n2", rank=6), "text"),
        ("n2: [2026-11-29 20:11:12,123] [INFO] text", Speaker(node="n2"), "[INFO] text"),
        ("RuntimeError: [Rank 3] text", Speaker(), "RuntimeError: [Rank 3] text"),
        ("WARNING: [rank3]: text", Speaker(), "WARNING: [rank3]: text"),
        ("[1,3]<stderr>:  text", Speaker(rank=3), " text"),
        ('{"time": "x", "rank": 3, "text": ""}', Speaker(rank=3), '{"time": "x", "rank": 3, "text": ""}'),
        ("99999999999999999999: text", Speaker(), "99999999999999999999: text"),
        ("", Speaker(), ""),
    ],
)  # fmt: skip
def test_what_stands_before_a_line_says_who_speaks(line: str, who: Speaker, said: str) -> None:
    assert spoken(line) == (who, said)


@pytest.mark.parametrize(
    ("path", "who"),
    [
        ("slurm-123.out", {"job": "123"}),
        ("a/slurm-123_4.out", {"job": "123"}),
        ("job-123-0.err", {"job": "123"}),
        ("logs/none_x/attempt_0/3/stderr.log", {"local_rank": 3}),
        ("logs/none_x/attempt_0/3/error.json", {"local_rank": 3}),
        ("rank_0003.log", {"rank": 3}),
        ("rank-12.out", {"rank": 12}),
        ("local_rank_2.log", {"local_rank": 2}),
        ("node-n3.log", {"node": "n3"}),
        ("train.node-n3.out", {"node": "n3"}),
        ("train_node-n3.out", {"node": "n3"}),
        ("node_n3.out", {"node": "n3"}),
        ("multi_node_gpt2-4711.out", {}),
        ("multi_node-gpt.out", {}),
        ("node_test.out", {}),
        ("11_node_fail.log", {}),
        ("train.task7.out", {"task": 7}),
        ("RUN/attempts/0004/srun.out", {"attempt": 4}),
        ("train.log", {}),
        ("frank3.log", {}),
    ],
)
def test_the_name_of_a_file_says_whose_it_is(path: str, who: dict[str, object]) -> None:
    assert {name: value for name, value in asdict(speaker_by_name(path)).items() if value is not None} == who


def test_a_name_is_a_nodes_where_files_differ_by_it() -> None:
    paths = [f"llama3.n{node}.rank{node}.out" for node in range(3)]
    assert [one.node for one in speakers_by_name(paths)] == ["n0", "n1", "n2"]
    assert [one.node for one in speakers_by_name(paths[:1])] == [None]


def test_a_name_is_a_nodes_where_it_is_known_that_there_is_one() -> None:
    assert speakers_by_name(["llama3.gpu-7.out", "llama3.gpu-8/x.out"], ["gpu-7", "gpu-8"])[0].node == "gpu-7"
    assert speakers_by_name(["llama3.gpu-7.out", "logs/gpu-8/x.out"], ["gpu-7", "gpu-8"])[1].node == "gpu-8"
