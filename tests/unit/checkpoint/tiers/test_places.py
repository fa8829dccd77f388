from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.checkpoint.tiers.places import Folder, ObjectUrl, parse_place, place_to_publish
from slurm_resilience.errors import ConfigurationError

VARIABLES = {"USER": "ada", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/archive/$USER/x", Folder(Path("/archive/ada/x"))),
        ("file:///archive/${USER}", Folder(Path("/archive/ada"))),
        ("file:///with%20space", Folder(Path("/with space"))),
        ("s3://bucket/runs/{run_id}/", ObjectUrl("s3://bucket/runs/0123")),
        ("gs://bucket/{run}", ObjectUrl("gs://bucket/night-shift-2")),
        ("memory://x", ObjectUrl("memory://x")),
    ],
)
def test_a_place_is_a_path_or_a_url(text: str, place: object) -> None:
    assert parse_place(text, VARIABLES, run="night shift/2", run_id="0123") == place


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("archive", "an absolute path or a URL"),
        ("", "an absolute path or a URL"),
        ("~/archive", "an absolute path or a URL"),
        ("file://archive/x", "three slashes"),
        ("s3://", "names no bucket"),
        ("s3://key:secret@bucket/x", "must not hold a password"),
        ("/archive/$NOBODY", "NOBODY, which is not set"),
        ("/archive/$EMPTY", "EMPTY, which is not set"),
        ("/archive/{date}", "can't be filled in"),
        ("/archive/{run}", "can't be filled in"),
    ],
)
def test_what_is_no_place_is_refused_with_what_to_write(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        parse_place(text, VARIABLES)
    assert "secret" not in str(caught.value)


def test_an_option_comes_before_the_environment_and_the_error_names_which() -> None:
    variables = {"SLURM_RESILIENCE_PUBLISH": "s3://b/p"}
    assert place_to_publish({}, option="--to") is None
    assert place_to_publish(variables, option="--to") == ObjectUrl("s3://b/p")
    assert place_to_publish(variables, option="--to", said="/archive") == Folder(Path("/archive"))
    with pytest.raises(ConfigurationError, match=r"^SLURM_RESILIENCE_PUBLISH: "):
        place_to_publish({"SLURM_RESILIENCE_PUBLISH": "bucket"}, option="--to")
    with pytest.raises(ConfigurationError, match=r"^--to: "):
        place_to_publish({}, option="--to", said="bucket")
