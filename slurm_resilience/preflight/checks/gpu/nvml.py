"""The one door to NVIDIA's management library. What a card or a driver doesn't support is left out."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from slurm_resilience.preflight.checks.gpu.device import DriverMissing, Gpu, LibraryMissing, Link, User

_RECOVERY_ACTION = 230
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: a pynvml that is older than the driver has no name for it."""
_Value = TypeVar("_Value")


class Nvml:
    """`with` opens it. `library`: pynvml, or what stands for it."""

    def __init__(self, library: Any = None) -> None:
        self._library = library

    def __enter__(self) -> Nvml:  # noqa: PYI034  # Self is new in 3.11
        """Raises DriverMissing."""
        if self._library is None:
            try:
                import pynvml
            except ImportError as error:
                raise LibraryMissing("the Python package nvidia-ml-py is not installed") from error
            self._library = pynvml
        try:
            self._library.nvmlInit()
        except self._library.NVMLError as error:
            raise DriverMissing(_why_not(self._library, error.value)) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ask(self._library.nvmlShutdown)

    def version(self) -> str | None:
        return _text(self._ask(self._library.nvmlSystemGetDriverVersion))

    def gpus(self) -> tuple[Gpu, ...]:
        try:
            count = self._library.nvmlDeviceGetCount()
        except self._library.NVMLError as error:
            raise DriverMissing(_why_not(self._library, error.value)) from error
        found = []
        for index in range(count):
            try:
                handle = self._library.nvmlDeviceGetHandleByIndex(index)
            except self._library.NVMLError as error:
                if error.value != self._library.NVML_ERROR_NO_PERMISSION:  # that one is another job's
                    found.append(Gpu(index, lost=_why_not(self._library, error.value)))
                continue
            found.append(self._gpu(index, handle))
        return tuple(found)

    def _gpu(self, index: int, handle: Any) -> Gpu:
        n, ask = self._library, self._ask
        temperature = ask(lambda: n.nvmlDeviceGetTemperature(handle, n.NVML_TEMPERATURE_GPU), losing=True)
        if isinstance(temperature, _Lost):
            return Gpu(index, lost=temperature.why)
        ecc = ask(lambda: n.nvmlDeviceGetEccMode(handle))
        remapped = ask(lambda: n.nvmlDeviceGetRemappedRows(handle))  # corrected, uncorrected, pending, failed
        single = ask(
            lambda: n.nvmlDeviceGetRetiredPages(handle, n.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS)
        )
        double = ask(lambda: n.nvmlDeviceGetRetiredPages(handle, n.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR))
        memory = self._memory(handle)
        users = ask(lambda: n.nvmlDeviceGetComputeRunningProcesses(handle))
        mig = ask(lambda: n.nvmlDeviceGetMigMode(handle))
        return Gpu(
            index,
            uuid=_text(ask(lambda: n.nvmlDeviceGetUUID(handle))),
            model=_text(ask(lambda: n.nvmlDeviceGetName(handle))),
            bus=_text(ask(lambda: n.nvmlDeviceGetPciInfo(handle).busId)),
            recovery_action=self._field(handle, _RECOVERY_ACTION),
            uncorrectable_errors=ask(
                lambda: n.nvmlDeviceGetTotalEccErrors(handle, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_VOLATILE_ECC)
            ),
            ecc=None if ecc is None else bool(ecc[0]),
            ecc_after_reset=None if ecc is None else bool(ecc[1]),
            remap_pending=None if remapped is None else bool(remapped[2]),
            remap_failed=None if remapped is None else bool(remapped[3]),
            remapped_rows=None if remapped is None else int(remapped[1]),
            retired_pages=None if double is None else len(double),
            all_retired_pages=None if single is None or double is None else len(single) + len(double),
            retirement_pending=_truth(ask(lambda: n.nvmlDeviceGetRetiredPagesPendingStatus(handle))),
            links=self._links(handle),
            slowdown=self._slowdown(handle),
            temperature_c=temperature,
            slowdown_at_c=ask(
                lambda: n.nvmlDeviceGetTemperatureThreshold(handle, n.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
            ),
            persistent=_truth(ask(lambda: n.nvmlDeviceGetPersistenceMode(handle))),
            total_bytes=None if memory is None else memory[0],
            used_bytes=None if memory is None else memory[1],
            users=None if users is None else tuple(User(each.pid, each.usedGpuMemory) for each in users),
            partitioned=None if mig is None else bool(mig[0]),
        )

    def _memory(self, handle: Any) -> tuple[int, int] | None:
        """Total, used. Only the second version of the question tells what the driver keeps for itself."""
        n = self._library
        info = self._ask(lambda: n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2))
        if info is None:
            info = self._ask(lambda: n.nvmlDeviceGetMemoryInfo(handle))
        return None if info is None else (int(info.total), int(info.used))

    def _links(self, handle: Any) -> tuple[Link, ...]:
        n = self._library
        links = []
        for number in range(n.NVML_NVLINK_MAX_LINKS):
            active = self._ask(lambda link=number: n.nvmlDeviceGetNvLinkState(handle, link))  # type: ignore[misc]
            if active is None:
                continue  # this card has no such link
            replays = self._ask(
                lambda link=number: n.nvmlDeviceGetNvLinkErrorCounter(handle, link, n.NVML_NVLINK_ERROR_DL_REPLAY)  # type: ignore[misc]
            )
            links.append(Link(number, bool(active), replays))
        return tuple(links)

    def _slowdown(self, handle: Any) -> int | None:
        n = self._library
        reasons = self._ask(lambda: n.nvmlDeviceGetCurrentClocksEventReasons(handle))
        if reasons is None:  # its name before driver 535
            reasons = self._ask(lambda: n.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return None if reasons is None else int(reasons)

    def _field(self, handle: Any, number: int) -> int | None:
        """A field by its number. The answer says for itself whether it is one."""
        n = self._library
        values = self._ask(lambda: n.nvmlDeviceGetFieldValues(handle, [number]))
        if not values or values[0].nvmlReturn != n.NVML_SUCCESS:
            return None
        kind, value = values[0].valueType, values[0].value
        if kind == n.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
            return int(value.ullVal)
        if kind == n.NVML_VALUE_TYPE_UNSIGNED_LONG:
            return int(value.ulVal)
        return int(value.uiVal)

    def _ask(self, question: Callable[[], _Value], *, losing: bool = False) -> Any:
        """The answer, or None. `losing`: where the card doesn't answer at all any more, that is said."""
        try:
            return question()
        except self._library.NVMLError as error:
            if losing and error.value in _lost_codes(self._library):
                return _Lost(_why_not(self._library, error.value))
            return None
        except (AttributeError, TypeError, ValueError):
            return None  # an older pynvml has no such question


class _Lost:
    def __init__(self, why: str) -> None:
        self.why = why


def _lost_codes(library: Any) -> frozenset[int]:
    return frozenset({library.NVML_ERROR_GPU_IS_LOST, library.NVML_ERROR_RESET_REQUIRED})


def _why_not(library: Any, code: int) -> str:
    known = {
        library.NVML_ERROR_LIBRARY_NOT_FOUND: "NVIDIA's library libnvidia-ml.so is not here",
        library.NVML_ERROR_DRIVER_NOT_LOADED: "NVIDIA's driver is not loaded",
        library.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "NVIDIA's driver and its library have different versions",
        library.NVML_ERROR_NO_PERMISSION: "NVIDIA's driver may not be asked by this user",
        library.NVML_ERROR_GPU_IS_LOST: "it has fallen off the bus",
        library.NVML_ERROR_RESET_REQUIRED: "it must be reset",
        library.NVML_ERROR_INSUFFICIENT_POWER: "its power cables are not all plugged in",
        library.NVML_ERROR_IRQ_ISSUE: "its interrupts don't arrive",
        library.NVML_ERROR_CORRUPTED_INFOROM: "its infoROM is corrupted",
    }
    return known.get(code, f"NVIDIA's library says error {code}")


def _text(value: Any) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _truth(value: Any) -> bool | None:
    return None if value is None else bool(value)
