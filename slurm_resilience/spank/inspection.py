"""Looks at this machine and its Slurm: reads files, asks commands, changes nothing."""

from __future__ import annotations

import glob
import platform
import pwd
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slurm_resilience import __version__
from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandError, ConfigurationError, SlurmError
from slurm_resilience.slurm.commands import Commands, own_environment
from slurm_resilience.spank.doctor import arguments_of
from slurm_resilience.spank.facts import Facts, FileFact, Loaded, Named, PluginFile, Settings
from slurm_resilience.spank.installed import FILE_NAME, Contents, candidates, read_contents
from slurm_resilience.spank.plugstack import PluginLine, Plugstack, read_plugstack
from slurm_resilience.spank.settings import (
    NOBODY,
    SLURM_CONF_PLACES,
    THE_CONTROLLER,
    read_answer,
    read_slurm_conf,
    settings_from,
)

_ANSWER_S = 20.0
"""A controller that is down takes 10 s to be given up by scontrol."""
_SLURMD = "/usr/sbin/slurmd"
"""Rarely in a user's PATH."""
_LARGEST_PLUGIN_BYTES = 64 * 2**20
_USUAL_PLUGIN_DIRECTORIES = (
    "/usr/lib/*-linux-gnu/slurm-wlm",
    "/usr/lib/*-linux-gnu/slurm",
    "/usr/lib64/slurm",
    "/usr/lib/slurm",
    "/usr/local/lib/slurm",
)

_LEFTOVERS = tuple("~ .dpkg-dist .dpkg-new .dpkg-old .dpkg-tmp .rpmnew .rpmorig .rpmsave .bak .orig .swp".split())
"""What the plugin doesn't take for a check, as src/health_folder.c has it."""

Runner = Callable[..., Completed]


def inspect(environment: Mapping[str, str], *, plugstack: Path | None = None, runner: Runner = run) -> Facts:
    """`plugstack` stands for the plugstack.conf that Slurm reads. Raises ConfigurationError where it isn't there."""
    if plugstack is not None and not plugstack.is_file():
        raise ConfigurationError(f"there is no plugstack file {plugstack}")
    env = own_environment(environment)
    settings = _settings(env, runner)
    file = Path(plugstack if plugstack is not None else _plugstack_file(settings, env)).absolute()
    stack = read_plugstack(file, _read_text, _expand)
    named = _named(stack, settings)
    node = platform.node().partition(".")[0]
    paths = _paths(named[0], node) if named else ()
    health = Path(arguments_of(named[0])[0].health_dir) if named else None
    return Facts(
        slurm_version=_slurm_version(env, runner),
        machine=platform.machine(),
        node=node,
        my_version=__version__,
        compute_node=shutil.which("slurmd", path=f"{env.get('PATH', '')}:/usr/sbin:/sbin") is not None,
        settings=settings,
        plugstack_file=look_at(file),
        plugstack=stack,
        named=named,
        unnamed=None if named else _find(FILE_NAME, settings),
        loaded=_loaded(env, runner),
        paths=paths,
        health_checks=() if health is None else _health_checks(health),
        health_way=() if health is None else tuple(look_at(each) for each in reversed(health.resolve().parents)),
    )


def look_at(path: Path) -> FileFact:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return FileFact(path, "missing")
    except OSError:
        return FileFact(path, "unknown")
    is_file, is_folder = stat.S_ISREG(found.st_mode), stat.S_ISDIR(found.st_mode)
    kind = FileFact(path, "file" if is_file else "folder" if is_folder else "other").kind
    return FileFact(path, kind, found.st_uid, stat.S_IMODE(found.st_mode))


def _settings(env: Mapping[str, str], runner: Runner) -> Settings:
    usual = [Path(folder) for pattern in _USUAL_PLUGIN_DIRECTORIES for folder in sorted(glob.glob(pattern))]  # noqa: PTH207 - absolute patterns
    try:
        answer = Commands(env, _ANSWER_S, runner).ask(["scontrol", "show", "config"])
        values, told_by, why_not = read_answer(answer.out), THE_CONTROLLER, None
    except SlurmError as error:
        conf = _slurm_conf(env)
        values = {} if conf is None else read_slurm_conf(_text_or_nothing(conf))
        told_by, why_not = NOBODY if conf is None else str(conf), str(error)
    return settings_from(
        values,
        told_by=told_by,
        why_not_the_controller=why_not,
        usual_plugin_directories=usual,
        uid_of=_uid_of(values.get("slurmduser", "root")),
    )


def _uid_of(user: str) -> dict[str, int]:
    try:
        return {user: pwd.getpwnam(user).pw_uid}
    except KeyError:
        return {}


def _slurm_conf(env: Mapping[str, str]) -> Path | None:
    """The file that Slurm's commands would read."""
    named = env.get("SLURM_CONF")
    places = (named,) if named else SLURM_CONF_PLACES
    return next((Path(place) for place in places if Path(place).is_file()), None)


def _plugstack_file(settings: Settings, env: Mapping[str, str]) -> Path:
    if settings.plugstack is not None:
        return settings.plugstack
    conf = _slurm_conf(env)
    if conf is not None:
        return conf.with_name("plugstack.conf")
    found = (Path(place).with_name("plugstack.conf") for place in SLURM_CONF_PLACES)
    return next((path for path in found if path.is_file()), Path("/etc/slurm/plugstack.conf"))


def _slurm_version(env: Mapping[str, str], runner: Runner) -> str | None:
    """srun where it works: it doesn't where a required plugin can't be loaded. The others load no plugins."""
    for argv in (["srun", "--version"], ["sinfo", "--version"], ["slurmd", "-V"], [_SLURMD, "-V"]):
        try:
            done = runner(argv, timeout_s=_ANSWER_S, env=env)
        except CommandError:
            continue
        words = done.out.split()
        if done.code == 0 and words and words[-1][:1].isdigit():
            return words[-1]
    return None


def _loaded(env: Mapping[str, str], runner: Runner) -> Loaded:
    try:
        done = runner(["srun", "--help"], timeout_s=_ANSWER_S, env=env)
    except CommandError as error:
        return Loaded(listed=False, complaint=str(error))
    listed = any(line.split()[:1] and line.split()[0].startswith("--resilient") for line in done.out.splitlines())
    said = [line.strip() for line in done.err.splitlines() if line.strip()]
    return Loaded(listed=listed, complaint=said[-1] if said else None)


def _named(stack: Plugstack, settings: Settings) -> tuple[Named, ...]:
    looked = ((line, _find(line.plugin, settings)) for line in stack.plugins)
    return tuple(Named(line, plugin) for line, plugin in looked if _is_ours(line, plugin))


def _is_ours(line: PluginLine, plugin: PluginFile | None) -> bool:
    """By its name, or by its stamp under another name."""
    stamped = plugin is not None and plugin.contents is not None and plugin.contents.stamp is not None
    return stamped or Path(line.plugin).name == FILE_NAME


def _find(plugin: str, settings: Settings) -> PluginFile | None:
    for path in candidates(plugin, settings.plugin_directories):
        fact = look_at(path)
        if fact.kind == "file":
            return PluginFile(fact, _contents(path))
    return None


def _contents(path: Path) -> Contents | None:
    try:
        with path.open("rb") as file:
            return read_contents(file.read(_LARGEST_PLUGIN_BYTES))
    except OSError:
        return None


def _paths(named: Named, node: str) -> tuple[FileFact, ...]:
    arguments, _ = arguments_of(named)
    spool = Path(arguments.spool_on(node))
    wanted = [spool, spool.parent, Path(arguments.health_dir), Path(arguments.runtime)]
    if arguments.relay is not None:
        wanted.append(Path(arguments.relay))
    return tuple(look_at(path) for path in wanted)


def _health_checks(folder: Path) -> tuple[FileFact, ...]:
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return ()
    return tuple(
        look_at(path) for path in paths if not path.name.startswith(".") and not path.name.endswith(_LEFTOVERS)
    )


def _read_text(path: Path) -> str:
    return path.read_bytes().decode(errors="surrogateescape")


def _text_or_nothing(path: Path) -> str:
    try:
        return _read_text(path)
    except OSError:
        return ""


def _expand(pattern: str) -> Sequence[Path]:
    """In the order of names, as glob(3): there the locale's, which differs for nothing that sites call these files."""
    return [Path(name) for name in sorted(glob.glob(pattern))]  # noqa: PTH207 - the pattern is absolute
