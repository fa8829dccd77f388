"""Whose line explains whose end: an abort, a kill by the launcher, a name that nobody knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.account.account import Account, Sure
from slurm_resilience.triage.account.case import account_of_files
from slurm_resilience.triage.account.facts import Facts
from slurm_resilience.triage.event import Event, Speaker
from slurm_resilience.triage.known.entry import Role
from tests.unit.triage.account.scenes import FULL, PEER, TIMED_OUT, account, entry, failed, said

MISSING = "FileNotFoundError: [Errno 2] No such file or directory: '/scratch/cache.pkl'"
STUCK = entry("elastic.stuck-worker", Role.CASCADE)


def stuck(rank: int, at: float) -> Event:
    line = f"Unable to shutdown process {1000 + rank} via 15, forcefully exiting via 9"
    return said(STUCK, None, at, file=f"agent-{rank}.log", text=line, about=Speaker(pid=1000 + rank))


@pytest.mark.parametrize("rank", [0, None])
def test_an_exception_that_one_rank_has_logged_does_not_explain_anothers_abort(rank: int | None) -> None:
    caught = said(None, rank, 1, text=MISSING)
    told = account(caught, tables=(failed(0, -15, 6, root=False), failed(1, -6, 5)))
    assert (told.cause, told.first.rank, told.first.node) == (Cause.CRASHED, 1, "n2")
    assert "SIGABRT" in told.title
    assert told.sure is Sure.LIKELY
    assert [other.why_not for other in told.others if "FileNotFoundError" in other.title] == [
        "its process lived on: the first that ended was another, by a signal"
    ]


def test_a_file_system_that_was_full_for_one_rank_does_not_explain_anothers_abort() -> None:
    caught = said(FULL, 0, 1, text="OSError: [Errno 28] No space left on device")
    told = account(caught, tables=(failed(0, -15, 6, root=False), failed(1, -6, 5)))
    assert (told.cause, told.first.rank) == (Cause.CRASHED, 1)


def test_an_exception_that_ended_its_rank_began_it_though_another_aborted_for_want_of_its_peer() -> None:
    told = account(said(None, 0, 1, text=MISSING), said(PEER, 1, 2), tables=(failed(0, 1, 2), failed(1, -6, 3)))
    assert (told.first.rank, told.title) == (0, "the program raised FileNotFoundError")


def test_an_abort_that_its_own_rank_explains_is_that_lines() -> None:
    said_why = said(None, 1, 4, text="what():  bad optional access")
    told = account(said_why, tables=(failed(0, -15, 6, root=False), failed(1, -6, 5)))
    assert (told.first.rank, told.quotes[0].text) == (1, "what():  bad optional access")


def test_an_abort_among_others_that_lost_their_peer_is_the_root() -> None:
    told = account(said(PEER, 0, 6), said(PEER, 2, 6), tables=(failed(0, 1, 6), failed(1, -6, 5), failed(2, 1, 6)))
    assert (told.first.rank, told.first.node) == (1, "n2")


def test_a_rank_that_its_launcher_had_to_kill_is_who_the_others_waited_for() -> None:
    waits = [said(TIMED_OUT, rank, 8) for rank in (0, 2, 3)]
    killed = (failed(0, 1, 8), failed(2, 1, 8), failed(3, 1, 8), failed(1, -9, 38, root=False))
    told = account(*waits, stuck(1, 38), tables=killed)
    assert (told.cause, told.first.rank, told.first.node) == (Cause.HUNG, 1, "n2")
    assert "had to be killed" in told.sure_because


def test_a_launcher_that_had_to_kill_a_rank_after_anothers_crash_blames_the_crash() -> None:
    told = account(said(None, 0, 1), stuck(1, 38), tables=(failed(0, 1, 2), failed(1, -9, 38, root=False)))
    assert (told.cause, told.first.rank, told.title) == (Cause.CRASHED, 0, "the program raised IndexError")


def test_a_kill_by_the_launcher_is_nobodys_crash_even_where_nothing_else_is_said() -> None:
    told = account(stuck(1, 38), tables=(failed(1, -9, 38),))
    assert "was killed" not in told.title


def test_a_rank_between_two_others_is_there_though_it_left_no_line(tmp_path: Path) -> None:
    lines = [
        f"[rank{rank}]: RuntimeError: [unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete\n"
        for rank in (0, 1, 3)
    ]
    agents = (
        "srun-resilient[n2]: node agent 0 on n1 failed: asking the ranks to stop, 10 s left\n"
        "srun-resilient[n2]: killed at the deadline; no checkpoint was seen\n"
        "srun: error: n3: task 2: Exited with exit code 137\n"
    )
    (tmp_path / "job.out").write_text("".join(lines) + agents)
    told = account_of_files([tmp_path / "job.out"], Facts())
    assert (told.cause, told.first.rank, told.first.node) == (Cause.HUNG, 2, "n3")


NO_NAME = (
    "[W1130 12:22:{:02}.930649252 socket.cpp:764] [c10d] The IPv6 network addresses of (n1.cluster.invalid, 33471) "
    "cannot be retrieved (gai error: {}).\n"
)
UNKNOWN, NO_ADDRESS = "-2 - Name or service not known", "-5 - No address associated with hostname"
WAITED = (
    "Traceback (most recent call last):\n"
    '  File "run.py", line 1032, in <module>\n'
    "torch.distributed.DistStoreError: wait timeout after 60000ms, keys: /torch.rendezvous.7.0/MASTER_ADDR\n"
)


def meeting(tmp_path: Path, first: str, second: str) -> Account:
    for node, text in (("n1", first), ("n2", second)):
        (tmp_path / f"train-7-{node}.out").write_text(text)
    return account_of_files([tmp_path], Facts(nodes=("n1", "n2")))


def test_a_name_that_is_asked_for_again_and_again_is_why_others_waited_at_the_meeting(tmp_path: Path) -> None:
    told = meeting(tmp_path, "".join(NO_NAME.format(at, UNKNOWN) for at in (1, 3, 9, 30)), WAITED)
    assert (told.cause, told.first.node) == (Cause.CRASHED, "n1")
    assert told.title == "the name of the first node can't be resolved"
    assert told.sure is Sure.LIKELY


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("".join(NO_NAME.format(at, NO_ADDRESS) for at in (1, 3, 9, 30)), WAITED),  # the name is known
        (NO_NAME.format(1, UNKNOWN), WAITED),  # one connection of a name without IPv6
        (
            NO_NAME.format(1, UNKNOWN) * 4,
            NO_NAME.format(1, UNKNOWN) * 4 + WAITED,
        ),  # all have that, also who got through
    ],
)
def test_a_name_without_ipv6_addresses_explains_nothing(first: str, second: str, tmp_path: Path) -> None:
    told = meeting(tmp_path, first, second)
    assert "name" not in told.title


def test_names_without_ipv6_addresses_are_no_news_where_nobody_waited(tmp_path: Path) -> None:
    text = "".join(NO_NAME.format(at, UNKNOWN) for at in (1, 3, 9, 30)) + "step 1 loss 0.3\n"
    assert meeting(tmp_path, text, "step 1 loss 0.3\n").cause is None
