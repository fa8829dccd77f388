"""What shells, Python's start and the programs around a training say. Pure data."""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import Remedy, Retry
from slurm_resilience.triage.known.writing import advice, cascade, root

_BASH = "bash 5.2, run here"

SHELL = (
    cascade(
        "shell.killed",
        "something killed a process: for want of memory, a person, or after another's failure",
        r"line \d+: +(?P<pid>\d+) Killed\b|^\s{0,8}Killed\s{0,8}$",
        "Killed",
        _BASH,
        remedy=Remedy("look for a record of memory that ran out: only that says that this was why", Retry.UNKNOWN),
    ),
    cascade(
        "shell.child-killed",
        "something killed the program that this one had started: for want of memory, or a person",
        r"CalledProcessError: Command .{1,2000}died with <Signals\.(?:SIGKILL|SIGTERM|SIGINT): ",
        "died with <Signals.",
        "Python 3.11, Lib/subprocess.py: so Accelerate's launcher says it of the training",
        remedy=Remedy("look for a record of memory that ran out: only that says that this was why", Retry.UNKNOWN),
    ),
    root(
        "shell.faulted",
        "a process was ended by a memory fault",
        r"line \d+: +(?P<pid>\d+) (?P<signal>Segmentation fault|Bus error|Illegal instruction)\b|"
        r"^\s{0,8}(?:Segmentation fault|Bus error|Illegal instruction)(?: \(core dumped\))?\s{0,8}$",
        ("Segmentation fault", "Bus error", "Illegal instruction"),
        Cause.CRASHED,
        _BASH,
        do="run it with PYTHONFAULTHANDLER=1, and look at the space in /dev/shm",
        retry=Retry.UNKNOWN,
        setting="PYTHONFAULTHANDLER=1",
    ),
    root(
        "shell.command-missing",
        "a command of the batch script is not there",
        r"line \d+: (?P<path>[^:]{1,160}): (?:command not found|No such file or directory)|"
        r"slurm_script: \d+: (?:[^:]{1,160}): not found",
        ("command not found", "No such file or directory", "slurm_script: "),
        Cause.CRASHED,
        _BASH,
        do="load the module, or activate the environment, in the batch script before that line",
        retry=Retry.USELESS,
        setting="module load …",
    ),
    root(
        "shell.module-missing",
        "a module that the batch script loads is not there",
        r"Lmod has detected the following error|Unable to locate a modulefile for|The following module\(s\) "
        r"are unknown",
        ("Lmod has detected", "locate a modulefile", "module(s) are unknown"),
        Cause.CRASHED,
        "Lmod 8 and Environment Modules 5, public documentation",
        do="look which modules this cluster has, and name one of them",
        retry=Retry.USELESS,
        command="module avail",
    ),
    advice(
        "shell.no-job-control",
        "a shell without a terminal",
        r"no job control in this shell|cannot set terminal process group",
        ("no job control in this", "cannot set terminal process"),
        _BASH,
    ),
)
