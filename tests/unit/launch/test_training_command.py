"""What kind of command the user has given us."""

import pytest

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.launch.training_command import understand


@pytest.mark.parametrize(
    ("words", "kind", "argv"),
    [
        ("torchrun train.py --lr 1", CommandKind.TORCHRUN, "train.py --lr 1"),
        ("torchrun --nnodes=2 --nproc_per_node 4 train.py", CommandKind.TORCHRUN, "train.py"),
        ("torchrun --standalone --tee 3 train.py", CommandKind.TORCHRUN, "--tee 3 train.py"),
        ("torchrun -m package.train --x", CommandKind.TORCHRUN, "-m package.train --x"),
        ("torchrun --rdzv_endpoint=h:1 --rdzv-backend c10d --rdzv_id 7 t.py", CommandKind.TORCHRUN, "t.py"),
        ("python train.py a b", CommandKind.TORCHRUN, "train.py a b"),
        ("python -u train.py", CommandKind.TORCHRUN, "train.py"),
        ("/venv/bin/python3.11 -m pkg", CommandKind.TORCHRUN, "-m pkg"),
        ("python -m torch.distributed.run --nnodes 2 t.py", CommandKind.TORCHRUN, "t.py"),
        ("python -c pass", CommandKind.TASK, "python -c pass"),
        ("./mpi_program -n 3", CommandKind.TASK, "./mpi_program -n 3"),
        ("bash run.sh", CommandKind.TASK, "bash run.sh"),
    ],
)
def test_torchrun_is_taken_over_python_is_put_behind_it_and_the_rest_runs_as_it_stands(
    words: str, kind: CommandKind, argv: str
) -> None:
    command = understand(words.split())
    assert (command.kind, " ".join(command.argv)) == (kind, argv)


def test_the_users_ranks_per_node_and_interpreter_are_kept() -> None:
    command = understand("/opt/v/bin/python -m torch.distributed.run --nproc_per_node=8 t.py".split())
    assert (command.nproc_per_node, command.python) == ("8", "/opt/v/bin/python")


def test_plain_means_plain() -> None:
    assert understand(["python", "train.py"], plain=True).kind is CommandKind.TASK


def test_restarts_inside_torchrun_are_refused_since_they_would_hide_crashes() -> None:
    with pytest.raises(ConfigurationError, match="max-restarts"):
        understand("torchrun --max-restarts=3 t.py".split())


def test_torchrun_without_a_script_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no script"):
        understand("torchrun --nnodes=2".split())


def test_a_value_keeps_its_underscores() -> None:
    assert understand("torchrun --log_dir=a_b t.py".split()).argv == ("--log_dir=a_b", "t.py")
