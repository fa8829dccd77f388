"""Where a job's output lies: as its attempt wrote down, as Slurm says, or as its name says. For triage, afterwards."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.durable_file import replace_durably
from slurm_resilience.errors import SlurmError
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.slurm.commands import NOT_KNOWN, Commands
from slurm_resilience.supervisor.output import Output

_ENDINGS = frozenset({".out", ".err", ".log", ".txt", ""})
_SHOWN = re.compile(r"^\s*(StdOut|StdErr|WorkDir)=(.*)$", re.MULTILINE)
_RUN = re.compile(rb"attempt \d+ of run (/.+?) \((?:batch|allocation|login|local|bare)\), from ")
_HEAD_BYTES = 1 << 20
MOST_FILES = 512


@dataclass(frozen=True, slots=True)
class JobFiles:
    """Of one job, as `scontrol show job` has them."""

    outputs: tuple[Path, ...] = ()
    folder: Path | None = None


def remember_output(run: RunDirectory, attempt: int, output: Output | None) -> None:
    """Write down where the attempt's output goes: Slurm forgets a job after minutes. Never raises for it."""
    if output is not None:
        with contextlib.suppress(OSError):
            words = {"format": 1, "path": str(output.path), "since_byte": output.since_byte}
            replace_durably(_note(run, attempt), json.dumps(words).encode())


def remembered_output(run: RunDirectory, attempt: int) -> Output | None:
    """None: nobody has written it down, or what is there can't be read."""
    try:
        value = json.loads(_note(run, attempt).read_bytes())
        return Output(Path(value["path"]), int(value["since_byte"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _note(run: RunDirectory, attempt: int) -> Path:
    return run.attempt(attempt) / "output.json"


def files_by_slurm(commands: Commands, job: str) -> JobFiles:
    """Nothing where Slurm doesn't know the job any more, or doesn't answer."""
    try:
        shown = commands.ask(["scontrol", "show", "job", job], fine=NOT_KNOWN).out
    except SlurmError:
        return JobFiles()
    found: dict[str, list[str]] = {}
    for name, value in _SHOWN.findall(shown):
        found.setdefault(name, []).append(value.strip())
    texts = [*found.get("StdOut", []), *found.get("StdErr", [])]
    outputs = dict.fromkeys(path for text in texts for path in _as_files(text))
    folder = next((Path(text) for text in found.get("WorkDir", []) if text), None)
    return JobFiles(tuple(outputs), folder)


def _as_files(text: str) -> Iterator[Path]:
    """A step's own pattern (`%t`, `%n`, `%N`) stands for each file that it has become."""
    path = Path(text)
    if not text or text == "/dev/null":
        return
    if "%" not in path.name:
        yield path
        return
    pattern = re.sub(r"%\d*[a-zA-Z]", "*", path.name)
    with contextlib.suppress(OSError):
        yield from sorted(path.parent.glob(pattern))[:MOST_FILES]


def files_by_name(job: str, folders: Iterable[Path]) -> tuple[Path, ...]:
    """Those in `folders` (not below them) whose name has the job's number in it, as `slurm-%j.out` has."""
    alone = r"(?:(?<![A-Za-z0-9])|(?<=job)|(?<=slurm))"  # `d1` is nobody's output
    number = re.compile(rf"{alone}{re.escape(job)}(?![A-Za-z0-9])")
    found: dict[Path, None] = {}
    for folder in dict.fromkeys(folders):
        with contextlib.suppress(OSError):
            for path in sorted(folder.iterdir()):
                if path.suffix in _ENDINGS and number.search(path.name) and path.is_file():
                    found[path] = None
    return tuple(found)[:MOST_FILES]


def run_named_in(outputs: Iterable[Path]) -> Path | None:
    """The run directory that srun-resilient has said there, if it is here still."""
    for path in outputs:
        with contextlib.suppress(OSError), path.open("rb") as file:
            named = _RUN.findall(file.read(_HEAD_BYTES))
            for text in reversed(named):
                run = Path(text.decode(errors="surrogateescape"))
                if RunDirectory(run).journal.is_file():
                    return run
    return None
