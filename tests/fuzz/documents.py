"""JSON documents that nobody wrote. Pure."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

_NUMBERS = (0, -1, 1, 2, 255, 2**31, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63))
_VALUES: tuple[Any, ...] = (
    *_NUMBERS,
    *(None, True, False, 0.5, 1e308, "", "x", "float32", "numpy:<f4", "numpy:O", "../x", "/etc/passwd", "\0", "\ud800"),
    *([], {}, [[]], [{}], [0, 2**62], [2**32, 2**32], [2**40], ["w", "float32", [2**40]], [[[[1]]]]),
)
_TAGGED: tuple[Any, ...] = (
    *({"tensor": number} for number in (0, 1, -1, 2**63, 1.5, True, None, "0", [0])),
    *({"array": number} for number in (0, -1, 10**30, None)),
    *({"size": [2**40]}, {"size": [10**30]}, {"size": "x"}, {"size": [-1]}, {"size": 5}, {"size": [0.5]}),
    *({"dtype": "load"}, {"dtype": ""}, {"dtype": "__builtins__"}, {"dtype": 5}, {"dtype": "os.system"}),
    *({"device": "cuda:99999999999"}, {"device": "meta"}, {"device": ""}, {"device": 5}, {"device": "\ud800"}),
    *({"int": "0x" + "f" * 3000}, {"int": "z"}, {"int": 5}, {"int": ""}, {"int": None}),
    *({"float": "7ff8"}, {"float": "zz"}, {"float": 5}, {"complex": [1, 2]}, {"complex": []}),
    *({"bytes": "===="}, {"bytes": 5}, {"bytes": "ü"}, {"scalar": ["O", "AAAAAAAAAAA="]}, {"scalar": ["<f4", ""]}),
    *(
        {"scalar": ["V9999999999", ""]},
        {"scalar": [5, 5]},
        {"scalar": ["<M8", "AAAAAAAAAAA="]},
        {"scalar": ["(2,)<f4", "AAAAAAAAAAA="]},
    ),
    *({"set": [[1]]}, {"set": 5}, {"frozenset": [{}]}, {"tuple": 5}, {"tuple": "abc"}, {"counter": [["a", "b"]]}),
    *({"dict": [[[1], 2]]}, {"dict": [[1]]}, {"dict": 5}, {"dict": [5]}, {"ordered": [], "metadata": [1]}),
    *({"ordered": 5}, {"unknown": 1}, {"dict": [], "tuple": []}, {"tensor": 0, "requires_grad": True}, {5: 5}),
)


def changed(random: Random, document: Any, capacity_bytes: int) -> tuple[str, bytes]:
    """What was done, and the text, which may be too long."""
    how = random.choice(["values"] * 6 + ["deep", "text", "twice", "other", "long"])
    if how == "deep":
        opening, closing = random.choice([(b"[", b"]"), (b'{"dict":[[1,', b"]]}"), (b'{"tuple":[', b"]}")])
        depth = random.choice([50, 500, 900, 1100, 5000, 100_000])
        depth = min(depth, capacity_bytes // (len(opening) + len(closing)) - 20)
        deep = opening * depth + b"1" + closing * depth
        key = random.choice([b"state", b"tensors", b"files", b"attributes"])
        return f"{depth} deep in {key.decode()}", b'{"tensors":[],"files":[],"state":{},"' + key + b'":' + deep + b"}"
    text = json.dumps(document, separators=(",", ":"))
    if how == "text":
        raw = bytearray(text.encode())
        places = [random.randrange(len(raw)) for _ in range(random.choice([1, 1, 3]))]
        for at in places:
            raw[at] = random.choice([*b'{}[]",:0919eE+-.\\ tfn\xff\x00', random.randrange(256)])
        return f"characters at {places}", bytes(raw)
    if how == "twice":
        return "said twice", (text[:-1] + "," + text[1:]).encode() if len(text) > 2 else b"{{"
    if how == "other":
        value = random.choice([*_VALUES, *_TAGGED])
        return f"only {str(value)[:60]}", json.dumps(value).encode()
    if how == "long":
        number = b"9" * random.choice([100, 4000, 5000, 20_000])
        return f"a number of {len(number)} digits", text.encode().replace(b"1", number, 1)
    document = copy.deepcopy(document)
    done = [_change(random, document) for _ in range(random.choice([1, 1, 1, 2, 4]))]
    return "; ".join(done), json.dumps(document, separators=(",", ":")).encode()


def _change(random: Random, document: Any) -> str:
    """Change one value anywhere in it."""
    places = list(_places(document))
    if not places:
        return "nothing"
    container, key = random.choice(places)
    old = container[key]
    how = random.choice(["replace", "replace", "replace", "remove", "copy", "near"])
    if how == "remove":
        del container[key]
        return f"without {str(old)[:60]}"
    if how == "copy":
        other, there = random.choice(places)
        new = copy.deepcopy(other.get(there) if isinstance(other, dict) else other[min(there, len(other) - 1)])
    elif how == "near" and type(old) is int:
        new = old + random.choice([-1, 1, 1000])
    else:
        new = copy.deepcopy(random.choice([*_VALUES, *_TAGGED]))
    container[key] = new
    return f"{str(old)[:60]} is {str(new)[:60]}"


def _places(value: Any) -> Any:
    if isinstance(value, dict):
        for key in value:
            yield value, key
            yield from _places(value[key])
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index
            yield from _places(item)
