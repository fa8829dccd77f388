from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandMissing, CommandTimedOut, ConfigurationError
from slurm_resilience.slurm.choice import DoesNotLoad, Loads, choose_client, probe
from slurm_resilience.slurm.command_line import CommandLineSlurm
from slurm_resilience.slurm.pyslurm_client import PySlurmClient

REPOSITORY = Path(__file__).parents[3]
CONFIGURATION = "KillWait = 30 sec\nSLURM_VERSION = {}\nClusterName = here\n"


@dataclass
class Machine:
    """Answers the child that loads pyslurm, and `scontrol show config`."""

    pyslurm: str | Exception = "25.11.2"
    """Its version, or what becomes of the child."""
    controller: str | None = "25.11.4"
    """None: it doesn't answer."""
    asked: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def run(self, argv: Sequence[str], **more: object) -> Completed:
        self.asked.append(argv[0])
        if argv[0] == sys.executable:
            if isinstance(self.pyslurm, Exception):
                raise self.pyslurm
            return Completed(tuple(argv), 0, f'pyslurm answers: {{"version": "{self.pyslurm}"}}\n', "")
        if self.controller is None:
            return Completed(tuple(argv), 1, "", "Unable to contact slurm controller (connect failure)")
        return Completed(tuple(argv), 0, CONFIGURATION.format(self.controller), "")

    def choice(self, word: str | None) -> object:
        environment = {"PATH": "/bin"} | ({} if word is None else {"SLURM_RESILIENCE_SLURM_CLIENT": word})
        return type(choose_client(environment, say=self.said.append, runner=self.run))


@pytest.mark.parametrize("word", [None, "", "commands"])
def test_the_commands_are_chosen_without_looking_for_pyslurm(word: str | None) -> None:
    machine = Machine()
    assert machine.choice(word) is CommandLineSlurm
    assert (machine.asked, machine.said) == ([], [])


@pytest.mark.parametrize("word", ["PySlurm", "slurm", "auto ", "yes"])
def test_another_word_is_refused(word: str) -> None:
    with pytest.raises(ConfigurationError, match="commands, pyslurm, auto"):
        Machine().choice(word)


@pytest.mark.parametrize("controller", ["25.11.4", "26.05.1", None])
def test_pyslurm_is_taken_at_the_users_word_wherever_it_loads(controller: str | None) -> None:
    machine = Machine(controller=controller)
    assert machine.choice("pyslurm") is PySlurmClient
    assert machine.said == []


@pytest.mark.parametrize("word", ["pyslurm", "auto"])
@pytest.mark.parametrize("becomes", [CommandTimedOut("it hangs"), CommandMissing("there is no program 'python' here")])
def test_the_commands_take_over_where_it_does_not_load_and_it_is_said_once(word: str, becomes: Exception) -> None:
    machine = Machine(pyslurm=becomes)
    assert machine.choice(word) is CommandLineSlurm
    assert len(machine.said) == 1
    assert word in machine.said[0]


@pytest.mark.parametrize(
    ("pyslurm", "controller", "fits"),
    [
        ("25.11.2", "25.11.4", True),
        ("24.5.1", "24.05.3", True),
        ("24.11.0", "24.11.5", True),
        ("25.11.2", "25.05.3", False),
        ("24.11.0", "25.11.4", False),
        ("24.11.0", "26.05.1", False),
        ("unknown", "25.11.4", False),
        ("unknown", "unknown", False),
        ("25.11.2", None, False),
    ],
)
def test_auto_takes_pyslurm_only_for_the_controllers_own_release(
    pyslurm: str, controller: str | None, fits: bool
) -> None:
    machine = Machine(pyslurm, controller)
    assert machine.choice("auto") is (PySlurmClient if fits else CommandLineSlurm)
    assert len(machine.said) == (0 if fits else 1)


def module_that(folder: Path, does: str) -> dict[str, str]:
    """The environment in which `import pyslurm` does that."""
    (folder / "pyslurm.py").write_text(does)
    return dict(os.environ) | {"PYTHONPATH": f"{folder}:{REPOSITORY}"}


@pytest.mark.parametrize(
    ("module", "found"),
    [
        ("__version__ = '25.11.2'", Loads("25.11.2")),
        ("raise ImportError('undefined symbol: x')", "ImportError: undefined symbol: x"),
        ("import os; os._exit(1)", "left with 1"),
        ("import sys", Loads("of no version")),
    ],
)
def test_a_child_finds_out_whether_it_loads(tmp_path: Path, module: str, found: Loads | str) -> None:
    result = probe(module_that(tmp_path, module))
    match found:
        case Loads():
            assert result == found
        case words:
            assert isinstance(result, DoesNotLoad)
            assert words in result.why


def test_choosing_the_commands_loads_nothing_of_pyslurm(tmp_path: Path) -> None:
    program = """
import sys
from slurm_resilience.slurm.choice import choose_client
choose_client({}, say=print)
print(sorted(name for name in sys.modules if "pyslurm" in name))
"""
    environment = module_that(tmp_path, "raise SystemExit('it was loaded')")
    done = run([sys.executable, "-c", program], timeout_s=60, env=environment)
    assert (done.out, done.code) == ("[]\n", 0)
