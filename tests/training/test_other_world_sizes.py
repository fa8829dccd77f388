"""Another number of ranks goes on: the same state, bit for bit, and behind what all ranks together have done."""

from __future__ import annotations

import re

from tests.training.run_under_test import Ranks, Run
from tests.training.sharded_training import SAMPLES
from tests.training.test_sharded import beginnings, check_saved, digests, train


def taken(ranks: Ranks, *, up_to: int) -> list[int]:
    """The samples of all steps up to this one."""
    found = []
    for output in ranks.outputs:
        steps = re.findall(r"epoch 0 takes ([\d ]+)\nrank \d step (\d+) ", output.read_text())
        found += [int(sample) for samples, step in steps if int(step) <= up_to for sample in samples.split()]
    return found


def test_ranks_come_and_go_and_no_sample_of_the_epoch_comes_twice_or_never(run: Run) -> None:
    seen: list[int] = []
    state: set[tuple[int, str]] = set()
    for layout, world_size, batch, save_at in (
        ("ddp", 2, 2, 3),
        ("plain", 1, 6, 5),
        ("fsdp", 4, 3, 7),
        ("fsdp", 2, 2, None),
    ):
        options = [f"--batch={batch}", f"--save-every-steps={save_at or 1}"]
        if save_at is not None:
            options.append(f"--die-at={save_at + 1}")
        ranks = train(run, layout, *options, world_size=world_size, code=0 if save_at is None else 9, may_change=True)
        if state:
            assert beginnings(ranks) == state
        if save_at is None:
            seen += taken(ranks, up_to=1000)
            break
        run.wait_until_saved(save_at)
        seen += taken(ranks, up_to=save_at)
        said = digests(ranks)
        assert check_saved(run, said)[-1] == save_at
        state = {(save_at, said[save_at])}
    assert sorted(seen) == list(range(SAMPLES))
    assert run.chain().finished
    assert "gradient buckets" not in "".join(each.said() for each in run.attempts)


def test_a_loop_without_data_goes_on_counting_and_new_ranks_have_random_numbers_of_their_own(run: Run) -> None:
    train(run, "plain", "--steps=20", "--save-every-steps=4", "--die-at=9", world_size=1, code=9)
    run.wait_until_saved(8)
    ranks = train(run, "ddp", "--steps=20", "--die-at=11", code=9, may_change=True)
    for rank, output in enumerate(ranks.outputs):
        assert re.findall(r"counts (\d+)", output.read_text()) == ["8", "9", "10"], rank
    drawn = [set(re.findall(r"draws (\S+)", output.read_text())) for output in ranks.outputs]
    assert not drawn[0] & drawn[1]
