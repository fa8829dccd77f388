"""A machine on which everything is as it should be, to be spoilt by tests."""

from __future__ import annotations

from pathlib import Path

from slurm_resilience.spank.facts import Facts, FileFact, Loaded, Named, PluginFile, Settings
from slurm_resilience.spank.installed import Contents, Elf, Stamp
from slurm_resilience.spank.plugstack import PluginLine, Plugstack

CONF = Path("/etc/slurm/plugstack.conf")
FOLDER = Path("/usr/lib/slurm")
SO = FOLDER / "resilience.so"
RELAY = Path("/usr/libexec/slurm-resilience/relay")
SPOOL = Path("/var/spool/slurm-resilience")
HEALTH = Path("/usr/libexec/slurm-resilience/health.d")
SHM = Path("/dev/shm")


def file(path: Path, mode: int = 0o644, uid: int = 0) -> FileFact:
    return FileFact(path, "file", uid, mode)


def folder(path: Path, mode: int = 0o755, uid: int = 0) -> FileFact:
    return FileFact(path, "folder", uid, mode)


def line(*arguments: str, required: bool = False) -> PluginLine:
    return PluginLine(required, "resilience.so", arguments, CONF, 3)


PATHS = (file(RELAY, 0o755), folder(SPOOL), folder(SPOOL.parent), folder(SHM, 0o1777), folder(HEALTH))
CONTENTS = Contents(Stamp("0.1.0", (22, 5, 8)), Elf(64, "x86_64", shared=True), str(RELAY), str(HEALTH))
PLUGIN = PluginFile(file(SO), CONTENTS)
SETTINGS = Settings("the controller", None, CONF, (FOLDER,), 30, "root", 0)

IN_ORDER = Facts(
    slurm_version="22.05.8",
    machine="x86_64",
    node="n1",
    my_version="0.1.0",
    compute_node=True,
    settings=SETTINGS,
    plugstack_file=file(CONF),
    plugstack=Plugstack((line(),), (CONF,), (), ()),
    named=(Named(line(), PLUGIN),),
    unnamed=None,
    loaded=Loaded(listed=True, complaint=None),
    paths=PATHS,
    health_checks=(file(HEALTH / "gpu-ecc", 0o755),),
)


def with_arguments(*arguments: str, **changes: object) -> Facts:
    from dataclasses import replace

    facts = replace(IN_ORDER, named=(Named(line(*arguments), PLUGIN),))
    return replace(facts, **changes)  # type: ignore[arg-type]


def with_path(fact: FileFact, *arguments: str) -> Facts:
    """With `fact` in place of what is known of its path."""
    others = tuple(each for each in PATHS if each.path != fact.path)
    return with_arguments(*arguments, paths=(*others, fact))
