"""A pickle of plain values only: dict, list, tuple, str, bytes, int, float, bool and None. Pure.

A pickle is a program. What may call something, name a class, or ask for much memory with few bytes is refused before
any of it runs.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
from typing import Any, NoReturn

_PLAIN = frozenset(
    "PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE "
    "BINBYTES SHORT_BINBYTES EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS SETITEM "
    "SETITEMS BINPUT LONG_BINPUT BINGET LONG_BINGET MEMOIZE".split()
)
_MOST_MEMO = 1 << 22


class NotPlain(ValueError):
    """One sentence, without a file's name."""


def load(data: bytes) -> Any:
    """Raises NotPlain for whatever is no whole pickle of plain values."""
    objection = _objection(data)
    if objection is not None:
        raise NotPlain(objection)
    try:
        return _Plain(io.BytesIO(data)).load()
    except NotPlain:
        raise
    except Exception as error:  # a broken pickle raises whatever it likes
        raise NotPlain(f"its pickle is broken ({type(error).__name__})") from error


def _objection(data: bytes) -> str | None:
    """Looks at each instruction without following any: what is plain takes memory as its bytes grow."""
    try:
        for code, value, _ in pickletools.genops(data):
            if code.name not in _PLAIN:
                return f"its pickle holds the instruction {code.name}, and only plain values are read"
            if code.name == "LONG_BINPUT" and isinstance(value, int) and value > min(len(data), _MOST_MEMO):
                return "its pickle asks for more memory than its size explains"
    except (ValueError, ArithmeticError, LookupError, MemoryError, struct.error):
        return "its pickle is cut off or broken"
    return None


class _Plain(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise NotPlain(f"its pickle names {module_name}.{global_name}: only plain values are read")

    def persistent_load(self, pid: Any, /) -> NoReturn:
        raise NotPlain("its pickle points to something outside of it")
