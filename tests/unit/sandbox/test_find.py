"""Slurm is found, or what is missing is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.errors import ConfigurationError, SlurmUnparsable
from slurm_resilience.sandbox.find import PACKAGE_OF, find_slurm, parse_version


def install(folder: Path, names: list[str]) -> None:
    for name in names:
        program = folder / name
        program.write_text("#!/bin/sh\necho slurm 24.11.5\n")
        program.chmod(0o755)


def test_an_installation_knows_its_version_and_where_its_programs_are(tmp_path: Path) -> None:
    install(tmp_path, list(PACKAGE_OF))
    found = find_slurm([str(tmp_path)])
    assert found.version == (24, 11)
    assert found.version_text == "slurm 24.11.5"
    assert found.path_additions == (str(tmp_path),)
    assert set(found.programs) == set(PACKAGE_OF)


def test_what_is_missing_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    install(tmp_path, [name for name in PACKAGE_OF if name not in ("slurmd", "munged")])
    with pytest.raises(ConfigurationError) as caught:
        find_slurm([str(tmp_path)])
    assert "needs slurmd, munged, which" in str(caught.value)
    assert str(caught.value).endswith("apt-get install --no-install-recommends slurmd munge")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("slurm-wlm 22.05.8\n", (22, 5)),
        ("slurm 24.11.5", (24, 11)),
        ("slurm 25.05.0-0rc1", (25, 5)),
        ("slurm 26.05.0", (26, 5)),
    ],
)
def test_a_version_is_read(text: str, version: tuple[int, int]) -> None:
    assert parse_version(text) == version


def test_a_version_is_never_guessed() -> None:
    with pytest.raises(SlurmUnparsable, match="no version of Slurm in 'command not found'"):
        parse_version("command not found\n")
