from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.format.checksum import checksum_of
from slurm_resilience.checkpoint.tiers.contents import Contents, NotAsVouched, Span, Watch
from tests.unit.checkpoint.tiers.files import some_bytes

DATA = some_bytes(300)
spans = st.lists(st.tuples(st.integers(0, 299), st.integers(0, 120)), max_size=6).map(
    lambda pairs: [
        Span(f"t{n}", at, len(DATA[at : at + count]), checksum_of(DATA[at : at + count]))
        for n, (at, count) in enumerate(pairs)
    ]
)
cuts = st.lists(st.integers(0, 300), max_size=8).map(lambda at: [0, *sorted(at), 300])


def watch(contents: Contents, data: bytes, at: list[int], start: int = 0) -> Watch:
    seen = Watch(contents, start)
    for begin, end in itertools.pairwise(at):
        if end > start:
            seen.see(memoryview(data)[max(begin, start) : end])
    return seen


@given(spans, cuts)
def test_the_right_bytes_pass_however_they_are_cut_and_however_spans_overlap(some: list[Span], at: list[int]) -> None:
    assert watch(Contents.of(300, some), DATA, at).proven == 300


@given(spans, cuts, st.integers(0, 299))
def test_a_wrong_byte_is_noticed_if_a_span_covers_it_and_nothing_behind_it_counts_as_proven(
    some: list[Span], at: list[int], wrong: int
) -> None:
    data = bytearray(DATA)
    data[wrong] ^= 1
    covered = {span.name: span.offset for span in some if span.offset <= wrong < span.end}
    seen = Watch(Contents.of(300, some))
    complaint = None
    try:
        for begin, end in itertools.pairwise(at):
            seen.see(memoryview(bytes(data))[begin:end])
    except NotAsVouched as error:
        complaint = error.name
    assert (complaint in covered) if covered else complaint is None
    assert complaint is None or seen.proven <= covered[complaint]


@given(spans, cuts, cuts)
def test_who_goes_on_from_what_is_proven_sees_the_rest(some: list[Span], at: list[int], again: list[int]) -> None:
    contents = Contents.of(300, some)
    for end in range(1, len(at)):
        proven = watch(contents, DATA, at[: end + 1]).proven
        assert watch(contents, DATA, again, start=proven).proven == 300
        data = bytearray(DATA)
        late = [span for span in contents.spans if span.end > proven]
        if late:
            data[late[-1].end - 1] ^= 1
            with pytest.raises(NotAsVouched):
                watch(contents, bytes(data), again, start=proven)


@given(spans)
def test_contents_survive_being_written_down(some: list[Span]) -> None:
    contents = Contents.of(300, some)
    assert Contents.decode(contents.encode()) == contents


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"format": 2, "bytes": 1, "spans": []}', b'{"format": 1}', b"null"]
)
def test_what_is_no_list_of_spans_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 json's own, or ours
        Contents.decode(raw)


def test_a_span_outside_of_the_file_is_refused() -> None:
    with pytest.raises(ValueError, match="lies at 5 to 15 of a file of 10 bytes"):
        Contents.of(10, [Span("t", 5, 10, bytes(16))])


def test_the_identity_is_that_of_the_bytes_not_of_the_names() -> None:
    one, other = Span("a", 0, 4, bytes(16)), Span("b", 0, 4, bytes(16))
    assert Contents.of(9, [one]).identity == Contents.of(9, [other]).identity
    assert Contents.of(9, [one]).identity != Contents.of(10, [one]).identity
