"""A fault, as it is done to a world."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from slurm_resilience.requeue.successor import MARK
from slurm_resilience.slurm.client import JobState
from slurm_resilience.supervisor.ownership import OVER
from tests.faults.world.cluster import ADMIN, OWNER, Life
from tests.faults.world.faults import Fault

if TYPE_CHECKING:
    from tests.faults.world.world import World

WORDS = (
    "ValueError: loss is nan",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "OSError: [Errno 28] No space left on device",
)


def strike(world: World, fault: Fault, dice: random.Random) -> None:
    life = world.newest_life()
    done = _to_a_life(world, life, fault, dice) if life is not None and not life.over else None
    if done is None:
        done = _to_the_world(world, fault, dice)
    world.tell(f"FAULT: {fault.value}" + ("" if done else ": misses"))
    world.counts[f"fault: {fault.value}" if done else "fault: missed"] += 1


def _to_a_life(  # noqa: C901, PLR0912  # a table: one line a fault
    world: World, life: Life, fault: Fault, dice: random.Random
) -> bool | None:
    """None: not an affair of a running job's."""
    cluster, training, batch = world.cluster, life.training, life.batch
    trains = training is not None and not training.over
    match fault:
        case Fault.PREEMPT:
            cluster.preempt(life)
        case Fault.REQUEUE_BY_HAND:
            if cluster.requeue_by_hand(life.job):
                world.truth.person_wants_it(world.time.now_s)
                return True
            return False
        case Fault.CANCEL | Fault.CANCEL_BY_ADMIN:
            if not cluster.cancel_by_hand(life.job, OWNER if fault is Fault.CANCEL else ADMIN):
                return False
            world.truth.cancelled(life.job, life.restarts, world.time.now_s, others=_others(world, life.job))
        case Fault.LOWER_THE_LIMIT:
            if life.ending:
                return False
            cluster.limit(life, dice.uniform(20, 200))
        case Fault.LOSE_A_NODE:
            cluster.lose_a_node(life)
        case Fault.LOSE_THE_BATCH_NODE:
            world.truth.all_dead.append(life.name)
            cluster.lose_the_batch_node(life, lives_on=False)
        case Fault.GHOST:
            world.truth.all_dead.append(life.name)
            cluster.lose_the_batch_node(life, lives_on=True)
        case Fault.GHOST_AT_A_WORD:
            life.cut_off_at_a_word = True
        case Fault.CRASH if trains and training is not None:
            training.crash(dice.choice(WORDS))
        case Fault.KILL_AGENT if trains and training is not None:
            training.kill_agent(dice.randrange(2))
        case Fault.WARN if trains and training is not None:
            training.hear("WARNING", "SIGUSR1")
        case Fault.OPERATOR if trains and training is not None:
            world.truth.operator_s = world.time.now_s
            training.hear("OPERATOR", "somebody touched the stop file")
        case Fault.KILL_SUPERVISOR if batch is not None:
            batch.kill()
        case Fault.KILL_SUPERVISOR_AT_LINE if batch is not None:
            batch.kill_at_line(int(10 ** dice.uniform(0.5, 3.7)))
        case Fault.KILL_SUPERVISOR_BEFORE_A_WORD if batch is not None:
            batch.calls_left = (dice.choice((1, 1, 2, 3)), "before")
        case Fault.KILL_SUPERVISOR_AFTER_A_WORD if batch is not None:
            batch.calls_left = (dice.choice((1, 1, 2, 3)), "after")
        case Fault.KILL_EVERYTHING:
            world.truth.all_dead.append(life.name)
            cluster.kill_all(life)
        case Fault.KILL_DEPUTY:
            life.kill_deputy_at = int(10 ** dice.uniform(0.5, 3.4))
        case Fault.CRASH | Fault.KILL_AGENT | Fault.WARN | Fault.OPERATOR:
            return False
        case _:
            return None
    return True


def _to_the_world(world: World, fault: Fault, dice: random.Random) -> bool:  # noqa: PLR0912  # a table, too
    cluster = world.cluster
    match fault:
        case Fault.CANCEL_WAITING:
            waiting = world.waiting()
            if not waiting:
                return False
            record = dice.choice(waiting)
            world.truth.cancelled(record.job, record.restarts, world.time.now_s, others=_others(world, record.job))
            cluster.cancel_by_hand(record.job, OWNER)
        case Fault.HOLD:
            waiting = world.waiting()
            if not waiting:
                return False
            cluster.hold(dice.choice(waiting).job, dice.uniform(10, 900))
        case Fault.NO_ANSWER:
            cluster.silent_for = dice.randint(1, 6)
        case Fault.SILENCE:
            cluster.silent_until_s = world.time.now_s + 10 ** dice.uniform(1.3, 3.4)
        case Fault.LOSE_AN_ANSWER:
            cluster.lose_next = True
        case Fault.PURGE:
            return cluster.purge() > 0
        case Fault.RESUME:
            world.person.resume("impatient")
        case Fault.SUBMIT:
            world.person.submit("a second time")
        case Fault.REQUEUE_BY_HAND:
            over = [each for each in cluster.jobs.values() if each.state in (JobState.FAILED, JobState.TIMEOUT)]
            if not over or not cluster.requeue_by_hand(over[-1].job):
                return False
            world.truth.person_wants_it(world.time.now_s)
        case _:
            return False
    return True


def _others(world: World, job: str) -> bool:
    """Whether another job of the run is there that a person has submitted, too."""
    alive = [each for each in world.cluster.jobs.values() if each.state not in OVER and each.job != job]
    return any(MARK not in each.comment for each in alive)
