"""What srun-resilient is asked for: its options, with what the environment says where they are silent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_resilience.environment_variable import quantity
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.srun_options import split
from slurm_resilience.requeue.limits import Limits

if TYPE_CHECKING:  # the supervisor is loaded once the command line is known to be right
    from slurm_resilience.supervisor.request import ContinueBy, Preflighting, Publishing, Request

PREFLIGHT_TIME_LIMIT_S = 60.0
_YES, _NO = ("1", "yes", "on", "true"), ("", "0", "no", "off", "false")


def request_of(words: tuple[str, ...], options: dict[str, Any]) -> Request:
    from slurm_resilience.launch.training_command import understand
    from slurm_resilience.signals.ladder import Asked
    from slurm_resilience.supervisor.request import Dependency, Request

    line = split(words)
    continue_by, continue_said = _continue_by(options["continue_by"])
    return Request(
        srun=line,
        command=understand(line.command, plain=options["plain"]),
        words=line.command,
        run_dir=_run_dir(options["run_dir"]),
        nproc_per_node=options["nproc_per_node"],
        local_addr=options["local_addr"],
        interface=options["interface"],
        forward_signal=_signal_name(options["forward_signal"]),
        limits=Limits(
            attempts_without_progress=options["max_stuck"],
            crashes=options["max_crashes"],
            hangs=options["max_hangs"],
            storage_faults=options["max_storage_faults"],
            out_of_memory=options["max_out_of_memory"],
            node_failures=options["max_node_failures"],
            never_started=options["max_never_started"],
            quarantines=options["max_quarantines"],
        ),
        asked=Asked(
            stop_before_end_s=_stop_before_end(options["stop_before_end"]), stop_timeout_s=options["stop_timeout"]
        ),
        mode=options["mode"],
        take_over=options["take_over"],
        dry_run=options["dry_run"],
        requeue=not options["no_requeue"],
        publish=_publishing(options["publish"], options["publish_limit"]),
        continue_by=continue_by,
        continue_said=continue_said,
        dependency=Dependency(options["chain_dependency"]),
        preflight=_preflight(
            options["preflight"], options["on_preflight"], options["preflight_time_limit"], options["preflight_skip"]
        ),
    )


def _continue_by(said: str | None) -> tuple[ContinueBy, str]:
    """The command line's word, or the environment's, with how to name it in a sentence. Raises ConfigurationError."""
    from slurm_resilience.supervisor.request import ContinueBy

    name = "SLURM_RESILIENCE_CONTINUE"
    text = os.environ.get(name, "") if said is None else said
    words = [way.value for way in ContinueBy]
    if text and text not in words:
        raise ConfigurationError(f"the environment variable {name} is {text!r}: say {' or '.join(words)}")
    return ContinueBy(text or "requeue"), f"{name if said is None else '--continue'}={text}"


def _run_dir(said: str | None) -> Path | None:
    """Raises ConfigurationError."""
    name = "SLURM_RESILIENCE_RUN_DIR"
    text = said or os.environ.get(name, "")
    if not said and any(ord(character) < ord(" ") for character in text):
        raise ConfigurationError(f"the environment variable {name} is {text!r}, which is no name of a folder")
    return Path(text) if text else None


def _stop_before_end(said_s: float | None) -> float | None:
    """Raises ConfigurationError."""
    return quantity(os.environ, "SLURM_RESILIENCE_STOP_BEFORE_END", "seconds") if said_s is None else said_s


def _publishing(to: str | None, limit: str | None) -> Publishing | None:
    """Raises ConfigurationError. Where nothing is to be published, nothing is loaded for it."""
    if to is None and limit is None and not os.environ.get("SLURM_RESILIENCE_PUBLISH"):
        return None
    from slurm_resilience.supervisor.destination import understand_publishing

    return understand_publishing(to, limit, os.environ)


def _signal_name(text: str | None) -> str | None:
    """`USR1`, `SIGUSR1` and `usr1` are the same. Raises ConfigurationError for what is no signal."""
    import signal

    if text is None:
        return None
    name = text.upper().removeprefix("SIG")
    if f"SIG{name}" not in signal.Signals.__members__ or name in ("KILL", "STOP"):
        raise ConfigurationError(f"--forward-signal={text}: there is no such signal to forward")
    return name


def _preflight(asked: bool, wish: str | None, time_limit_s: float | None, skip: str | None) -> Preflighting | None:
    """Raises ConfigurationError. The environment may ask for it, for every training of a user's or of a site's."""
    from slurm_resilience.supervisor.request import OnPreflight, Preflighting

    name, wish_name = "SLURM_RESILIENCE_PREFLIGHT", "SLURM_RESILIENCE_ON_PREFLIGHT"
    text = os.environ.get(name, "").strip().lower()
    if not asked and text not in (*_YES, *_NO):
        raise ConfigurationError(f"the environment variable {name} is {text!r}: say 1 or 0")
    if not asked and text in _NO:
        given = {"--on-preflight": wish, "--preflight-time-limit": time_limit_s, "--preflight-skip": skip}
        for option, said in given.items():
            if said is not None:
                raise ConfigurationError(f"{option}={said}: there is no --preflight")
        return None
    word = wish or os.environ.get(wish_name, "").strip().lower() or OnPreflight.EXCLUDE.value
    known = [each.value for each in OnPreflight]
    if word not in known:
        raise ConfigurationError(f"the environment variable {wish_name} is {word!r}: say {', '.join(known)}")
    limit_s = PREFLIGHT_TIME_LIMIT_S if time_limit_s is None else time_limit_s
    names = os.environ.get("SLURM_RESILIENCE_PREFLIGHT_SKIP", "") if skip is None else skip
    return Preflighting(OnPreflight(word), limit_s, tuple(names.replace(",", " ").split()))
