from __future__ import annotations

import subprocess

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.preflight.drain import LONGEST_REASON, drain_lines
from slurm_resilience.preflight.result import Problem, Result, fail, warn


def _line(sentence: str, node: str = "n3") -> str:
    (line,) = drain_lines([Result("gpu", node, fail(Problem.NODE, sentence, "x"))], [node])
    return line


def test_each_node_that_is_left_out_has_one_line_with_its_first_failure() -> None:
    results = [
        Result("swap", "n3", warn(Problem.NODE, "swapping", "x")),
        Result("gpu", "n3", fail(Problem.NODE, "GPU 2 asks for a reset", "x")),
        Result("storage", "n3", fail(Problem.NODE, "hangs", "x")),
        Result("storage", "n1", fail(Problem.USER, "the disk is full", "x")),
    ]
    assert drain_lines(results, ["n3"]) == (
        'scontrol update NodeName=n3 State=DRAIN Reason="[node_problem] preflight: gpu: GPU 2 asks for a reset"',
    )


@settings(max_examples=60, deadline=None)
@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=300), st.sampled_from(["n3", "a b;rm -rf"])
)
def test_a_shell_reads_four_words_of_it_whatever_the_sentence_holds(sentence: str, node: str) -> None:
    program = f'scontrol() {{ printf "%s\\0" "$@"; }}\n{_line(sentence, node)}'
    out = subprocess.run(["bash", "-c", program], check=True, capture_output=True, timeout=100).stdout.decode()
    words = out.split("\0")[:-1]
    assert words[:3] == ["update", f"NodeName={node}", "State=DRAIN"]
    assert len(words) == 4
    assert words[3].startswith("Reason=[node_problem] preflight: gpu:")


def test_a_long_reason_is_shortened() -> None:
    assert len(_line("x" * 1000)) < LONGEST_REASON + 60
