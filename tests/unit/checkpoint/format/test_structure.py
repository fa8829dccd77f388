"""States keep their structure, and hold nothing that loading would have to run."""

from __future__ import annotations

import json
import math
import re
import struct
from collections import Counter, OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.compare import compare_states
from slurm_resilience.checkpoint.format.part_format import PartError, UnknownFormat
from slurm_resilience.checkpoint.format.structure import flatten
from slurm_resilience.checkpoint.format.structure_rebuilt import rebuild
from slurm_resilience.errors import CheckpointUnsupported


def _there_and_back(state: dict[str, Any]) -> dict[str, Any]:
    flat = flatten(state)
    fresh = [value.detach().clone() if isinstance(value, torch.Tensor) else value for value in flat.values]
    return rebuild(flat.document, fresh)


_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
KEYS = st.one_of(st.text(max_size=5), st.integers(), st.booleans(), st.none(), st.tuples(st.text(max_size=2)))
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.binary(max_size=20),
    st.text(st.characters(exclude_categories=()), max_size=10).filter(lambda text: _PAIR.search(text) is None),
)
STATES = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.lists(inner, max_size=4).map(tuple),
            st.dictionaries(KEYS, inner, max_size=4),
            st.dictionaries(KEYS, inner, max_size=4).map(OrderedDict),
        ),
        max_leaves=10,
    ),
    max_size=4,
)


@given(STATES)
def test_any_nesting_of_plain_values_comes_back_with_its_types_its_order_and_its_bits(state: dict[str, Any]) -> None:
    loaded = _there_and_back(state)
    assert compare_states(state, loaded) == []
    assert repr(loaded) == repr(state)


@pytest.mark.parametrize(
    "value",
    [
        Counter({2: 1, 5: 2}),
        {1, "a", None},
        frozenset({(1, 2), 3}),
        torch.Size([2, 3]),
        torch.bfloat16,
        torch.device("cuda", 3),
        np.float32(1.5),
        np.bool_(True),
        np.uint64(2**64 - 1),
        np.complex64(1 - 2j),
        10**6000,
        -(2**63) - 1,
        "\ud800 alone",
        True,
        {1: "int", "1": "text", False: "bool"},
        {math.inf: 1, (): 2, (1, ("a", None)): 3},
        -0.0,
    ],
    ids=lambda value: type(value).__name__,  # no repr: a set has another one in every process
)
def test_a_value_comes_back_equal_and_of_its_type(value: object) -> None:
    loaded = _there_and_back({"x": value})["x"]
    assert type(loaded) is type(value)
    assert loaded == value


@pytest.mark.parametrize("bits", ["7ff8000000000000", "fff8000000000001", "7ff00000deadbeef", "fff0000000000000"])
def test_a_nan_keeps_its_sign_and_payload(bits: str) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    loaded = _there_and_back({"x": value, "y": complex(value, 0)})
    assert struct.pack(">d", loaded["x"]).hex() == struct.pack(">d", value).hex()
    assert struct.pack(">d", loaded["y"].real).hex() == struct.pack(">d", value).hex()


def test_versions_that_torch_keeps_beside_the_weights_come_back() -> None:
    weights = torch.nn.BatchNorm1d(3).state_dict()
    loaded = _there_and_back({"model": weights})["model"]
    assert type(loaded) is OrderedDict
    assert loaded._metadata == weights._metadata  # type: ignore[attr-defined]


def test_a_parameter_comes_back_as_a_tensor_that_learns_and_a_tied_buffer_as_one_that_does_not() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    loaded = _there_and_back({"p": parameter, "again": parameter, "buffer": parameter.detach()})
    assert loaded["p"].requires_grad
    assert loaded["p"] is loaded["again"]
    assert not loaded["buffer"].requires_grad
    assert loaded["p"].data_ptr() == loaded["buffer"].data_ptr()


def test_views_that_only_overlap_are_kept_apart() -> None:
    whole = torch.arange(6)
    flat = flatten({"whole": whole, "front": whole[:3], "turned": whole.reshape(2, 3), "same": whole[:]})
    assert [dataset.name for dataset in flat.datasets] == ["whole", "front", "turned"]
    assert flat.datasets[0].also == ("same",)


def test_an_array_that_occurs_twice_is_one_array_again() -> None:
    array = np.arange(3)
    loaded = _there_and_back({"a": array, "b": array})
    assert loaded["a"] is loaded["b"]


def test_names_of_tensors_are_different_even_when_keys_look_alike() -> None:
    state = {"0": {"x": torch.tensor(1)}, "o": {0: torch.tensor(2), "0": torch.tensor(3), "0~2": torch.tensor(4)}}
    names = [dataset.name for dataset in flatten(state).datasets]
    assert names == ["0/x", "o/0", "o/0~2", "o/0~2~2"]


def _itself() -> dict[str, Any]:
    state: dict[str, Any] = {}
    state["self"] = state
    return state


Point = namedtuple("Point", "x y")  # noqa: PYI024 the plain kind is what users have


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (object, "builtins.object"),
        (lambda: print, "builtin_function_or_method"),
        (lambda: defaultdict(list), "collections.defaultdict"),
        (lambda: Point(1, 2), "Point"),
        (lambda: np.array([object()]), "object"),
        (lambda: np.array(["text"]), "<U4"),
        (lambda: np.longdouble(1), "longdouble"),
        (lambda: np.ma.masked_array([1]), "subclass of numpy.ndarray"),
        (lambda: torch.zeros(2, device="meta"), "meta device"),
        (lambda: torch.zeros(2).to_sparse(), "sparse"),
        (lambda: torch.zeros((1,) * 33), "33 dimensions"),
        (lambda: torch.__version__, "TorchVersion"),
        (torch.Generator, "Generator"),
        (lambda: {b"bytes as key": 1}, "builtins.bytes as key"),
        (lambda: "\ud83d\ude00", "pair of surrogates"),
        (lambda: {"\ud83d\ude00": 1}, "pair of surrogates"),
        (_itself, "nested more than"),
    ],
    ids=lambda made: made if isinstance(made, str) else "",
)
def test_what_can_not_be_kept_is_refused_with_its_path_and_its_kind(make: Callable[[], object], words: str) -> None:
    with pytest.raises(CheckpointUnsupported) as caught:
        flatten({"optimizer": [{"foo": make()}]})
    assert "optimizer/0/foo" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.filterwarnings("ignore:.*quantize.*:UserWarning")
@pytest.mark.filterwarnings("ignore:.*quantize.*:DeprecationWarning")
def test_a_quantized_tensor_is_refused_with_what_to_do() -> None:
    quantized = torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.quint8)
    with pytest.raises(
        CheckpointUnsupported, match=r"w can't be kept: it is quantized \(quint8\): hand over its int_repr"
    ):
        flatten({"w": quantized})


@pytest.mark.parametrize(
    "document",
    [
        "{}",
        "[]",
        "nonsense",
        '{"state": [], "tensors": []}',
        '{"state": {"dict": [["x", {"tensor": 5}]]}, "tensors": []}',
        '{"state": {"dict": [["x", {"tensor": -1}]]}, "tensors": []}',
        '{"state": {"dict": [["x", {"tensor": true}]]}, "tensors": []}',
        '{"state": {"dict": [["x", {"call": "os.system"}]]}, "tensors": []}',
        '{"state": {"dict": [["x", {"bytes": "?"}]]}, "tensors": []}',
        '{"state": {"dict": [["x", {"device": "rm"}]]}, "tensors": []}',
        '{"state": {"dict": [["x", {"scalar": ["O", ""]}]]}, "tensors": []}',
        '{"state": {"dict": [[["not", "hashable"], 1]]}, "tensors": []}',
        '{"state": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
    ids=lambda document: document[:60],
)
def test_a_document_that_contradicts_itself_is_refused_without_another_exception(document: str) -> None:
    with pytest.raises(PartError):
        rebuild(document.encode(), [])


def test_a_dtype_that_this_torch_lacks_is_refused_by_name() -> None:
    document = json.dumps({"state": {"dict": [["x", {"dtype": "float2_e1m0"}]]}, "tensors": []})
    with pytest.raises(UnknownFormat, match="float2_e1m0"):
        rebuild(document.encode(), [])
