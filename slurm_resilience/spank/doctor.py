"""From facts to findings: is the plugin here, built for this Slurm, loaded? Pure. Its folders: see furniture.py."""

from __future__ import annotations

from slurm_resilience.spank.arguments import Arguments, read_arguments
from slurm_resilience.spank.facts import Facts, Named, PluginFile
from slurm_resilience.spank.finding import Finding, fine, unknown, warning, wrong
from slurm_resilience.spank.furniture import examine_furniture
from slurm_resilience.spank.installed import FILE_NAME, Contents, release_of, runs_on

HOW_TO_INSTALL = (
    "an administrator installs the package slurm-resilience-spank of this Slurm's release (docs/spank.md), or runs "
    "`make -C spank && make -C spank install`; srun-resilient does all of its work without it"
)


def examine(facts: Facts) -> tuple[Finding, ...]:
    """In the order in which an administrator would look."""
    if facts.slurm_version is None:
        why = "" if facts.loaded.complaint is None else f" ({facts.loaded.complaint})"
        return (wrong("slurm", f"no command of Slurm's says its version here{why}", "run this where Slurm is set up"),)
    found = [_slurm(facts), *_plugstack(facts)]
    if not facts.named:
        return (*found, *_not_named(facts))
    first = facts.named[0]
    found += [_line(facts), _plugin(facts, first)]
    if first.plugin is not None:
        found += _build(facts, first, first.plugin)
    found.append(_loaded(facts))
    arguments, objections = arguments_of(first)
    found += _arguments(first, arguments, objections)
    return (*found, *examine_furniture(facts, arguments))


def arguments_of(named: Named) -> tuple[Arguments, tuple[str, ...]]:
    """Those in force, the paths built into the file included, and what is wrong with the others."""
    contents = None if named.plugin is None else named.plugin.contents
    return read_arguments(named.line.arguments, built_in(contents))


def built_in(contents: Contents | None) -> Arguments:
    usual = Arguments()
    if contents is None:
        return usual
    return Arguments(relay=contents.relay or usual.relay, health_dir=contents.health_dir or usual.health_dir)


def _slurm(facts: Facts) -> Finding:
    settings = facts.settings
    if settings.why_not_the_controller is None:
        return fine("slurm", f"Slurm {facts.slurm_version}")
    return unknown(
        "slurm",
        f"Slurm {facts.slurm_version}; its settings are those of {settings.told_by}, for want of an answer: "
        f"{settings.why_not_the_controller}",
        "ask again when the controller answers; where slurm.conf has another place, say it in SLURM_CONF",
    )


def _plugstack(facts: Facts) -> list[Finding]:
    path = facts.plugstack_file.path
    bad = [
        wrong("plugstack.conf", unreadable.sentence, "correct it: every command of Slurm's complains of it")
        for unreadable in facts.plugstack.unreadable
    ]
    if facts.plugstack_file.kind == "missing":
        return [wrong("plugstack.conf", f"there is no {path}: Slurm loads no plugin", _what_to_add(facts))]
    if bad:
        return bad
    count = len(facts.plugstack.files)
    return [fine("plugstack.conf", f"{path}" + (f" and {count - 1} included by it" if count > 1 else ""))]


def _what_to_add(facts: Facts) -> str:
    plugin = FILE_NAME
    if facts.unnamed is not None and facts.unnamed.file.path.parent not in facts.settings.plugin_directories:
        plugin = str(facts.unnamed.file.path)
    return f"add the line `optional {plugin}` to {facts.plugstack_file.path}, on every machine of the cluster"


def _not_named(facts: Facts) -> list[Finding]:
    if facts.unnamed is not None:
        sentence = f"{facts.unnamed.file.path} is there, and no line of {facts.plugstack_file.path} names it"
        return [wrong("plugin", sentence, _what_to_add(facts))]
    places = ", ".join(map(str, facts.settings.plugin_directories)) or "PluginDir"
    sentence = f"the plugin is not installed on this machine: no line names it, and there is no {FILE_NAME} in {places}"
    return [wrong("plugin", sentence, HOW_TO_INSTALL)]


def _line(facts: Facts) -> Finding:
    first, *more = facts.named
    if more:
        again = ", ".join(named.line.place for named in more)
        sentence = f"{first.line.place} names the plugin, and {again} again: Slurm loads it twice"
        return wrong("line", sentence, "leave one of the lines")
    how = "required" if first.line.required else "optional"
    sentence = f"{first.line.place}: {how} {first.line.plugin}"
    if first.line.required:
        return warning(
            "line",
            f"{sentence}: one that can't be loaded fails every srun, sbatch and salloc, and drains nodes",
            "write `optional`",
        )
    return fine("line", sentence)


def _plugin(facts: Facts, named: Named) -> Finding:
    if named.plugin is None:
        hurt = "every command fails" if named.line.required else "every command complains of it"
        sentence = f"{named.line.place} names {named.line.plugin}, which is not there: {hurt}"
        return wrong("plugin", sentence, f"install it, or take the line out; {HOW_TO_INSTALL}")
    file, contents = named.plugin.file, named.plugin.contents
    if file.others_may_write:
        sentence = (
            f"{file.path} may be written by others than its owner (mode {file.mode:o}), and root's slurmd loads it"
        )
        return wrong("plugin", sentence, f"chmod 644 {file.path}")
    if file.uid not in (0, facts.settings.slurmd_uid):
        sentence = f"{file.path} belongs to uid {file.uid}, and {facts.settings.slurmd_user}'s slurmd loads it"
        return wrong("plugin", sentence, f"chown root:root {file.path}")
    if contents is None:
        return unknown("plugin", f"{file.path} can't be read from this account", f"chmod 644 {file.path}")
    if contents.elf is None or not contents.elf.shared:
        return wrong("plugin", f"{file.path} is no shared object", "install it again")
    if not runs_on(contents.elf, facts.machine):
        sentence = f"{file.path} is for {contents.elf.machine}, and this machine is {facts.machine}"
        return wrong("plugin", sentence, "install the package of this machine's architecture")
    return fine("plugin", f"{file.path}, ELF {contents.elf.bits} bit, {contents.elf.machine}")


def _build(facts: Facts, named: Named, plugin: PluginFile) -> list[Finding]:
    if plugin.contents is None or plugin.contents.elf is None:
        return []
    stamp = plugin.contents.stamp
    if stamp is None:
        sentence = f"{plugin.file.path} doesn't say which Slurm it was built for: it is not our plugin, or older"
        return [wrong("build", sentence, "build and install it again")]
    here = f"{facts.slurm_version}"
    built_for = ".".join((str(stamp.slurm[0]), f"{stamp.slurm[1]:02d}", str(stamp.slurm[2])))
    if release_of(here) != stamp.slurm[:2]:
        hurt = "fails every command" if named.line.required else "is skipped, with a complaint at every command"
        sentence = (
            f"built for Slurm {built_for}, and this is {here}: Slurm compares the first two numbers, and it {hurt}"
        )
        return [wrong("build", sentence, f"install the package that is built for Slurm {_release(here)}")]
    found = [fine("build", f"slurm-resilience-spank {stamp.version} for Slurm {built_for}")]
    if stamp.version != facts.my_version:
        sentence = f"the plugin is of slurm-resilience {stamp.version}, and this command is of {facts.my_version}"
        found.append(warning("build", sentence, "use the same version for both"))
    return found


def _release(version: str) -> str:
    release = release_of(version)
    return version if release is None else f"{release[0]}.{release[1]:02d}"


def _loaded(facts: Facts) -> Finding:
    loaded = facts.loaded
    said = "" if loaded.complaint is None else f" (srun says: {loaded.complaint})"
    if not loaded.listed:
        sentence = f"this machine's srun doesn't know --resilient: the plugin isn't loaded here{said}"
        return wrong("loaded", sentence, "see what else is wrong in this list; `srun -v --help` says why")
    if loaded.complaint is not None:
        return warning("loaded", f"srun --help lists --resilient{said}", "see to what srun says")
    return fine("loaded", "srun --help lists --resilient: loaded on this machine (--probe tries the nodes)")


def _arguments(named: Named, arguments: Arguments, objections: tuple[str, ...]) -> list[Finding]:
    if objections:
        to_do = f"correct {named.line.place}; until then the plugin takes its default"
        return [wrong("arguments", objection, to_do) for objection in objections]
    given = " ".join(named.line.arguments) or "none: the defaults"
    relay = "" if arguments.relay is not None else " (no relay: tasks get Slurm's signals as ever)"
    return [fine("arguments", f"{given}{relay}")]
