"""A number of bytes as people read it. Pure."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(size_bytes: float) -> str:
    """`1.5 GiB`: binary units, as Slurm's --mem, the kernel and `ls -h` have them."""
    if size_bytes < 1024:
        return f"{size_bytes:.0f} bytes"
    for unit in _UNITS:
        size_bytes /= 1024
        if size_bytes < 1023.5 or unit == _UNITS[-1]:
            break
    return f"{size_bytes:.3g} {unit}" if size_bytes < 999.5 else f"{size_bytes:.0f} {unit}"
