"""The random numbers of this process: Python's, NumPy's, torch's, CUDA's.

NumPy and CUDA count only if the program uses them already: nothing is imported or initialised for their sake.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

GENERATORS = ("python", "numpy", "torch")
"""Their kinds, as a captured state calls them; CUDA's go with torch's."""

_MASK = (1 << 64) - 1


def capture_random_state() -> dict[str, Any]:
    """Everything the next random number depends on, as plain values and tensors."""
    import torch

    version, internal, gauss = random.getstate()
    state: dict[str, Any] = {
        "python": {"version": version, "internal": torch.tensor(internal, dtype=torch.int64), "gauss": gauss},
        "torch": torch.get_rng_state(),
    }
    if "numpy" in sys.modules:
        import numpy as np

        name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002  # theirs is what programs use
        state["numpy"] = {
            "name": str(name),
            "keys": torch.from_numpy(np.asarray(keys).astype(np.int64)),
            "position": int(position),
            "has_gauss": int(has_gauss),
            "cached": float(cached),
        }
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        state["cuda"] = list(torch.cuda.get_rng_state_all())
        state["cuda_device"] = torch.cuda.current_device()
    return state


def restore_random_state(state: Mapping[str, Any]) -> None:
    """The next random number is what it would have been. The current CUDA device goes on as the one that was current;
    devices that are gone are passed over.

    With `reseed` it follows from its step, and for each kind of generator from the number that it says.
    """
    import torch

    if "reseed" in state:
        reseed = state["reseed"]
        _reseed({kind: seed_of(int(reseed["step"]), int(reseed[kind])) for kind in GENERATORS})
        return
    python = state["python"]
    random.setstate((int(python["version"]), tuple(python["internal"].tolist()), python["gauss"]))
    if "numpy" in state:
        import numpy as np

        kept = state["numpy"]
        keys = np.array(kept["keys"].tolist(), dtype=np.uint32)
        np.random.set_state(  # noqa: NPY002
            (kept["name"], keys, kept["position"], kept["has_gauss"], kept["cached"])
        )
    if "cuda" in state and torch.cuda.is_available():
        now = torch.cuda.current_device() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
        places = devices_again(len(state["cuda"]), was=state.get("cuda_device"), now=now)
        for cuda_state, device in zip(state["cuda"], places, strict=True):
            if device < torch.cuda.device_count():
                torch.cuda.set_rng_state(cuda_state, device)
    torch.set_rng_state(state["torch"])


def devices_again(count: int, *, was: int | None, now: int | None) -> list[int]:
    """On which device each of `count` generators goes on: a rank that had device `was` has `now`, if nodes have other
    numbers of GPUs now. None: not known, and then nothing has moved."""
    places = list(range(count))
    if was is None or now is None or was >= count:
        return places
    if now < count:
        places[now] = was
    places[was] = now
    return places


def _reseed(seeds: Mapping[str, int]) -> None:
    import torch

    random.seed(seeds["python"])
    torch.manual_seed(seeds["torch"] - (1 << 63))  # it takes 64 bits with a sign; CUDA's generators too
    if "numpy" in sys.modules:
        import numpy as np

        np.random.seed(seeds["numpy"] & 0xFFFFFFFF)  # noqa: NPY002


def seed_of(seed: int, number: int) -> int:
    """A 64 bit seed for the `number`-th thing under `seed`: neighbours have nothing in common (splitmix64)."""
    mixed = (seed + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return mixed ^ (mixed >> 31)


def seed_everything_on_cpu(seed: int) -> None:
    """Python, NumPy (if in use) and torch's CPU generator. Not CUDA: this runs in workers, and between two batches."""
    import torch

    random.seed(seed)
    if "numpy" in sys.modules:
        import numpy as np

        np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002
    torch.default_generator.manual_seed(seed)


@contextmanager
def own_random_numbers(seed: int) -> Iterator[None]:
    """Inside, the CPU's random numbers follow from `seed`; outside, nothing has happened."""
    import torch

    python_state = random.getstate()
    torch_state = torch.get_rng_state()
    numpy_state: Any = None
    if "numpy" in sys.modules:
        import numpy as np

        numpy_state = np.random.get_state(legacy=True)  # noqa: NPY002  # theirs is what programs use
    try:
        seed_everything_on_cpu(seed)
        yield
    finally:
        random.setstate(python_state)
        torch.set_rng_state(torch_state)
        if numpy_state is not None:
            import numpy as np

            np.random.set_state(numpy_state)  # noqa: NPY002
