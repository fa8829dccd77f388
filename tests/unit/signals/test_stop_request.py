"""Several requests are one."""

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.signals.stop_request import StopReason, StopRequest, merge

requests = st.builds(
    StopRequest,
    reason=st.sampled_from(StopReason),
    because=st.text(),
    requested_s=st.floats(0, 1e9),
    deadline_s=st.floats(0, 1e9) | st.just(float("inf")),
)


@given(st.lists(requests, min_size=1))
def test_the_first_keeps_its_reason_and_the_earliest_deadline_holds(several: list[StopRequest]) -> None:
    merged = reduce(merge, several[1:], several[0])
    assert merged.reason is several[0].reason
    assert merged.deadline_s == min(request.deadline_s for request in several)


@given(requests)
def test_the_same_request_twice_is_one(request: StopRequest) -> None:
    assert merge(merge(None, request), request) == request
