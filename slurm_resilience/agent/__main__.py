"""`python -m slurm_resilience.agent PLAN_JSON`."""

# Before any other import: a signal that comes while we start up must wait for us, not kill us.
import signal

signal.pthread_sigmask(
    signal.SIG_BLOCK,
    {signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP, signal.SIGCONT},
)

from slurm_resilience.agent.program import main  # noqa: E402

if __name__ == "__main__":
    main()
