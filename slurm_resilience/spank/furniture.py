"""From facts to findings: what the plugin uses besides itself: relay, spool, runtime folder, health checks. Pure."""

from __future__ import annotations

import stat

from slurm_resilience.spank.arguments import Arguments
from slurm_resilience.spank.facts import Facts, FileFact
from slurm_resilience.spank.finding import Finding, fine, unknown, warning, wrong


def examine_furniture(facts: Facts, arguments: Arguments) -> tuple[Finding, ...]:
    return (
        _relay(facts, arguments),
        _spool(facts, arguments),
        _runtime(facts, arguments),
        _kill_wait(facts, arguments),
        *_health(facts, arguments),
    )


def _relay(facts: Facts, arguments: Arguments) -> Finding:
    if arguments.relay is None:
        return fine("relay", "off, by relay=off")
    relay = facts.path(arguments.relay)
    match relay.kind:
        case "file" if not relay.executable:
            return wrong("relay", f"{relay.path} can't be executed (mode {relay.mode:o})", f"chmod 755 {relay.path}")
        case "file" if relay.mode & 0o005 != 0o005:
            sentence = f"{relay.path} can't be executed by every user (mode {relay.mode:o}), and it runs as the job's"
            return wrong("relay", sentence, f"chmod 755 {relay.path}")
        case "file" if relay.others_may_write:
            sentence = f"{relay.path} may be written by others than its owner (mode {relay.mode:o})"
            return wrong("relay", sentence, f"chmod 755 {relay.path}")
        case "file":
            return fine("relay", f"{relay.path}")
        case "missing" if not facts.compute_node:
            return fine("relay", f"{relay.path} is not here, and need not be: this is no compute node")
        case "missing":
            sentence = f"there is no {relay.path}: signals of Slurm's kill a bare program as ever"
            return wrong("relay", sentence, "install it, or say relay=off or relay=FILE in plugstack.conf")
        case "unknown":
            return unknown("relay", f"{relay.path} can't be looked at from this account", "run this as root")
        case "folder" | "other":
            return wrong("relay", f"{relay.path} is no program", "say relay=FILE in plugstack.conf")


def _spool(facts: Facts, arguments: Arguments) -> Finding:
    spool = facts.path(arguments.spool_on(facts.node))
    owner, uid = facts.settings.slurmd_user, facts.settings.slurmd_uid
    match spool.kind:
        case "folder" if spool.uid != uid:
            sentence = f"{spool.path} belongs to uid {spool.uid}, not to {owner}: exit notes could be forged"
            return wrong("spool", sentence, f"chown {owner} {spool.path}")
        case "folder" if spool.others_may_write:
            sentence = (
                f"{spool.path} may be written by others than {owner} (mode {spool.mode:o}): notes could be forged"
            )
            return wrong("spool", sentence, f"chmod 755 {spool.path}")
        case "folder":
            return fine("spool", f"{spool.path}, {owner}'s, mode {spool.mode:o}")
        case "missing" if facts.path(spool.path.parent).kind == "folder":
            return fine("spool", f"{spool.path} is not there yet: the plugin makes it when a first task ends")
        case "missing":
            sentence = f"{spool.path} can't be made: there is no {spool.path.parent}"
            return wrong("spool", sentence, f"mkdir {spool.path.parent}, or say spool=DIR in plugstack.conf")
        case "unknown":
            return unknown("spool", f"{spool.path} can't be looked at from this account", "run this as root")
        case "file" | "other":
            return wrong("spool", f"{spool.path} is no folder", "say spool=DIR in plugstack.conf")


def _runtime(facts: Facts, arguments: Arguments) -> Finding:
    runtime = facts.path(arguments.runtime)
    if runtime.kind == "folder" and runtime.mode & 0o003 == 0o003:
        return fine("runtime", f"{runtime.path}, where each job's own folder is made")
    if not facts.compute_node:
        return fine("runtime", f"{runtime.path} is for compute nodes, and this is none")
    sentence = f"users can't make folders in {runtime.path}: the relay will not start"
    return wrong("runtime", sentence, f"chmod 1777 {runtime.path}, or say runtime=DIR in plugstack.conf")


def _kill_wait(facts: Facts, arguments: Arguments) -> Finding:
    mine, theirs = arguments.kill_wait_s, facts.settings.kill_wait_s
    if theirs is None:
        sentence = f"the plugin promises {mine} s after SIGTERM, and whether slurm.conf's KillWait is that isn't known"
        return unknown("kill_wait", sentence, "ask again when the controller answers")
    if mine == theirs:
        return fine("kill_wait", f"{mine} s, as slurm.conf's KillWait")
    to_do = f"say kill_wait={theirs} in plugstack.conf"
    if mine > theirs:
        sentence = f"the plugin promises {mine} s after SIGTERM, and Slurm kills after {theirs} s: saves are cut off"
        return wrong("kill_wait", sentence, to_do)
    return warning("kill_wait", f"the plugin promises {mine} s after SIGTERM, and Slurm would give {theirs} s", to_do)


def _health(facts: Facts, arguments: Arguments) -> tuple[Finding, ...]:
    if arguments.health == "off":
        return (fine("health", "off: nodes are not checked before a job"),)
    folder, owner = facts.path(arguments.health_dir), facts.settings.slurmd_user
    mode = f"health={arguments.health}"
    match folder.kind:
        case "folder":
            checks = [each for each in facts.health_checks if each.executable]
            on_the_way = [
                each for each in facts.health_way if each.path != folder.path and not each.mode & stat.S_ISVTX
            ]
            bad = [_unsafe(each, facts) for each in (*on_the_way, folder, *checks)]
            unsafe = tuple(each for each in bad if each is not None)
            if unsafe:
                return unsafe
            if not checks:
                return (warning("health", f"{mode}, and no check in {folder.path} is executable", "chmod 755 one"),)
            names = ", ".join(each.path.name for each in checks)
            return (fine("health", f"{mode}: {owner} runs {names} of {folder.path} before each job"),)
        case "missing" if not facts.compute_node:
            return (fine("health", f"{mode}; {folder.path} is not here, and need not be: this is no compute node"),)
        case "unknown":
            return (unknown("health", f"{folder.path} can't be looked at from this account", "run this as root"),)
        case "missing" | "file" | "other":
            sentence = f"{mode}, and there is no folder {folder.path}: nothing is checked"
            return (wrong("health", sentence, "say health_dir=DIR in plugstack.conf, or health=off"),)


def _unsafe(file: FileFact, facts: Facts) -> Finding | None:
    """What root runs before every job may be changed by root alone; the plugin runs nothing else."""
    owner = facts.settings.slurmd_user
    if file.uid not in (0, facts.settings.slurmd_uid):
        sentence = f"{file.path} belongs to uid {file.uid}, so no check there is run: {owner} would run it"
        return wrong("health", sentence, f"chown root:root {file.path}")
    if file.others_may_write:
        sentence = f"{file.path} may be written by others (mode {file.mode:o}), so no check there is run"
        return wrong("health", sentence, f"chmod go-w {file.path}")
    return None
