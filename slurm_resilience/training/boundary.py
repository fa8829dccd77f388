"""What happens between two steps: usually nothing, and what happens, happens on all ranks after the same step."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable
from typing import Any

from slurm_resilience.clock import Clock
from slurm_resilience.errors import CheckpointUnavailable, Fenced, ManifestError, ManifestUnavailable
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import SaveReason, StopAsked, TrainingFinished
from slurm_resilience.signals.runtime_folder import RankPhase
from slurm_resilience.signals.stop_request import StopReason
from slurm_resilience.training.agreement import Agreement, Answer, InFlight, Statement, Want
from slurm_resilience.training.background import BackgroundSaver
from slurm_resilience.training.cursor import Cursor
from slurm_resilience.training.rank_report import RankReport
from slurm_resilience.training.ranks import PeersGone, Ranks, on_rank_zero
from slurm_resilience.training.rhythm import SaveRhythm, TimeLimit
from slurm_resilience.training.saver import NotSaved, Saved
from slurm_resilience.training.savers import Savers
from slurm_resilience.training.stop_source import Stopped, StopSource

FINAL_SAVE_PATIENCE_S = 600.0
"""How long the last save of a finished training is tried, if nobody says that there is less time."""
LOOK_AT_END_S = 5.0
"""How often it is asked whether the end of the job's time has moved."""

_FINISH_AGAIN_AFTER_S = (1.0, 2.0, 4.0, 8.0)


class Boundary:
    def __init__(
        self,
        *,
        ranks: Ranks,
        stop: StopSource,
        savers: Savers,
        journal: Journal,
        attempt: int,
        rhythm: SaveRhythm,
        report: RankReport,
        cursor: Cursor,
        clock: Clock,
        state: Callable[[], dict[str, Any]],
        metric: Callable[[], float | None],
        saved_step: int | None,
        finished_before: bool,
        wait_for_saves: bool = True,
        limit: Callable[[], TimeLimit | None] | None = None,
    ) -> None:
        """`state` is this rank's state now; `saved_step` that of the checkpoint it came from.

        `metric` is what the training says of that state.
        `wait_for_saves`: a save that is due by steps waits for one still in flight, rather than being left out.
        `limit`: the end of the time as it is now, where a save is to come before it; None: it stays as it is.
        `finished_before`: an earlier attempt came to the end of the training already, and its state is the final one.
        """
        self._ranks = ranks
        self._alone = ranks.world_size == 1
        self._stop = stop
        self._saver = savers.saver
        self._background = savers.background
        self._journal = journal
        self._attempt = attempt
        self._limit = limit
        self._rhythm = self._bounded(rhythm).started(clock.monotonic_s())
        self._look_s = clock.monotonic_s() + LOOK_AT_END_S
        self._report = report
        self._cursor = cursor
        self._clock = clock
        self._state = state
        self._metric = metric
        self._saved_step = saved_step
        self._finished_before = finished_before
        self._wait_for_saves = wait_for_saves
        self._began_at = cursor.step
        self._stopped: Stopped | None = None
        self._begun_s = 0.0
        self._agreement = Agreement(ranks, clock)
        self.save_asked = False

    def cross(self, *, ending: bool) -> None:
        """Between two steps. Raises Stopped where all ranks have agreed to stop here.

        `ending`: no step follows. Then a stop is answered by the checkpoint alone: finishing is the shorter way out.
        """
        step = self._cursor.step
        self._report.stepping(step)
        asked = self._stop.asked()
        if asked:
            self._leave_if_hopeless()
        answer: Answer | None = None
        if not self._alone:
            if self._agreement.due():
                answer = self._agreement.exchange(self._statement())
        elif asked or self.save_asked or self._due_by_time(self._clock.monotonic_s()) or self._done_alone():
            answer = self._agreement.settle(self._statement())
        if answer is not None and answer.in_flight is InFlight.DONE:
            self._hear_of_background()
        if answer is not None and answer.stop:
            self._stop_here(answer, ending=ending)
        elif answer is not None and answer.want is not Want.NOTHING:
            self._save(SaveReason.ASKED if answer.want is Want.ASKED else SaveReason.PERIODIC)
        elif self._rhythm.due_by_steps(step):
            self._save(SaveReason.PERIODIC)

    def finish(self) -> None:
        """The loop has come to its end on all ranks: save its final state, then write down that it is done.

        Saved even if this step has been: a scheduler's step at the end of an epoch comes behind the last boundary.
        """
        if self._stopped is not None:
            raise self._stopped  # somebody has caught it: that doesn't make the training finished
        step = self._cursor.step
        answer = self._agreement.settle(self._statement(leaving=True))
        self._hear_of_background(self._clock.monotonic_s() + min(FINAL_SAVE_PATIENCE_S, answer.seconds_left))
        if not self._finished_before or step != self._began_at:
            patience_s = min(FINAL_SAVE_PATIENCE_S, answer.seconds_left)
            outcome = self._save_until(SaveReason.FINAL, self._clock.monotonic_s() + patience_s)
            if isinstance(outcome, NotSaved):
                raise CheckpointUnavailable(f"the finished training could not be saved: {outcome.why}")
        on_rank_zero(self._ranks, self._write_down_the_end)
        self._report.say(RankPhase.FINISHED, step)

    def _statement(self, *, leaving: bool = False) -> Statement:
        request = self._stop.read() if self._stop.asked() else None
        now_s = self._clock.monotonic_s()
        want = Want.NOTHING
        if self.save_asked:
            want = Want.ASKED
        elif self._ranks.rank == 0 and self._due_by_time(now_s):
            want = Want.PERIODIC
        return Statement(
            self._cursor.step,
            stop=0 if request is None else int(request.reason),
            seconds_left=math.inf if request is None else max(0.0, request.deadline_s - now_s),
            want=want,
            boundary_s=self._agreement.boundary_s(),
            leaving=leaving,
            in_flight=self._in_flight(),
        )

    def _due_by_time(self, now_s: float) -> bool:
        if now_s >= self._look_s:
            self._look_s = now_s + LOOK_AT_END_S
            self._rhythm = self._bounded(self._rhythm)
        return self._rhythm.due_by_time(now_s)

    def _bounded(self, rhythm: SaveRhythm) -> SaveRhythm:
        return rhythm if self._limit is None else rhythm.bounded(self._limit())

    def _in_flight(self) -> InFlight:
        if self._background is None or not self._background.in_flight:
            return InFlight.NOTHING
        return InFlight.DONE if self._background.done_here() else InFlight.WRITING

    def _done_alone(self) -> bool:
        return self._background is not None and self._in_flight() is InFlight.DONE

    def _leave_if_hopeless(self) -> None:
        """Without the others there is no common step: whoever comes to a boundary leaves there."""
        request = self._stop.read()
        if request is not None and request.reason is StopReason.PEER_FAILED:
            raise PeersGone(f"another rank of this attempt is gone: {request.because}")

    def _save(self, reason: SaveReason) -> None:
        """A failed save is tried once more and then left for later: it never ends the training."""
        step = self._cursor.step
        if self._background is not None and self._background.in_flight:
            if not self._rhythm.due_by_steps(step):
                return  # due by time, or asked for: it stays due
            if not self._wait_for_saves:
                self._leave_out(step, self._background)
                return
            self._hear_of_background()
        self.save_asked = False
        if self._saved_step == step:
            return
        state = self._state()
        if self._background is not None:
            self._report.say(RankPhase.SAVING, step)
            self._background.begin(step, reason, state, metric=self._metric())
            self._begun_s = self._clock.monotonic_s()
            self._rhythm = self._rhythm.saved(self._begun_s)
            self._report.say(RankPhase.STEPPING, step)
            return
        outcome = self._saving(lambda: self._saver.save(step, reason, state, metric=self._metric()))
        if isinstance(outcome, NotSaved):
            outcome = self._saving(lambda: self._saver.save(step, reason, state, metric=self._metric()))
        self._take_note(outcome)
        self._report.say(RankPhase.STEPPING, step)

    def _leave_out(self, step: int, background: BackgroundSaver) -> None:
        if self._ranks.rank == 0:
            sys.stderr.write(
                f"slurm-resilience: no checkpoint of step {step}, that of step {background.step} is not done yet\n"
            )

    def _hear_of_background(self, deadline_s: float = math.inf) -> Saved | NotSaved | None:
        """All ranks come here at the same boundary. Waits, where a rank isn't done, until `deadline_s`.

        None: nothing is in flight.
        """
        if self._background is None or not self._background.in_flight:
            return None
        outcome = self._background.finish(deadline_s=deadline_s)
        if isinstance(outcome, Saved):
            self._note_saved(outcome.step)
            # Counted from its beginning: that is the step which the next one lies behind.
            cost_s, seconds = self._background.stall_s, outcome.seconds
            self._rhythm = self._rhythm.saved(self._begun_s, cost_s=cost_s, saving_s=seconds)
            self._report.say(RankPhase.STEPPING, self._cursor.step)
        else:
            self._take_note(outcome)
        return outcome

    def _take_note(self, outcome: Saved | NotSaved) -> None:
        now_s = self._clock.monotonic_s()
        if isinstance(outcome, Saved):
            self._rhythm = self._rhythm.saved(now_s, cost_s=outcome.seconds, saving_s=outcome.seconds)
            return
        self._rhythm = self._rhythm.failed(now_s)
        if self._ranks.rank == 0:
            sys.stderr.write("slurm-resilience: going on without it; the next try is soon\n")

    def _note_saved(self, step: int) -> None:
        self._saved_step = step
        self._report.saved_step = step

    def _save_until(self, reason: SaveReason, deadline_s: float) -> Saved | NotSaved:
        step, state, metric = self._cursor.step, self._state(), self._metric()
        return self._saving(lambda: self._saver.save_until(step, reason, state, deadline_s=deadline_s, metric=metric))

    def _saving(self, save: Callable[[], Saved | NotSaved]) -> Saved | NotSaved:
        self._report.say(RankPhase.SAVING, self._cursor.step)
        outcome = save()
        if isinstance(outcome, Saved):
            self._note_saved(outcome.step)
        return outcome

    def _stop_here(self, answer: Answer, *, ending: bool) -> None:
        step = self._cursor.step
        reason = StopReason(answer.stop)
        if reason is StopReason.FENCED:
            raise Fenced(self._attempt, self._attempt + 1)
        request = self._stop.read()
        because = request.because if request is not None else f"another rank was asked to ({reason.name.lower()})"
        outcome = self._save_for_stop(step, self._agreement.asked_s + answer.seconds_left)
        if self._ranks.rank == 0:
            self._say_stopped(step, reason, because, outcome)
        if ending:
            self._report.say(RankPhase.STEPPING, step)
            return
        self._report.say(RankPhase.STOPPED, step, stopped_after_step=step)
        self._stopped = Stopped(step, because)
        raise self._stopped

    def _save_for_stop(self, step: int, deadline_s: float) -> Saved | NotSaved | None:
        """None: this step is saved already."""
        this_step = self._background is not None and self._background.step == step
        # One of another step is waited for only as long as there is time for this one behind it.
        reserve_s = 0.0 if this_step else 1.0 + 2 * self._rhythm.saving_s
        in_flight = self._hear_of_background(deadline_s - reserve_s)
        if self._saved_step == step:
            return None
        if this_step and isinstance(in_flight, NotSaved) and in_flight.late:
            return in_flight  # its writers have these very files in hand: two at once would mix them
        return self._save_until(SaveReason.STOP, deadline_s)

    def _say_stopped(self, step: int, reason: StopReason, because: str, outcome: Saved | NotSaved | None) -> None:
        if isinstance(outcome, NotSaved):
            last = "none" if self._saved_step is None else f"that of step {self._saved_step}"
            sys.stderr.write(
                f"slurm-resilience: stopping after step {step} without its checkpoint ({outcome.why}); the last one is "
                f"{last}\n"
            )
        else:
            sys.stderr.write(f"slurm-resilience: stopping after step {step}, saved: {because}\n")
        try:
            self._journal.append(StopAsked(self._attempt, reason.name, because), fence=self._attempt)
        except (ManifestError, Fenced) as error:
            sys.stderr.write(f"slurm-resilience: the reason for stopping could not be written down: {error}\n")

    def _write_down_the_end(self) -> None:
        finished = TrainingFinished(self._attempt, self._cursor.step)
        for pause_s in _FINISH_AGAIN_AFTER_S:
            with contextlib.suppress(ManifestUnavailable):
                self._journal.append(finished, fence=self._attempt)
                return
            self._clock.sleep(pause_s)
        self._journal.append(finished, fence=self._attempt)
