"""Facts to findings: what is wrong is named, what is right isn't, and each wrong comes with what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_resilience.spank.doctor import examine
from slurm_resilience.spank.facts import Facts, FileFact, Loaded, Named, PluginFile
from slurm_resilience.spank.finding import Finding, Level, all_fine, verdict
from slurm_resilience.spank.installed import Contents, Elf, Stamp
from slurm_resilience.spank.plugstack import Plugstack, Unreadable
from tests.unit.spank.in_order import (
    CONF,
    CONTENTS,
    HEALTH,
    IN_ORDER,
    PATHS,
    PLUGIN,
    RELAY,
    SETTINGS,
    SHM,
    SO,
    SPOOL,
    file,
    folder,
    line,
    with_arguments,
    with_path,
)

NO_LINES = Plugstack((), (CONF,), (), ())
NOWHERE = replace(IN_ORDER, named=(), plugstack=NO_LINES, loaded=Loaded(listed=False, complaint=None))


def built_for(*slurm: int, required: bool = False) -> Facts:
    contents = replace(CONTENTS, stamp=Stamp("0.1.0", (slurm[0], slurm[1], slurm[2])))
    return replace(IN_ORDER, named=(Named(line(required=required), PluginFile(file(SO), contents)),))


def plugin(fact: FileFact, contents: Contents | None = CONTENTS) -> Facts:
    return replace(IN_ORDER, named=(Named(line(), PluginFile(fact, contents)),))


def without_path(path: Path, *arguments: str) -> Facts:
    return with_path(FileFact(path, "missing"), *arguments)


def found(facts: Facts, check: str) -> Finding:
    """The worst that is said of `check`."""
    order = list(Level)
    return max((each for each in examine(facts) if each.check == check), key=lambda each: order.index(each.level))


def test_a_machine_in_order_gets_no_complaint() -> None:
    findings = examine(IN_ORDER)
    assert [each for each in findings if each.level is not Level.FINE] == []
    assert [each for each in findings if each.to_do is not None] == []


def test_every_complaint_says_what_to_do() -> None:
    facts = replace(with_arguments("foo=1", "health=warn", "kill_wait=60"), paths=(), health_checks=())
    complaints = [each for each in examine(facts) if each.level is not Level.FINE]
    assert len(complaints) >= 5
    assert all(each.to_do for each in complaints)
    assert not all_fine(complaints)


@pytest.mark.parametrize(
    ("facts", "check", "level", "words"),
    [
        pytest.param(replace(IN_ORDER, slurm_version=None), "slurm", "wrong", "no command of Slurm's", id="no Slurm"),
        pytest.param(
            replace(IN_ORDER, settings=replace(SETTINGS, why_not_the_controller="it is down")),
            "slurm",
            "unknown",
            "it is down",
            id="a controller that doesn't answer",
        ),
        pytest.param(NOWHERE, "plugin", "wrong", "not installed on this machine", id="not installed"),
        pytest.param(
            replace(NOWHERE, unnamed=PLUGIN), "plugin", "wrong", "no line of /etc/slurm/plugstack.conf", id="no line"
        ),
        pytest.param(
            replace(NOWHERE, plugstack_file=FileFact(CONF, "missing")),
            "plugstack.conf",
            "wrong",
            "Slurm loads no plugin",
            id="no plugstack.conf",
        ),
        pytest.param(
            replace(IN_ORDER, plugstack=replace(NO_LINES, unreadable=(Unreadable(CONF, 1, "`x` is nothing"),))),
            "plugstack.conf",
            "wrong",
            "plugstack.conf:1: `x` is nothing",
            id="a line that Slurm can't read",
        ),
        pytest.param(
            replace(IN_ORDER, named=(Named(line(required=True), PLUGIN),)),
            "line",
            "warning",
            "fails every srun, sbatch and salloc",
            id="required",
        ),
        pytest.param(
            replace(IN_ORDER, named=(Named(line(), PLUGIN), Named(line(), PLUGIN))),
            "line",
            "wrong",
            "loads it twice",
            id="named twice",
        ),
        pytest.param(
            replace(IN_ORDER, named=(Named(line(), None),)), "plugin", "wrong", "which is not there", id="no file"
        ),
        pytest.param(
            plugin(file(SO, 0o666)), "plugin", "wrong", "written by others", id="a file that others may write"
        ),
        pytest.param(plugin(file(SO, uid=1000)), "plugin", "wrong", "belongs to uid 1000", id="somebody's file"),
        pytest.param(plugin(file(SO), None), "plugin", "unknown", "can't be read", id="a file nobody may read"),
        pytest.param(
            plugin(file(SO), replace(CONTENTS, elf=None)), "plugin", "wrong", "no shared object", id="no ELF file"
        ),
        pytest.param(
            plugin(file(SO), replace(CONTENTS, elf=Elf(64, "aarch64", shared=True))),
            "plugin",
            "wrong",
            "for aarch64",
            id="another machine's",
        ),
        pytest.param(
            plugin(file(SO), replace(CONTENTS, stamp=None)), "build", "wrong", "doesn't say which Slurm", id="no stamp"
        ),
        pytest.param(built_for(24, 11, 5), "build", "wrong", "is skipped", id="for another Slurm, optional"),
        pytest.param(
            built_for(24, 11, 5, required=True), "build", "wrong", "fails every command", id="for another, required"
        ),
        pytest.param(built_for(22, 5, 9), "build", "fine", "22.05.9", id="for another micro"),
        pytest.param(replace(IN_ORDER, my_version="0.2.0"), "build", "warning", "of 0.2.0", id="another version"),
        pytest.param(
            replace(IN_ORDER, loaded=Loaded(listed=False, complaint="Dlopen failed")),
            "loaded",
            "wrong",
            "Dlopen failed",
            id="not loaded",
        ),
        pytest.param(
            replace(IN_ORDER, loaded=Loaded(listed=True, complaint="hm")), "loaded", "warning", "hm", id="a complaint"
        ),
        pytest.param(with_arguments("spoool=/x"), "arguments", "wrong", "`spoool=/x`", id="an unknown argument"),
        pytest.param(with_arguments("kill_wait=60"), "kill_wait", "wrong", "saves are cut off", id="too long"),
        pytest.param(with_arguments("kill_wait=10"), "kill_wait", "warning", "would give 30 s", id="too short"),
        pytest.param(
            replace(IN_ORDER, settings=replace(SETTINGS, kill_wait_s=None)), "kill_wait", "unknown", "", id="unknown"
        ),
        pytest.param(with_arguments("relay=off"), "relay", "fine", "off", id="relay=off"),
        pytest.param(without_path(RELAY), "relay", "wrong", "there is no", id="no relay"),
        pytest.param(
            replace(without_path(RELAY), compute_node=False), "relay", "fine", "no compute node", id="a login node"
        ),
        pytest.param(with_path(file(RELAY, 0o644)), "relay", "wrong", "can't be executed", id="not executable"),
        pytest.param(with_path(file(RELAY, 0o700)), "relay", "wrong", "by every user", id="root's alone"),
        pytest.param(with_path(file(RELAY, 0o777)), "relay", "wrong", "written by others", id="a relay for anybody"),
        pytest.param(with_path(folder(RELAY)), "relay", "wrong", "no program", id="a folder"),
        pytest.param(without_path(SPOOL), "spool", "fine", "not there yet", id="no spool yet"),
        pytest.param(
            with_arguments(paths=(*PATHS[3:], FileFact(SPOOL, "missing"), FileFact(SPOOL.parent, "missing"))),
            "spool",
            "wrong",
            "there is no /var/spool",
            id="a spool that can't be made",
        ),
        pytest.param(with_path(folder(SPOOL, uid=1000)), "spool", "wrong", "not to root", id="somebody's spool"),
        pytest.param(with_path(folder(SPOOL, 0o777)), "spool", "wrong", "forged", id="everybody's spool"),
        pytest.param(with_path(FileFact(SPOOL, "unknown")), "spool", "unknown", "this account", id="a hidden spool"),
        pytest.param(with_path(folder(SHM, 0o755)), "runtime", "wrong", "users can't make", id="a closed /dev/shm"),
        pytest.param(with_arguments("health=warn"), "health", "fine", "gpu-ecc", id="a health gate"),
        pytest.param(
            with_arguments("health=warn", health_checks=()), "health", "warning", "no check", id="nothing to check"
        ),
        pytest.param(without_path(HEALTH, "health=warn"), "health", "wrong", "no folder", id="no health_dir"),
        pytest.param(
            with_path(folder(HEALTH, 0o775), "health=warn"),
            "health",
            "wrong",
            "written by others",
            id="a group's checks",
        ),
        pytest.param(
            with_arguments("health=exclude", health_checks=(file(HEALTH / "x", 0o755, uid=7),)),
            "health",
            "wrong",
            "belongs to uid 7",
            id="somebody's check",
        ),
        pytest.param(
            with_arguments("health=warn", health_checks=(file(HEALTH / "x", 0o666, uid=7),)),
            "health",
            "warning",
            "no check",
            id="a README of somebody",
        ),
        pytest.param(
            with_arguments("health=warn", health_way=(folder(HEALTH.parent, 0o777),)),
            "health",
            "wrong",
            "so no check there is run",
            id="checks below everybody's folder",
        ),
        pytest.param(
            with_arguments("health=warn", health_way=(folder(Path("/tmp"), 0o1777),)),
            "health",
            "fine",
            "gpu-ecc",
            id="checks below a sticky folder",
        ),
    ],
)
def test_the_doctor_names(facts: Facts, check: str, level: str, words: str) -> None:
    finding = found(facts, check)
    assert (finding.level.value, words in finding.sentence) == (level, True), finding
    assert (finding.to_do is None) is (finding.level is Level.FINE)


def test_a_plugin_outside_of_plugindir_is_to_be_named_by_its_path() -> None:
    elsewhere = PluginFile(file(Path("/opt/slurm/resilience.so")), CONTENTS)
    finding = found(replace(NOWHERE, unnamed=elsewhere), "plugin")
    assert finding.to_do is not None
    assert "`optional /opt/slurm/resilience.so`" in finding.to_do


def test_a_cluster_of_somebodys_own_has_somebodys_files() -> None:
    settings = replace(SETTINGS, slurmd_user="me", slurmd_uid=1000)
    paths = (*PATHS[:1], folder(SPOOL, uid=1000), *PATHS[2:])
    facts = replace(plugin(file(SO, uid=1000)), settings=settings, paths=paths)
    assert all_fine(examine(facts))


def test_what_could_not_be_found_out_is_neither_right_nor_called_wrong() -> None:
    findings = examine(replace(IN_ORDER, settings=replace(SETTINGS, kill_wait_s=None)))
    assert not all_fine(findings)
    assert verdict(findings) == "nothing is wrong with what could be looked at, and not everything could"
    assert verdict(examine(IN_ORDER)) == "the plugin is in order"
    assert verdict(examine(NOWHERE)) == "the plugin is not in order"
