"""What the user wants run: torchrun taken over, a Python script put behind torchrun, or anything else as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.plan import CommandKind

_TORCHRUN_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_OURS = frozenset(
    "nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf standalone node-rank master-addr master-port "
    "local-addr max-restarts signals-to-handle".split()
)
"""torchrun's options that the wrapper sets itself: what the user gave for them is read and left out."""
_ALONE = frozenset("standalone m module no-python run-path help virtual-local-rank".split())
"""torchrun's options that take no value."""


@dataclass(frozen=True, slots=True)
class TrainingCommand:
    kind: CommandKind
    argv: tuple[str, ...]
    """TORCHRUN: torchrun's remaining options, then the script and its arguments. TASK: the command."""
    python: str | None
    """The interpreter the user named, if any."""
    nproc_per_node: str | None
    """As the user gave it to torchrun: a number, `gpu`, `cpu` or `auto`."""
    nnodes: str | None

    @property
    def script(self) -> str:
        """The word that names the training best."""
        for word in self.argv:
            if not word.startswith("-"):
                return word
        return self.argv[0]


def _is_python(word: str) -> bool:
    name = PurePath(word).name
    return name == "python" or (name.startswith("python3") and name[7:].replace(".", "").isdigit()) or name == "python3"


def _take_over(words: Sequence[str], python: str | None) -> TrainingCommand:
    """Torchrun's line without what the wrapper sets itself."""
    rest, kept, ours = list(words), [], {}
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").replace("_", "-").partition("=")
        if equals:
            value = word.partition("=")[2]  # the value keeps its underscores
        if name in _ALONE:
            if name not in _OURS:
                kept.append(word)
            if name in ("m", "module"):
                break  # the module's name follows, then its own arguments
            continue
        if not equals:
            if not rest:
                raise ConfigurationError(f"torchrun's option {word} wants a value")
            value = rest.pop(0)
        if name in _OURS:
            ours[name] = value
        else:
            kept += [word] if equals else [word, value]
    if not rest:
        raise ConfigurationError("torchrun is given no script to run")
    restarts = ours.get("max-restarts", "0")
    if not restarts.isdigit():
        raise ConfigurationError(f"torchrun's --max-restarts={restarts}: not a number")
    if int(restarts) > 0:
        raise ConfigurationError(
            "torchrun's --max-restarts hides crashes from the run's journal: leave it out, srun-resilient starts again"
        )
    return TrainingCommand(CommandKind.TORCHRUN, (*kept, *rest), python, ours.get("nproc-per-node"), ours.get("nnodes"))


def understand(words: Sequence[str], *, plain: bool = False) -> TrainingCommand:
    """What kind of command this is. `plain`: the user says it's to be run as it stands, one process a task."""
    first = PurePath(words[0]).name
    if plain:
        return TrainingCommand(CommandKind.TASK, tuple(words), None, None, None)
    if first == "torchrun":
        beside = PurePath(words[0]).with_name("python") if "/" in words[0] else None
        return _take_over(words[1:], str(beside) if beside else None)
    if _is_python(words[0]):
        named = words[0] if "/" in words[0] else None
        if len(words) > 2 and words[1] == "-m" and words[2] in _TORCHRUN_MODULES:
            return _take_over(words[3:], named)
        flags = 1
        while flags < len(words) and words[flags] in ("-u", "-B", "-I", "-E", "-s", "-O", "-OO"):
            flags += 1  # interpreter flags: torchrun starts the ranks with -u by itself
        if flags < len(words) and (words[flags] == "-m" or words[flags].endswith(".py")):
            return TrainingCommand(CommandKind.TORCHRUN, tuple(words[flags:]), named, None, None)
    return TrainingCommand(CommandKind.TASK, tuple(words), None, None, None)
