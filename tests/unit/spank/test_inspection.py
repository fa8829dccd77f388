"""What is looked at on a machine, with commands that answer from a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_resilience.cli.main import cli
from slurm_resilience.command import Completed
from slurm_resilience.errors import CommandMissing, ConfigurationError
from slurm_resilience.spank.facts import Facts
from slurm_resilience.spank.inspection import inspect, look_at

PLUGIN = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00\0slurm-resilience-spank 0.1.0 for Slurm 22.05.8\0"
HELP = "Options provided by plugins:\n      --resilient=requeue|chain|off\n"


class Slurm:
    """Its commands, by their first two words. None: there is no such program."""

    def __init__(self, folder: Path) -> None:
        self.plugstack = folder / "plugstack.conf"
        self.plugins = folder / "plugins"
        self.plugins.mkdir()
        config = f"KillWait = 30 sec\nPluginDir = {self.plugins}\nPlugStackConfig = {self.plugstack}\n"
        self.answers: dict[str, tuple[int, str, str] | None] = {
            "scontrol show": (0, config, ""),
            "srun --version": (0, "slurm-wlm 22.05.8\n", ""),
            "srun --help": (0, HELP, ""),
        }

    def __call__(self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str]) -> Completed:
        answer = self.answers.get(" ".join(argv[:2]))
        if answer is None:
            raise CommandMissing(f"there is no program {argv[0]!r} here")
        return Completed(tuple(argv), *answer)

    def looked_at(self, **environment: str) -> Facts:
        return inspect({"PATH": "/nowhere", **environment}, runner=self)


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    return Slurm(tmp_path)


def test_the_line_its_file_and_what_it_names_are_found(slurm: Slurm, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    slurm.plugstack.write_text("optional other.so\ninclude more/*.conf # a comment\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "resilience.conf").write_text(f"\noptional resilience.so spool={spool} relay=off\n")
    (slurm.plugins / "resilience.so").write_bytes(PLUGIN)
    facts = slurm.looked_at()
    (named,) = facts.named
    assert named.line.place == f"{tmp_path}/more/resilience.conf:2"
    assert named.plugin is not None
    assert named.plugin.file.path == slurm.plugins / "resilience.so"
    assert named.plugin.contents is not None
    assert named.plugin.contents.stamp is not None
    assert facts.slurm_version == "22.05.8"
    assert facts.loaded.listed
    assert facts.path(spool).kind == "missing"
    assert facts.path(tmp_path).kind == "folder"


def test_a_plugin_under_another_name_is_known_by_its_stamp(slurm: Slurm) -> None:
    slurm.plugstack.write_text("optional renamed.so\noptional missing.so\n")
    (slurm.plugins / "renamed.so").write_bytes(PLUGIN)
    assert [named.line.plugin for named in slurm.looked_at().named] == ["renamed.so"]


def test_a_line_that_names_a_missing_file_of_our_name_is_ours(slurm: Slurm) -> None:
    slurm.plugstack.write_text("optional /nowhere/resilience.so\n")
    (named,) = slurm.looked_at().named
    assert named.plugin is None


def test_a_plugin_that_no_line_names_is_found_in_plugindir(slurm: Slurm) -> None:
    (slurm.plugins / "resilience.so").write_bytes(PLUGIN)
    facts = slurm.looked_at()
    assert facts.named == ()
    assert facts.unnamed is not None
    assert facts.plugstack_file.kind == "missing"


def test_slurm_conf_stands_in_for_a_controller_that_does_not_answer(slurm: Slurm, tmp_path: Path) -> None:
    slurm.answers["scontrol show"] = (1, "", "slurm_load_ctl_conf error: Unable to contact slurm controller")
    conf = tmp_path / "slurm.conf"
    conf.write_text(f"KillWait=7\nPluginDir={slurm.plugins}\n")
    settings = slurm.looked_at(SLURM_CONF=str(conf)).settings
    assert settings.told_by == str(conf)
    assert settings.why_not_the_controller is not None
    assert "Unable to contact" in settings.why_not_the_controller
    assert settings.kill_wait_s == 7
    assert slurm.looked_at(SLURM_CONF=str(conf)).plugstack_file.path == tmp_path / "plugstack.conf"


def test_the_version_is_asked_elsewhere_where_a_required_plugin_breaks_srun(slurm: Slurm) -> None:
    slurm.answers["srun --version"] = (1, "", "srun: error: Plug-in initialization failed")
    slurm.answers["sinfo --version"] = (0, "slurm-wlm 24.11.5\n", "")
    assert slurm.looked_at().slurm_version == "24.11.5"


def test_no_slurm_at_all_is_no_error_but_a_fact(slurm: Slurm) -> None:
    slurm.answers = {}
    facts = slurm.looked_at()
    assert facts.slurm_version is None
    assert not facts.loaded.listed


def test_srun_that_complains_is_quoted(slurm: Slurm) -> None:
    slurm.answers["srun --help"] = (0, "Usage: srun\n", "srun: error: spank: x: Dlopen of plugin file failed\n\n")
    loaded = slurm.looked_at().loaded
    assert not loaded.listed
    assert loaded.complaint == "srun: error: spank: x: Dlopen of plugin file failed"


def test_only_plain_files_count_as_health_checks(slurm: Slurm, tmp_path: Path) -> None:
    folder = tmp_path / "health.d"
    folder.mkdir()
    (folder / "10-disk").write_text("#!/bin/sh\n")
    (folder / ".hidden").touch()
    (folder / "10-disk.rpmsave").touch()
    slurm.plugstack.write_text(f"optional resilience.so health=warn health_dir={folder}\n")
    (fact,) = slurm.looked_at().health_checks
    assert fact.path.name == "10-disk"
    assert not fact.executable


def test_another_plugstack_can_be_read_instead_and_must_be_there(slurm: Slurm, tmp_path: Path) -> None:
    other = tmp_path / "other.conf"
    other.write_text("optional resilience.so\n")
    assert inspect({}, plugstack=other, runner=slurm).plugstack_file.path == other
    with pytest.raises(ConfigurationError, match="there is no plugstack file"):
        inspect({}, plugstack=tmp_path / "nowhere", runner=slurm)


def test_a_path_is_a_file_or_a_folder_or_missing(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o640)
    assert look_at(tmp_path / "file").kind == "file"
    assert look_at(tmp_path / "file").mode == 0o640
    assert look_at(tmp_path).kind == "folder"
    assert look_at(tmp_path / "file" / "below").kind == "missing"
    assert look_at(Path("/dev/null")).kind == "other"


def test_the_command_says_the_same_to_people_and_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no Slurm in PATH: the command itself, whole, on a machine without anything."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("slurm_resilience.spank.inspection._SLURMD", str(tmp_path / "slurmd"))
    told = CliRunner().invoke(cli, ["spank", "doctor"])
    assert told.exit_code == 1, told.output
    assert "no command of Slurm's says its version here" in told.output
    assert told.output.endswith("the plugin is not in order\n")
    said = CliRunner().invoke(cli, ["spank", "doctor", "--json"])
    assert said.exit_code == 1
    report = json.loads(said.output)
    assert report["fine"] is False
    assert report["findings"][0]["state"] == "wrong"


def test_a_plugstack_that_is_not_there_is_a_matter_of_usage(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["spank", "doctor", "--plugstack", str(tmp_path / "nowhere")])
    assert done.exit_code == 78
    assert "there is no plugstack file" in done.output
