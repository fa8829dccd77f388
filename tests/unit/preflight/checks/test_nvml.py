"""The door to NVML, with a library that supports as much as it is told."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_resilience.preflight.checks.gpu.device import DriverMissing, Link, User
from slurm_resilience.preflight.checks.gpu.nvml import Nvml

pynvml = pytest.importorskip("pynvml")


class Library:
    """pynvml's own constants and errors; its functions only those that are given, and the rest unsupported."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        self._functions: dict[str, Callable[..., Any]] = {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            **functions,
        }

    def __getattr__(self, name: str) -> Any:
        if name in self._functions:
            return self._functions[name]
        real = getattr(pynvml, name)
        if callable(real) and name.startswith("nvml") and not name.endswith("_v2"):
            return says(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return real


def says(code: int) -> Callable[..., Any]:
    def fail(*_args: Any, **_named: Any) -> Any:
        raise pynvml.NVMLError(code)

    return fail


def field(code: int, value: int) -> Callable[..., Any]:
    answer = SimpleNamespace(
        nvmlReturn=code, valueType=pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, value=SimpleNamespace(uiVal=value)
    )
    return lambda _handle, _numbers: [answer]


def test_a_card_that_supports_nothing_is_a_card():
    with Nvml(Library()) as driver:
        (gpu,) = driver.gpus()
        assert driver.version() is None

    assert gpu.lost is None
    assert gpu.users is None
    assert gpu.links == ()


def test_an_older_pynvml_that_lacks_a_question_is_no_crash():
    class Old(Library):
        def __getattr__(self, name: str) -> Any:
            if name in ("nvmlMemory_v2", "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", "nvmlDeviceGetRemappedRows"):
                raise AttributeError(name)
            return super().__getattr__(name)

    memory = SimpleNamespace(total=10, used=3)
    with Nvml(Old(nvmlDeviceGetMemoryInfo=lambda _handle: memory)) as driver:
        (gpu,) = driver.gpus()

    assert (gpu.total_bytes, gpu.used_bytes) == (10, 3)
    assert gpu.recovery_action is None
    assert gpu.remap_pending is None


def test_what_is_supported_is_told():
    library = Library(
        nvmlSystemGetDriverVersion=lambda: "570.1",
        nvmlDeviceGetName=lambda _: b"NVIDIA A100",
        nvmlDeviceGetUUID=lambda _: "GPU-1",
        nvmlDeviceGetTemperature=lambda _handle, _kind: 40,
        nvmlDeviceGetEccMode=lambda _: [1, 0],
        nvmlDeviceGetTotalEccErrors=lambda _handle, _kind, _counter: 2,
        nvmlDeviceGetRemappedRows=lambda _: (5, 1, 1, 0),
        nvmlDeviceGetRetiredPages=lambda _handle, cause: [0] * (3 if cause else 4),
        nvmlDeviceGetFieldValues=field(pynvml.NVML_SUCCESS, 4),
        nvmlDeviceGetNvLinkState=lambda _handle, link: (
            link != 1 if link < 3 else says(pynvml.NVML_ERROR_INVALID_ARGUMENT)()
        ),
        nvmlDeviceGetNvLinkErrorCounter=lambda _handle, link, _kind: link,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _: 8,
        nvmlDeviceGetComputeRunningProcesses=lambda _: [SimpleNamespace(pid=7, usedGpuMemory=None)],
        nvmlDeviceGetMemoryInfo=lambda _handle, version: SimpleNamespace(total=10, used=3),
        nvmlDeviceGetMigMode=lambda _: [0, 0],
    )
    with Nvml(library) as driver:
        (gpu,) = driver.gpus()
        assert driver.version() == "570.1"

    assert (gpu.model, gpu.uuid, gpu.temperature_c) == ("NVIDIA A100", "GPU-1", 40)
    assert (gpu.ecc, gpu.ecc_after_reset, gpu.uncorrectable_errors) == (True, False, 2)
    assert (gpu.remapped_rows, gpu.remap_pending, gpu.remap_failed) == (1, True, False)
    assert (gpu.retired_pages, gpu.all_retired_pages) == (3, 7)
    assert gpu.recovery_action == 4
    assert gpu.links == (Link(0, True, 0), Link(1, False, 1), Link(2, True, 2))
    assert gpu.slowdown == 8
    assert gpu.users == (User(7, None),)
    assert gpu.partitioned is False


def test_a_field_that_says_it_is_none_is_left_out():
    with Nvml(Library(nvmlDeviceGetFieldValues=field(pynvml.NVML_ERROR_NOT_SUPPORTED, 4))) as driver:
        assert driver.gpus()[0].recovery_action is None


def test_a_lost_card_is_told_and_another_jobs_card_is_left_out():
    codes = {0: pynvml.NVML_ERROR_GPU_IS_LOST, 1: pynvml.NVML_ERROR_NO_PERMISSION, 2: pynvml.NVML_ERROR_IRQ_ISSUE}
    library = Library(
        nvmlDeviceGetCount=lambda: 4,
        nvmlDeviceGetHandleByIndex=lambda index: says(codes[index])() if index in codes else index,
        nvmlDeviceGetTemperature=says(pynvml.NVML_ERROR_GPU_IS_LOST),
    )
    with Nvml(library) as driver:
        gpus = driver.gpus()

    assert [(gpu.index, gpu.lost) for gpu in gpus] == [
        (0, "it has fallen off the bus"),
        (2, "its interrupts don't arrive"),
        (3, "it has fallen off the bus"),
    ]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "libnvidia-ml.so is not here"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "driver is not loaded"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "different versions"),
        (pynvml.NVML_ERROR_UNKNOWN, "says error 999"),
    ],
)
def test_why_nobody_can_be_asked_is_said(code: int, words: str):
    with pytest.raises(DriverMissing, match=words), Nvml(Library(nvmlInit=says(code))):
        pass
    with Nvml(Library(nvmlDeviceGetCount=says(code))) as driver, pytest.raises(DriverMissing, match=words):
        driver.gpus()
