"""Snapshots of tensors on a real GPU. The same, with measurements: `python -m tests.gpu.prove_snapshot`."""

from __future__ import annotations

import pytest
import torch

from tests.gpu.snapshot_checks import CHECKS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that this torch can use"),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_what_is_promised_of_tensors_on_a_gpu_holds(check, tmp_path):
    check(tmp_path)
