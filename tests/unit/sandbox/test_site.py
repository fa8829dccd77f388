"""What is chosen for a cluster can be read again by whoever attaches to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.sandbox.config import ClusterSpec
from slurm_resilience.sandbox.site import DESCRIPTION, choose_site, everybody_may_pass, load, make_folder, save


def test_a_description_is_read_as_it_was_written(tmp_path: Path) -> None:
    spec = ClusterSpec(nodes=3, extra=("A=1", "B=2"))
    site = choose_site(spec, (22, 5), tmp_path)
    save(tmp_path, spec, site)
    assert load(tmp_path) == (spec, site)


def test_a_folder_without_a_sandbox_is_said_to_have_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no sandbox in"):
        load(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"spec": {"extra": []}, "site": {}}', '{"spec": 1, "site": 2}'])
def test_a_description_that_we_did_not_write_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / DESCRIPTION).write_text(text)
    with pytest.raises(ConfigurationError, match=r"cluster\.json is not what this version of the sandbox writes"):
        load(tmp_path)


def test_a_folder_that_exists_is_never_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="exists already"):
        make_folder(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="can't be made: Not a directory"):
        make_folder(tmp_path / "file" / "c")


def test_a_folder_inside_a_private_one_is_not_for_everybody(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir(mode=0o755)
    tmp_path.chmod(0o700)
    assert not everybody_may_pass(inner)
    assert everybody_may_pass(Path("/"))


def test_each_node_has_a_port_of_its_own(tmp_path: Path) -> None:
    site = choose_site(ClusterSpec(nodes=5), (22, 5), tmp_path)
    assert len({site.controller_port, *site.node_ports}) == 6
