"""Which of several suspects began it: the table of what was measured about blame, and what follows from it."""

from __future__ import annotations

import pytest

from slurm_resilience.manifest.agent_record import AgentRecord, Outcome, RankEnd
from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.account.account import Account, Sure, Verdict
from slurm_resilience.triage.account.facts import Facts, LogEnd
from slurm_resilience.triage.event import Speaker
from slurm_resilience.triage.exit_notes import ExitNote
from slurm_resilience.triage.known.entry import Retry
from tests.unit.triage.account.scenes import (
    ADVICE,
    CANCELLED,
    CUDA,
    FULL,
    NODE,
    OOM,
    PEER,
    PREEMPTED,
    SHAPES,
    STORE,
    TASK,
    TIME,
    TIMED_OUT,
    TOLD,
    XID,
    T,
    account,
    failed,
    said,
)

TWO = Facts(world_size=2)


def test_a_killed_worker_is_the_root_although_the_others_table_blames_its_own_rank() -> None:
    told = account(said(PEER, 0, 2), tables=(failed(0, 1, 2), failed(1, -9, 1)), facts=TWO)
    assert (told.cause, told.first.rank, told.first.node) == (Cause.CRASHED, 1, "n2")
    assert told.sure is Sure.LIKELY  # who killed it, nobody says
    assert "SIGKILL" in told.title


def test_a_node_that_dies_says_nothing_and_is_a_suspect_for_that() -> None:
    logs = (LogEnd("node-n1.log", "n1", None, T + 300), LogEnd("node-n2.log", "n2", None, T + 10))
    told = account(said(PEER, 0, 290), logs=logs, nodes=("n1", "n2"))
    assert (told.cause, told.first.node, told.silent_nodes) == (Cause.NODE_FAILURE, "n2", ("n2",))
    assert told.advice is not None
    assert told.advice.avoid == ("n2",)


def test_a_launcher_that_was_told_to_end_began_it_where_nobody_says_more() -> None:
    told = account(
        said(TOLD, None, 0, node="n2", text="Received 15 death signal, shutting down workers", file="node-n2.log"),
        said(PEER, 0, 3),
        tables=(failed(0, 1, 3),),
        facts=TWO,
    )
    assert (told.cause, told.first.node) == (Cause.CANCELLED, "n2")


def test_of_a_dead_store_only_its_shadow_is_seen() -> None:
    told = account(said(STORE, 1, 5))
    assert (told.cause, told.sure) == (Cause.CRASHED, Sure.GUESS)
    assert "who died first left no word" in told.sentence


def test_who_sleeps_is_named_by_those_who_waited() -> None:
    told = account(said(TIMED_OUT, 0, 15), said(STORE, 1, 17), facts=TWO)
    assert (told.cause, told.first.rank) == (Cause.HUNG, 1)
    four = account(said(TIMED_OUT, 0, 15), said(TIMED_OUT, 1, 15), said(PEER, 3, 15), world_size=4)
    assert (four.cause, four.first.rank) == (Cause.HUNG, 2)


def test_a_blackhole_names_nobody_because_both_sides_say_the_same() -> None:
    told = account(said(TIMED_OUT, 0, 15), said(TIMED_OUT, 1, 15), facts=TWO)
    assert (told.cause, told.first.rank, told.sure) == (Cause.HUNG, None, Sure.GUESS)


def test_a_shape_mismatch_is_told_by_who_was_sent_too_much() -> None:
    told = account(said(PEER, 0, 1), said(SHAPES, 1, 1), tables=(failed(0, 1, 2), failed(1, -6, 1)), facts=TWO)
    assert (told.first.rank, told.title, told.sure) == (1, "it is gloo.mismatch", Sure.CERTAIN)


def test_a_full_disk_on_one_rank_outranks_what_the_other_saw_before() -> None:
    told = account(said(PEER, 0, 1), said(FULL, 1, 4))
    assert (told.cause, told.first.rank) == (Cause.STORAGE, 1)


@pytest.mark.parametrize(
    ("word", "cause"), [(TIME, Cause.TIME_LIMIT), (PREEMPTED, Cause.PREEMPTED), (NODE, Cause.NODE_FAILURE)]
)
def test_slurms_word_outranks_every_other_text(word: object, cause: Cause) -> None:
    slurms = said(word, None, 9)  # type: ignore[arg-type]
    told = account(said(None, 0, 1), said(PEER, 1, 1), said(OOM, 2, 2), slurms)
    assert (told.cause, told.sure) == (cause, Sure.CERTAIN)
    assert {other.cause for other in told.others} == {Cause.CRASHED, Cause.OUT_OF_MEMORY}
    assert all(other.why_not == "Slurm's own word outranks it" for other in told.others)


def test_the_earlier_of_two_roots_is_the_root() -> None:
    told = account(said(FULL, 1, 20), said(CUDA, 0, 10))
    assert (told.title, told.first.rank) == ("it is cuda.illegal-access", 0)
    assert [other.why_not for other in told.others] == ["it came 10 s later"]


def test_what_clocks_cannot_tell_apart_is_said_to_be_unsure() -> None:
    told = account(said(FULL, 1, 10.0), said(CUDA, 0, 11.0))
    assert told.sure is Sure.LIKELY


def test_lines_without_times_of_one_file_came_in_their_order() -> None:
    told = account(said(CUDA, 0, None, file="job.out", line=9), said(FULL, 1, None, file="job.out", line=5))
    assert told.first.rank == 1


def test_clocks_are_corrected_before_anything_is_compared() -> None:
    ahead = Facts(offsets_s={"n1": 100.0})
    told = account(said(CUDA, 0, 105), said(FULL, 1, 20), facts=ahead)  # n1's clock is 100 s ahead: it was at 5 s
    assert (told.first.rank, told.first_s) == (0, T + 5)


def test_one_error_of_many_ranks_is_one_event_begun_by_the_first() -> None:
    told = account(*(said(CUDA, rank, 10 + 5 * rank) for rank in range(3)), said(PEER, 3, 9), world_size=4)
    assert (told.first.rank, len(told.others)) == (0, 0)


def test_what_all_ranks_say_at_once_is_no_single_ranks() -> None:
    told = account(*(said(None, rank, rank * 0.1) for rank in range(4)), world_size=4)
    assert told.first.all_ranks
    assert str(told.first) == "all ranks"
    assert told.first.rank is None


def test_what_most_say_while_the_rest_was_ended_for_it_is_all_ranks_too() -> None:
    told = account(
        *(said(None, rank, 1) for rank in range(3)),
        tables=(failed(0, 1, 2), failed(1, 1, 2), failed(2, 1, 2), failed(3, -15, 2, root=False)),
        world_size=4,
    )
    assert told.first.all_ranks


def test_all_ranks_minutes_apart_are_not_at_once() -> None:
    told = account(said(CUDA, 0, 0), said(CUDA, 1, 600), facts=TWO)
    assert (told.first.rank, told.first.all_ranks) == (0, False)


def test_a_bare_kill_is_an_out_of_memory_kill_only_where_somebody_recorded_one() -> None:
    bare = account(said(PEER, 0, 2), tables=(failed(1, -9, 1),), facts=TWO)
    assert bare.cause is Cause.CRASHED
    kernel = said(OOM, None, 1, file="dmesg", node="n2")
    recorded = account(said(PEER, 0, 2), kernel, tables=(failed(1, -9, 1),), facts=TWO)
    assert (recorded.cause, recorded.first.rank, recorded.first.node) == (Cause.OUT_OF_MEMORY, 1, "n2")
    elsewhere = account(said(OOM, None, 1, file="dmesg", node="n7"), tables=(failed(1, -9, 50),), facts=TWO)
    assert (elsewhere.first.rank, elsewhere.first.node) == (None, "n7")


def test_slurms_record_of_short_memory_explains_a_bare_kill_too() -> None:
    verdict = Verdict(Cause.OUT_OF_MEMORY, "job 7 ran out of memory", "Slurm's record")
    told = account(said(PEER, 0, 2), tables=(failed(1, -9, 1),), facts=TWO, verdict=verdict)
    assert (told.cause, told.first.rank, told.sure) == (Cause.OUT_OF_MEMORY, 1, Sure.CERTAIN)


def test_sigterm_in_a_table_is_a_victim() -> None:
    told = account(tables=(failed(0, -15, 1), failed(1, -11, 2)), facts=TWO)
    assert (told.first.rank, told.title) == (1, "rank 1 was ended by SIGSEGV")


def test_advice_is_never_evidence() -> None:
    assert account(said(ADVICE, 0, 1)).cause is None
    told = account(said(ADVICE, 0, 1), said(CUDA, 1, 2))
    assert told.first.rank == 1
    assert all("asynchronous" not in follow.title for follow in told.follows)


def test_an_exception_after_a_lost_peer_does_not_outrank_a_kill() -> None:
    own = said(None, 0, 3, text="TrainingFailed: step 5", line=30)
    told = account(said(PEER, 0, 2, line=20), own, tables=(failed(1, -9, 1),), facts=TWO)
    assert told.first.rank == 1
    chained = said(None, 0, None, text="TrainingFailed: no", groups=(("caused_by", "Connection closed by peer"),))
    assert account(chained, tables=(failed(1, -9, 1),), facts=TWO).first.rank == 1


def test_an_xid_names_its_node_and_leaves_it_out() -> None:
    told = account(said(XID, None, 5, file="dmesg-n3", node="n3"), said(PEER, 0, 6), said(TIMED_OUT, 1, 16))
    assert told.first.node == "n3"
    assert told.advice is not None
    assert (told.advice.avoid, told.advice.retry) == (("n3",), Retry.ELSEWHERE)
    assert told.advice.command == "look at n3 PATH"


def test_srun_names_the_node_of_a_task_that_left_no_word() -> None:
    groups = (("nodes", "n2"), ("tasks", "1"), ("code", "42"))
    told = account(said(TASK, None, None, text="srun: error: n2: task 1: Exited with exit code 42", groups=groups))
    assert (told.first.rank, told.first.node, told.sure) == (1, "n2", Sure.GUESS)
    assert "left with 42" in told.title


def test_what_every_task_of_a_plain_step_said_is_no_single_tasks() -> None:
    ends = [
        said(TASK, None, None, text=f"srun: error: n{n}: task {n}: Exited", line=20 + n, groups=groups)
        for n, groups in ((n, (("nodes", f"n{n}"), ("tasks", f"{n}"), ("code", "1"))) for n in range(2))
    ]
    told = account(said(FULL, None, None, line=8), said(FULL, None, None, line=9), *ends)
    assert (told.cause, told.first.all_ranks) == (Cause.STORAGE, True)


def test_a_job_that_is_cancelled_names_nobody() -> None:
    notice = said(CANCELLED, None, 9, text="slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-30T11:00:00 ***")
    told = account(notice, said(TIMED_OUT, 0, 8))
    assert (told.cause, told.first.rank, told.first.node) == (Cause.CANCELLED, None, None)


def test_a_step_that_was_ended_for_a_failed_task_is_no_cancellation() -> None:
    notice = said(
        CANCELLED, None, 9, text="slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-11-30T11:00:00 ***"
    )
    assert account(notice, tables=(failed(1, 3, 8),), facts=TWO).first.rank == 1


def test_what_was_lived_through_an_hour_before_the_end_is_not_its_cause() -> None:
    told = account(said(CUDA, 0, 0), said(FULL, 1, 3700), tables=(failed(1, 1, 3701),), facts=TWO)
    assert told.first.rank == 1


def agent(node_id: int, outcome: Outcome, *, step: int = 5, **more: object) -> AgentRecord:
    ranks = (RankEnd(node_id, 0, 100 + node_id, "RUNNING", step, -1, -1),)
    return AgentRecord(node_id, f"n{node_id + 1}", 1, T, outcome, ranks=ranks, **more)  # type: ignore[arg-type]


def test_the_rank_that_is_behind_in_steps_is_who_the_others_waited_for() -> None:
    agents = (agent(0, Outcome.FAILED), agent(1, Outcome.FAILED, step=3), agent(2, Outcome.FAILED))
    told = account(said(TIMED_OUT, 0, 10), said(TIMED_OUT, 2, 10), said(PEER, 1, 10), agents=agents)
    assert (told.cause, told.first.rank, told.first.node) == (Cause.HUNG, 1, "n2")


def test_an_agent_that_did_not_live_to_tell_is_a_silent_node() -> None:
    agents = (agent(0, Outcome.FAILED, command_code=1, ended_s=T + 9), agent(1, Outcome.RUNNING))
    told = account(said(PEER, 0, 8), agents=agents)
    assert (told.first.node, told.silent_nodes) == ("n2", ("n2",))


def test_an_exit_note_tells_who_was_killed_of_a_plain_command() -> None:
    notes = (ExitNote("7", 0, 0, "n1", 0, 11, 256, T + 3), ExitNote("7", 0, 0, "n2", 1, 12, 9, T + 1))
    told = account(said(PEER, 0, 3), exit_notes=notes, task_is_rank=True)
    assert (told.first.rank, told.first.node) == (1, "n2")


def test_the_newest_attempt_is_told_of_unless_another_is_asked_for() -> None:
    def of(attempt: int, known: object) -> object:
        event = said(known, 0, attempt)  # type: ignore[arg-type]
        return event.__class__(
            event.place, event.text, event.known, Speaker("n1", 0, attempt=attempt), time_s=event.time_s
        )

    events = (of(1, FULL), of(2, CUDA))
    assert account(*events).title == "it is cuda.illegal-access"  # type: ignore[arg-type]
    assert account(*events, attempt=1).title == "it is python.no-space"  # type: ignore[arg-type]
    assert "attempts 1, 2" in account(*events).notes[0]  # type: ignore[arg-type]


JOURNAL = "the run's journal"


def named(told: Account) -> tuple[Cause | None, int | None]:
    return told.cause, told.first.rank


def test_the_journals_cause_is_the_accounts_and_the_lines_say_who() -> None:
    verdict = Verdict(Cause.STORAGE, "a file system said no", JOURNAL)
    told = account(said(CUDA, 0, 1), said(FULL, 1, 5), verdict=verdict)
    assert named(told) == (Cause.STORAGE, 1)
    assert told.sure is Sure.CERTAIN


def test_where_lines_and_journal_differ_both_are_said() -> None:
    verdict = Verdict(Cause.PREEMPTED, "job 7 was preempted", JOURNAL)
    told = account(said(CUDA, 0, 1), verdict=verdict)
    assert named(told) == (Cause.PREEMPTED, None)
    assert told.differs is not None
    assert "cuda.illegal-access" in told.differs


def test_lines_explain_a_crash_that_the_journal_could_not() -> None:
    verdict = Verdict(Cause.CRASHED, "on n2: the command left with 1", JOURNAL, explains=False)
    told = account(said(FULL, 1, 5), verdict=verdict)
    assert named(told) == (Cause.STORAGE, 1)
    assert told.differs is not None
    assert "the command left with 1" in told.differs


def test_a_finished_run_blames_nobody_whatever_it_has_printed() -> None:
    told = account(said(CUDA, 0, 1), verdict=Verdict(Cause.FINISHED, "the training came to its own end", JOURNAL))
    assert named(told) == (Cause.FINISHED, None)
