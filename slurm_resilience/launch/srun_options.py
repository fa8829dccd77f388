"""srun's command line, as far as one must know it to find where the options end and the command begins.

srun stops at the first word that isn't an option, so one has to know which options take the next word as their value.
The table is srun's of 22.05 to 25.11; a long option with `=` needs no table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_resilience.errors import ConfigurationError

SHORT_WITH_VALUE = frozenset("ABcCdDeFGiJLmMnNopPqrStTwWxb")
"""-I and -K take a value only glued to them."""

LONG_WITH_VALUE = frozenset(
    """
    accel-bind account acctg-freq batch bb bbf bcast-exclude begin chdir cluster-constraint clusters comment constraint
    container container-id core-spec cores-per-socket cpu-bind cpu-freq cpus-per-gpu cpus-per-task deadline
    delay-boot dependency distribution environment epilog error exclude export extra extra-node-info gid gpu-bind
    gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags het-group hint ignore-signals input
    job-name jobid licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus mpi msg-timeout
    network nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
    ntasks-per-tres open-mode output partition power prefer priority profile prolog qos relative
    reservation resv segment signal slurmd-debug sockets-per-node switches task-epilog task-prolog thread-spec
    threads threads-per-core time time-min tmp treewidth tres-bind tres-per-task uid wait wckey
    container-image container-mounts container-workdir container-name container-env
    resilient-run resilient-signal-lead
    """.split()
)
"""The container-… options are pyxis's, the resilient-… ones our own plugin's."""

_SHORT_OF = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task", "W": "wait", "K": "kill-on-bad-exit", "G": "gpus"}
_SHORT_OF |= {"J": "job-name", "w": "nodelist", "x": "exclude", "t": "time", "p": "partition", "i": "input"}


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    """Without dashes; long where we know both (`nodes` for -N)."""
    value: str | None
    words: tuple[str, ...]
    """As the user typed it."""


@dataclass(frozen=True, slots=True)
class SrunLine:
    options: tuple[Option, ...]
    command: tuple[str, ...]

    def value(self, name: str) -> str | None:
        """The value of the last `name`, as srun would take it."""
        found = [option.value for option in self.options if option.name == name]
        return found[-1] if found else None

    def without(self, names: frozenset[str]) -> SrunLine:
        return SrunLine(tuple(option for option in self.options if option.name not in names), self.command)

    def words_without(self, *names: str) -> list[str]:
        """The options to hand on to srun, without those we set ourselves."""
        return [word for option in self.options if option.name not in names for word in option.words]


def _value(rest: list[str], option: str) -> str:
    if not rest:
        raise ConfigurationError(f"option {option} wants a value")
    return rest.pop(0)


def split(words: Sequence[str], *, also_with_value: frozenset[str] = frozenset()) -> SrunLine:
    """`also_with_value`: long options of somebody else's that take the next word.

    Raises ConfigurationError for a missing value or a missing command.
    """
    options: list[Option] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, glued = word[2:].partition("=")
            takes_next = not equals and name in LONG_WITH_VALUE | also_with_value
        else:
            name, glued = _SHORT_OF.get(word[1], word[1]), word[2:]
            takes_next = not glued and word[1] in SHORT_WITH_VALUE
        if takes_next:
            value = _value(rest, word)
            options.append(Option(name, value, (word, value)))
        else:
            options.append(Option(name, glued or None, (word,)))
    if not rest:
        raise ConfigurationError("there is no command to run: srun-resilient [OPTIONS] [SRUN OPTIONS] [--] COMMAND…")
    return SrunLine(tuple(options), tuple(rest))
