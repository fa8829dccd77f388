"""What the batch scripts of the situations do. `say` and $EVENTS are the stage's."""

from __future__ import annotations

ONCE = 'say starts; if [ -z "$SLURM_RESTART_COUNT" ]; then {first}; else {then}; fi'


def leaves(code: int, *, before: str = "") -> str:
    """The batch script's step ends at SIGTERM, and the script then leaves with `code`."""
    return f"say starts; srun sleep 300; {before} say exits {code}; exit {code}"


def first_life(then: str, *, first: str = "srun sleep 300; sleep 300") -> str:
    return ONCE.format(first=first, then=then)


SELF_REQUEUE = "said=$(scontrol requeue $SLURM_JOB_ID 2>&1); say requeue rc=$? $said;"
FORBID = "said=$(scontrol update JobId=$SLURM_JOB_ID Requeue=0 2>&1); say update rc=$? $said;"


def successor(dependency: str) -> str:
    """Queues a job that waits for this one and notes its start."""
    note = '"echo \\$(date +%s.%N) successor starts >> $EVENTS"'
    queue = f"sbatch -n1 -o /dev/null --dependency={dependency}:$SLURM_JOB_ID --wrap {note} > /dev/null 2>&1"
    return f'if [ -z "$SLURM_RESTART_COUNT" ]; then {queue}; say sbatch rc=$?; fi;'
