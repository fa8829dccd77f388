"""How network devices are named, and where NCCL's settings stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.preflight.checks.fabric.nccl_names import nccl_names
from slurm_resilience.preflight.checks.fabric.nccl_settings import nccl_setting, settings_in
from tests.unit.preflight.checks.scene import context, tree


@pytest.mark.parametrize(
    ("text", "device", "port_number", "meant"),
    [
        ("mlx5", "mlx5_0", 1, True),
        ("mlx5_1", "mlx5_10", 1, True),
        ("=mlx5_1", "mlx5_10", 1, False),
        ("=mlx5_1,mlx5_2", "mlx5_2", 1, True),
        ("^mlx5_1", "mlx5_10", 1, False),
        ("^=mlx5_1", "mlx5_10", 1, True),
        ("mlx5_0:1", "mlx5_0", 1, True),
        ("mlx5_0:1", "mlx5_0", 2, False),
        ("eth, ib", "ib0", None, True),
    ],
)
def test_names_are_read_as_nccl_reads_them(text: str, device: str, port_number: int | None, meant: bool):
    names = nccl_names(text)
    assert names is not None
    assert names.mean(device, port_number) is meant


@pytest.mark.parametrize("text", ["", "^", "=", "^=", " , "])
def test_nothing_named_is_nothing(text: str):
    assert nccl_names(text) is None


def test_the_environment_goes_before_the_users_file_and_that_before_the_nodes(tmp_path: Path):
    root = tree(
        tmp_path,
        {"etc/nccl.conf": "# site\nNCCL_IB_HCA=a # x\nNCCL_DEBUG=WARN\n", "home/.nccl.conf": "NCCL_IB_HCA=b\n"},
    )
    home = {"HOME": str(root / "home")}

    assert nccl_setting(context(root, {**home, "NCCL_IB_HCA": "c"}), "NCCL_IB_HCA") == ("c", "NCCL_IB_HCA")
    assert nccl_setting(context(root, home), "NCCL_IB_HCA") == ("b", f"NCCL_IB_HCA in {root}/home/.nccl.conf")
    assert nccl_setting(context(root), "NCCL_IB_HCA") == ("a", f"NCCL_IB_HCA in {root}/etc/nccl.conf")
    assert nccl_setting(context(root, {**home, "NCCL_CONF_FILE": str(root / "no")}), "NCCL_IB_HCA") is not None
    assert nccl_setting(context(root), "NCCL_ALGO") is None
    assert settings_in("nonsense\n=x\nA = b=c\n") == {"": "x", "A": "b=c"}
