"""Small files of /proc and /sys, read as what is there: a file that is missing or says no is None, never an error.

What depends on the kernel's version, on a driver or on a container is often absent, and that is nobody's fault.
"""

from __future__ import annotations

from pathlib import Path

_LARGEST_BYTES = 1 << 20


def text_of(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_BYTES).decode(errors="replace").strip()
    except OSError:  # sysfs says EINVAL for the speed of a link that is down
        return None


def number_in(path: Path) -> int | None:
    text = text_of(path)
    try:
        return None if text is None else int(text.split()[0])
    except (ValueError, IndexError):
        return None


def names_in(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def fields_of(text: str | None) -> dict[str, str]:
    """Lines like `MemTotal:   49151 kB`: what stands before the first colon to what stands behind it."""
    pairs = (line.partition(":") for line in (text or "").splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}
