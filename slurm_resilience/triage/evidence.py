"""Everything known when an attempt is over, and what follows from it before anybody is believed. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.manifest.agent_record import AgentRecord, Outcome
from slurm_resilience.manifest.preflight_verdict import PreflightVerdict
from slurm_resilience.slurm.client import JobRecord, PastLife
from slurm_resilience.triage.exit_notes import ExitNote
from slurm_resilience.triage.health_notes import HealthNote, Mode

END_OF_TIME_S = 90.0
"""A SIGTERM or warning this close to the job's end is the time limit's: warned up to 60 s early, killed 30 s late."""
CLOCKS_AGREE_S = 2.0
"""What two nodes wrote down within this time came in no order that we could know."""


@dataclass(frozen=True, slots=True)
class Evidence:
    training_finished: bool
    """The journal has TrainingFinished or RunFinished."""
    agents: tuple[AgentRecord, ...]
    agents_expected: int
    unheard: tuple[str, ...]
    """The nodes, where known, whose agents left no record."""
    command_code: int | None
    """How srun (or the local agent) left; None: it didn't, we do not know."""
    supervisor_signals: tuple[str, ...]
    """Names of the signals the supervisor itself was sent."""
    supervisor_died: bool
    record: JobRecord | None
    """Slurm's record, asked after the end; None: no answer, or no Slurm."""
    in_grace: bool
    """Whether Slurm's record showed a preemption while the attempt still ran: it forgets that when it requeues."""
    slurm: bool
    """Whether the attempt ran under Slurm at all."""
    restarts_at_start: int
    end_s: float | None
    """The end of the job's time as known at the start."""
    now_s: float
    rank_errors: tuple[str, ...] = ()
    """Last line of each rank's exception, in the order of time."""
    fenced: bool = False
    restarted_by_slurm: bool = False
    """Slurm has started the same job anew although nobody of ours asked for it."""
    rank_errors_s: tuple[float, ...] = ()
    """When each of `rank_errors` was written, seconds since the epoch; empty: not known."""
    lives: tuple[PastLife, ...] = ()
    """The job's lives as accounting has them, the oldest first; none: there is no accounting, or it has none."""
    exit_notes: tuple[ExitNote, ...] = ()
    health: tuple[HealthNote, ...] = ()
    """What was wrong with the job's nodes when it came there."""
    log_lines: tuple[str, ...] = ()
    """Lines of this attempt's output that some pattern knows, in their order."""
    saves_failed: tuple[str, ...] = ()
    """Why saves failed that no later commit made good, in their order."""
    release: tuple[int, int] | None = None
    """Of Slurm, `(22, 5)`: the same end means different things by version. None: not known."""
    preempt_mode: str = ""
    """Of the job's partition or QOS, as Slurm writes it; empty: not known."""
    user_id: int | None = None
    """Whose job it is; None: not known, so nobody is taken for an admin."""
    preflight: PreflightVerdict | None = None
    """What the attempt's preflight came to. The nodes that it leaves out are among `health`."""

    @property
    def stop_reasons(self) -> frozenset[str]:
        """Names of StopReason: the first that each agent was told."""
        return frozenset(agent.stop_reason for agent in self.agents if agent.stop_reason is not None)

    @property
    def near_end(self) -> bool:
        return self.end_s is not None and self.now_s >= self.end_s - END_OF_TIME_S

    @property
    def terminated(self) -> bool:
        """SIGTERM came, to an agent before anything else or to the supervisor."""
        return "TERMINATION" in self.stop_reasons or "SIGTERM" in self.supervisor_signals

    @property
    def preempted_as_it_seems(self) -> bool:
        """SIGTERM came before the job's time was over, and nothing of ours had asked the ranks to stop."""
        ours = {"FENCED", "OPERATOR", "TIME_LIMIT"}
        return self.terminated and not self.near_end and not ours & self.stop_reasons

    @property
    def asked_to_stop(self) -> bool:
        """By anybody but ourselves after the loss of a peer, which is a consequence."""
        warned = {"SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"} & set(self.supervisor_signals)
        return bool(warned or self.stop_reasons - {"PEER_FAILED"})

    def came_first(self, time_s: float | None) -> bool:
        """Whether something of this time can be why the attempt ended: not if a stop was asked for before it."""
        if not self.asked_to_stop:
            return True
        asked_s = [
            agent.stop_asked_s
            for agent in self.agents
            if agent.stop_asked_s is not None and agent.stop_reason != "PEER_FAILED"
        ]
        return time_s is not None and bool(asked_s) and time_s < min(asked_s) - CLOCKS_AGREE_S

    @property
    def failed_first(self) -> tuple[AgentRecord, ...]:
        """Agents whose command had failed before anybody was asked to stop, the earliest first."""
        failed = [
            agent
            for agent in self.agents
            if agent.outcome in (Outcome.FAILED, Outcome.NOT_STARTED)
            and agent.stop_reason in (None, "PEER_FAILED")
            and self.came_first(agent.ended_s)
        ]
        return tuple(sorted(failed, key=lambda agent: self.now_s if agent.ended_s is None else agent.ended_s))

    @property
    def silent(self) -> tuple[AgentRecord, ...]:
        """Agents that were killed before they could say how their command ended."""
        return tuple(agent for agent in self.agents if agent.outcome is Outcome.RUNNING)

    @property
    def lost(self) -> tuple[AgentRecord, ...]:
        """Agents that neither ended nor heard a signal, where others of the attempt did: their node was not there."""
        unheard = tuple(agent for agent in self.silent if not agent.signals)
        return unheard if any(agent.signals for agent in self.agents) else ()

    @property
    def unhealthy(self) -> tuple[HealthNote, ...]:
        """The nodes on which no task of this life of the job could start, because their own checks forbid it."""
        return tuple(note for note in self.health if note.mode is Mode.EXCLUDE)

    @property
    def signs_of_life(self) -> bool:
        """Whether anything of a job step ever ran."""
        return bool(
            self.agents
            or self.exit_notes
            or self.rank_errors
            or self.supervisor_signals
            or self.command_code is not None
            or self.preflight is not None
        )
