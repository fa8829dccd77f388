"""Where srun's options end and the command begins."""

import pytest

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.srun_options import split


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("torchrun train.py", "torchrun train.py"),
        ("-N 2 torchrun train.py", "torchrun train.py"),
        ("-N2 torchrun train.py", "torchrun train.py"),
        ("--nodes=2 torchrun train.py", "torchrun train.py"),
        ("--nodes 2 torchrun train.py", "torchrun train.py"),
        ("-l -u -K1 python train.py", "python train.py"),
        ("-vvv --overlap --exclusive python train.py", "python train.py"),
        ("--cpu-bind none --mem=0 ./a.out -n 4", "./a.out -n 4"),
        ("-N 2 -- -odd-program --flag", "-odd-program --flag"),
        ("--container-image img.sqsh --export=ALL,A=b python -m mod", "python -m mod"),
        ("--kill-on-bad-exit python x.py", "python x.py"),
    ],
)
def test_the_command_begins_at_the_first_word_that_is_no_option(words: str, command: str) -> None:
    assert " ".join(split(words.split()).command) == command


def test_the_last_of_two_equal_options_counts_as_srun_has_it() -> None:
    assert split("-N 2 --nodes=3 true".split()).value("nodes") == "3"


def test_an_option_is_left_out_with_its_value() -> None:
    line = split("-N 2 --label -n 8 -c4 --mem 0 true".split())
    assert line.words_without("nodes", "ntasks", "cpus-per-task") == ["--label", "--mem", "0"]


@pytest.mark.parametrize("words", ["", "-N 2", "--", "--label"])
def test_a_line_without_a_command_is_refused(words: str) -> None:
    with pytest.raises(ConfigurationError, match="no command"):
        split(words.split())


def test_an_option_without_its_value_is_named() -> None:
    with pytest.raises(ConfigurationError, match="--nodes wants a value"):
        split(["--nodes"])


def test_somebody_elses_options_can_be_told_apart() -> None:
    line = split("-N 2 --run-dir R --dry-run true --run-dir".split(), also_with_value=frozenset({"run-dir"}))
    ours = frozenset({"run-dir", "dry-run"})
    assert line.value("run-dir") == "R"
    assert line.without(ours).words_without() == ["-N", "2"]
    assert line.command == ("true", "--run-dir")


def test_our_plugins_options_take_their_value_as_sruns_do() -> None:
    line = split("--resilient-run /r --resilient --resilient-signal-lead 60 true".split())
    assert line.command == ("true",)
    assert (line.value("resilient-run"), line.value("resilient"), line.value("resilient-signal-lead")) == (
        "/r",
        None,
        "60",
    )
