"""What the Debian package holds and does, packed from a tree that stands for a built one."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
PACKAGING = CHECKOUT / "spank" / "packaging"
PLUGINDIR = "/usr/lib/slurm-of-a-test"
SNIPPET = "etc/slurm/plugstack.conf.d/resilience.conf"
INCLUDE = "include /etc/slurm/plugstack.conf.d/*.conf\n"

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="there is no dpkg-deb here")


def stub_tree(tree: Path, *, version: str = "0.1.0", slurm: str = "22.05.8") -> Path:
    """Real ELF files, so that their libraries can be found out; the plugin's stamp stands at the end of one."""
    program = Path("/bin/true").read_bytes()
    stamp = f"\0slurm-resilience-spank {version} for Slurm {slurm}\0".encode()
    for name, data, mode in (
        (f"{PLUGINDIR[1:]}/resilience.so", program + stamp, 0o644),
        ("usr/libexec/slurm-resilience/relay", program, 0o755),
        ("usr/libexec/slurm-resilience/health.d/10-shm", b"#!/bin/sh\nexit 0\n", 0o755),
        (SNIPPET, b"# docs/spank.md\noptional resilience.so\n", 0o600),
    ):
        file = tree / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(mode)
    return tree


def make_deb(tree: Path, out: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Unstripped: the stub has its stamp where strip would take it."""
    env = {"PATH": os.environ["PATH"], "TREE": str(tree), "PLUGINDIR": PLUGINDIR, "STRIP": ""}
    return subprocess.run(
        [str(PACKAGING / "make-deb"), str(out)],
        env={**env, "SOURCE_DATE_EPOCH": "1764500000", **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def built(tree: Path, out: Path, **more: str) -> Path:
    done = make_deb(tree, out, **more)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def field(package: Path, name: str) -> str:
    done = subprocess.run(
        ["dpkg-deb", "--field", str(package), name], capture_output=True, text=True, check=True, timeout=100
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deb")
    return built(stub_tree(folder / "tree"), folder / "out")


@pytest.fixture
def unpacked(package: Path, tmp_path: Path) -> Path:
    subprocess.run(["dpkg-deb", "--raw-extract", str(package), str(tmp_path / "root")], check=True, timeout=100)
    return tmp_path / "root"


def test_the_version_carries_the_slurm_it_is_for(package: Path) -> None:
    assert re.fullmatch(r"slurm-resilience-spank_0\.1\.0\+slurm22\.05\.8_\w+\.deb", package.name)
    assert field(package, "Version") == "0.1.0+slurm22.05.8"


@pytest.mark.parametrize(
    ("slurm", "least", "too_new"),
    [("22.05.8", "22.05", "22.06"), ("24.11.5", "24.11", "24.12"), ("25.08.0", "25.08", "25.09")],
)
def test_it_depends_on_exactly_one_release_of_slurm(slurm: str, least: str, too_new: str, tmp_path: Path) -> None:
    depends = field(built(stub_tree(tmp_path / "tree", slurm=slurm), tmp_path / "out"), "Depends")
    assert f"slurm-wlm-basic-plugins (>= {least}) | slurm-client (>= {least})" in depends
    assert f"slurm-wlm-basic-plugins (<< {too_new}~) | slurm-client (<< {too_new}~)" in depends


def test_the_snippet_is_optional_and_a_conffile_and_plugstack_conf_is_not_ours(unpacked: Path) -> None:
    assert (unpacked / "DEBIAN" / "conffiles").read_text() == f"/{SNIPPET}\n"
    assert "optional resilience.so" in (unpacked / SNIPPET).read_text()
    assert not (unpacked / "etc/slurm/plugstack.conf").exists()
    assert (unpacked / "var/spool/slurm-resilience").is_dir()


def test_nothing_may_be_written_by_others_and_everything_may_be_read(unpacked: Path) -> None:
    for path in unpacked.rglob("*"):
        mode = path.stat().st_mode & 0o777
        assert mode & 0o022 == 0, (path, oct(mode))
        assert mode & 0o444 == 0o444, (path, oct(mode))


def test_the_same_sources_give_the_same_package(package: Path, tmp_path: Path) -> None:
    tree = stub_tree(tmp_path / "tree")
    os.utime(tree / "usr/libexec/slurm-resilience/relay", (1, 1))
    assert built(tree, tmp_path / "out").read_bytes() == package.read_bytes()


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (f"{PLUGINDIR[1:]}/resilience.so", "resilience.so is not in the tree"),
        ("usr/libexec/slurm-resilience/relay", "relay is not in the tree"),
    ],
)
def test_a_tree_that_is_not_whole_is_refused_in_one_sentence(spoil: str, sentence: str, tmp_path: Path) -> None:
    tree = stub_tree(tmp_path / "tree")
    (tree / spoil).unlink()
    done = make_deb(tree, tmp_path / "out")
    assert done.returncode == 1
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_plugin_that_does_not_say_its_slurm_is_refused(tmp_path: Path) -> None:
    tree = stub_tree(tmp_path / "tree")
    (tree / PLUGINDIR[1:] / "resilience.so").write_bytes(Path("/bin/true").read_bytes())
    assert "doesn't say which Slurm it is for" in make_deb(tree, tmp_path / "out").stderr


def test_a_snippet_that_makes_the_plugin_required_is_refused(tmp_path: Path) -> None:
    tree = stub_tree(tmp_path / "tree")
    (tree / SNIPPET).write_text("required resilience.so\n")
    assert "no line that begins with optional" in make_deb(tree, tmp_path / "out").stderr


def test_a_tree_with_the_sites_plugstack_conf_is_refused(tmp_path: Path) -> None:
    tree = stub_tree(tmp_path / "tree")
    (tree / "etc/slurm/plugstack.conf").write_text(INCLUDE)
    assert "which is the site's" in make_deb(tree, tmp_path / "out").stderr


def script(name: str, root: Path, *arguments: str) -> str:
    done = subprocess.run(
        [str(PACKAGING / "debian" / name), *arguments],
        env={"PATH": os.environ["PATH"], "DPKG_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("plugstack", "asks_for_it"),
    [
        (None, True),
        ("", True),
        ("optional other.so\n", True),
        (f"# {INCLUDE}", True),
        (INCLUDE, False),
        ("include plugstack.conf.d/*\n", False),
    ],
)
def test_after_the_installation_it_is_said_what_plugstack_conf_lacks(
    plugstack: str | None, asks_for_it: bool, tmp_path: Path
) -> None:
    conf = tmp_path / "etc/slurm/plugstack.conf"
    if plugstack is not None:
        conf.parent.mkdir(parents=True)
        conf.write_text(plugstack)
    said = script("postinst", tmp_path, "configure", "")
    assert (INCLUDE.strip() in said) is asks_for_it
    assert (conf.read_text() if conf.exists() else None) == plugstack


def test_a_removed_package_leaves_no_line_that_names_its_plugin_and_gives_it_back(tmp_path: Path) -> None:
    """dpkg keeps configuration files: Slurm would complain at every command of the plugin that is gone."""
    snippet = tmp_path / SNIPPET
    snippet.parent.mkdir(parents=True)
    snippet.write_text("optional resilience.so kill_wait=60\n")
    script("postrm", tmp_path, "remove")
    assert glob.glob(f"{snippet.parent}/*") == []  # noqa: PTH207 - as Slurm does: without names that begin with a dot
    script("preinst", tmp_path, "install", "0.1.0+slurm22.05.8")
    assert snippet.read_text() == "optional resilience.so kill_wait=60\n"


def test_an_upgrade_touches_no_configuration(tmp_path: Path) -> None:
    snippet = tmp_path / SNIPPET
    snippet.parent.mkdir(parents=True)
    snippet.write_text("optional resilience.so\n")
    script("postrm", tmp_path, "upgrade", "0.2.0")
    script("preinst", tmp_path, "upgrade", "0.1.0")
    assert snippet.read_text() == "optional resilience.so\n"


def test_a_purge_takes_the_spool_and_what_was_set_aside(tmp_path: Path) -> None:
    spool = tmp_path / "var/spool/slurm-resilience"
    spool.mkdir(parents=True)
    (spool / "7.7-0.1000.jsonl").touch()
    aside = tmp_path / "etc/slurm/plugstack.conf.d/.resilience.conf.removed"
    aside.parent.mkdir(parents=True)
    aside.touch()
    script("postrm", tmp_path, "purge")
    assert not spool.exists()
    assert not aside.exists()


def test_the_spec_never_owns_plugstack_conf_and_keeps_what_the_site_has_written() -> None:
    spec = (PACKAGING / "slurm-resilience-spank.spec").read_text()
    files = spec[spec.index("%files") : spec.index("%post\n")]
    assert "%config(noreplace) %{snippet}" in files
    assert "plugstack.conf\n" not in files
    assert "Requires:       slurm >= %{slurm_release}, slurm < %{slurm_too_new}" in spec
    assert "Release:        1.slurm%{slurm_version}" in spec
