"""Two deaths of one kind have one signature, whoever died where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.signature import LONGEST, normalised, signature

TYPES = st.sampled_from(["ValueError", "RuntimeError", "KeyError", "FloatingPointError", "AssertionError"])
HOSTS = st.sampled_from(["n1", "gpu-a", "login", "node-0017", "c12"])
MESSAGES = st.sampled_from(
    [
        "{type}: loss is not finite at step {n} ({f})",
        "{type}: bad tensor <object at {x}> in /scratch/run-{n}/step-{n}.a{n}/part {n} of {n}",
        "my.pack.{type}: size mismatch, {n} and {n}, on {host}:{n}",
        "{type}: {host} said [{n}, {n}] after {f} s",
    ]
)


def say(draw: st.DrawFn, message: str, kind: str, host: str) -> str:
    numbers = st.integers(0, 10**12)
    text = message.replace("{type}", kind).replace("{host}", host)
    for mark, drawn in (
        ("{n}", numbers.map(str)),
        ("{f}", st.floats(0, 1e9).map(str)),
        ("{x}", numbers.map(hex)),
    ):
        while mark in text:
            text = text.replace(mark, draw(drawn), 1)
    return draw(st.sampled_from(["rank-{:05d}: ", "[rank{}]: ", "{}: "])).format(draw(st.integers(0, 9999))) + text


@st.composite
def two_deaths(draw: st.DrawFn) -> tuple[str, str, list[str]]:
    message, kind = draw(MESSAGES), draw(TYPES)
    hosts = draw(st.lists(HOSTS, min_size=2, max_size=2))
    return say(draw, message, kind, hosts[0]), say(draw, message, kind, hosts[1]), hosts


@given(two_deaths())
def test_numbers_addresses_ranks_and_hosts_make_no_difference(deaths: tuple[str, str, list[str]]) -> None:
    one, other, hosts = deaths
    assert signature(Cause.CRASHED, one, None, hosts) == signature(Cause.CRASHED, other, None, hosts)


@given(st.data(), MESSAGES, st.lists(TYPES, min_size=2, max_size=2, unique=True), HOSTS)
def test_another_exception_is_another_death(data: st.DataObject, message: str, kinds: list[str], host: str) -> None:
    one, other = (data.draw(st.composite(say)(message, kind, host)) for kind in kinds)
    assert signature(Cause.CRASHED, one, None, [host]) != signature(Cause.CRASHED, other, None, [host])


@given(st.text())
def test_any_line_has_a_short_signature_on_one_line(line: str) -> None:
    text = normalised(line, ["n1"])
    assert len(text) <= LONGEST
    assert "\n" not in text


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("rank-00003: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has 79.1 GiB",
         "OutOfMemoryError: CUDA out of memory. Tried to allocate <n> B. GPU <n> has <n> B"),
        ("rank-00003: RuntimeError: [enforce fail at ../pair.cc:456] op.preamble.length <= op.nbytes. 400 vs 800",
         "RuntimeError: [enforce fail at ../pair.cc:<n>] op.preamble.length <= op.nbytes. <n> vs <n>"),
        ("[rank12]: socket.timeout: no answer from gpu7.cluster.example:29500",
         "socket.timeout: no answer from <host>:<n>"),
        ("ValueError: part 1f0c9a3be6d24d51 of (3, 4, 5)", "ValueError: part <n> of (<n>)"),
        ("ValueError", "ValueError"),
    ],
)  # fmt: skip
def test_what_is_left_of_a_line(line: str, text: str) -> None:
    assert normalised(line) == text


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause.value not in
                                   ("crashed", "hung", "out of memory", "unknown")])  # fmt: skip
def test_a_death_that_says_nothing_about_what_was_loaded_has_none(cause: Cause) -> None:
    assert signature(cause, "ValueError: bad", "exit 1") is None


def test_how_it_left_stands_in_where_nobody_said_a_word() -> None:
    assert signature(Cause.CRASHED, None, "SIGSEGV") == "crashed: SIGSEGV"
    assert signature(Cause.CRASHED, " ", None) is None
