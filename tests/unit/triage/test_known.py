"""Every entry of the table of known failures knows its own fixture, and nothing that is healthy."""

from __future__ import annotations

import mmap
import re
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.triage.known.entry import KnownFailure, Role
from slurm_resilience.triage.known.page import page
from slurm_resilience.triage.known.table import HINTS, TABLE, known
from slurm_resilience.triage.known.xid import ACTIONS, action_of
from tests.unit.triage.fixtures import Fixture, failures, healthy, read_fixture

BY_NAME = {entry.name: entry for entry in TABLE}
FIXTURES = failures()
HEALTHY = healthy()
GROUPS = {
    *(
        "rank",
        "ranks",
        "local_rank",
        "node",
        "nodes",
        "tasks",
        "pid",
        "process",
        "job",
        "path",
        "device",
        "peer",
        "port",
    ),
    *("code", "signal", "seq", "op", "what", "why", "version"),
}
"""What an entry may say of who, where and what: one name for one thing, over all writers."""
THE_REST = frozenset({"xid.other"})
"""Whatever the entries before have left over: they are asked only after those."""
BLANK = re.compile(r"\{(\w+)\}")


def entries(*roles: Role) -> list[KnownFailure]:
    return [entry for entry in TABLE if entry.role in roles]


def test_there_are_enough_entries_and_each_has_a_name_of_its_own() -> None:
    assert len(TABLE) >= 160
    assert [name for name, count in Counter(entry.name for entry in TABLE).items() if count > 1] == []


def test_each_entry_has_a_fixture_and_each_fixture_an_entry() -> None:
    expected = Counter(each for fixture in FIXTURES for each in fixture.said("expect"))
    assert set(expected) == set(BY_NAME)
    assert [fixture.path for fixture in FIXTURES if fixture.said("expect") != [fixture.name]] == []
    assert [fixture.path for fixture in FIXTURES if len(fixture.said("origin")) != 1] == []


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)
def test_a_fixture_is_known_by_its_own_entry_and_by_no_earlier_one(fixture: Fixture) -> None:
    own = BY_NAME[fixture.name]
    knowing = {number: entry for number, line in fixture.lines if (entry := known(line)) is not None}
    assert own in knowing.values()
    for number in fixture.said("line"):
        assert knowing[int(number)] is own


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)
def test_nothing_around_it_names_another_cause(fixture: Fixture) -> None:
    own = BY_NAME[fixture.name]
    found = [entry for _, line in fixture.lines if (entry := known(line)) is not None]
    others = [each for each in found if each.role in (Role.ROOT, Role.WAIT) and each.cause is not own.cause]
    assert {each.name for each in others} - {own.name} <= set(fixture.said("also"))


def test_there_are_healthy_logs_of_many_kinds() -> None:
    assert len(HEALTHY) >= 20


@pytest.mark.parametrize("fixture", HEALTHY, ids=lambda fixture: fixture.path.stem)
def test_no_entry_sees_a_failure_in_a_healthy_log(fixture: Fixture) -> None:
    failing = [
        (each.name, re.compile(each.regex)) for each in entries(Role.ROOT, Role.WAIT) if each.name not in THE_REST
    ]
    pieces = [piece for _, line in fixture.lines for piece in (line, *line.split("\r"))]
    assert [(name, piece) for piece in pieces for name, regex in failing if regex.search(piece)] == []
    found = [(entry, piece) for piece in pieces if (entry := known(piece)) is not None]
    assert [(entry.name, piece) for entry, piece in found if entry.role in (Role.ROOT, Role.WAIT)] == []


def test_a_line_that_an_entry_knows_has_one_of_its_hints() -> None:
    lines = [line for fixture in (*FIXTURES, *HEALTHY) for _, line in fixture.lines]
    for entry in TABLE:
        regex = re.compile(entry.regex)
        assert [line for line in lines if not any(hint in line for hint in entry.hints) and regex.search(line)] == [], (
            entry.name
        )


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_whatever_a_regex_matches_has_one_of_its_hints(data: st.DataObject) -> None:
    entry = data.draw(st.sampled_from(TABLE))
    line = data.draw(st.from_regex(entry.regex))
    assert any(hint in line for hint in entry.hints)
    assert known(line) is not None


def test_hints_are_telling_and_not_too_many() -> None:
    assert [hint for hint in HINTS if len(hint) < 5 or hint.strip().lower() in ("error", "error:", "failed")] == []
    assert all(entry.hints for entry in TABLE)
    assert len(HINTS) / len(TABLE) < 1.7


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry.name)
def test_an_entry_is_written_as_the_others_are(entry: KnownFailure) -> None:
    regex = re.compile(entry.regex)
    assert re.fullmatch(r"[a-z0-9]+\.[a-z0-9-]+", entry.name)
    assert not entry.regex.startswith((".*", ".+"))
    assert entry.title
    assert not entry.title.endswith(".")
    assert entry.origin
    assert set(regex.groupindex) <= GROUPS
    if entry.role in (Role.ROOT, Role.WAIT):
        assert entry.remedy is not None
    if entry.remedy is not None:
        assert entry.remedy.do
        assert not entry.remedy.do.endswith(".")
        command = entry.remedy.command or ""
        assert set(BLANK.findall(command)) <= {"node", "job", "path"}


@pytest.mark.parametrize("filling", ["a", " ", "7", "(", "a "])
def test_a_line_of_a_megabyte_is_read_in_time(filling: str) -> None:
    line = filling * (1_000_000 // len(filling))
    for entry in TABLE:
        regex = re.compile(entry.regex)
        begun_s = time.process_time()
        regex.search(line)
        assert time.process_time() - begun_s < 20, entry.name


def test_a_long_line_that_begins_like_a_known_one_is_read_in_time() -> None:
    for fixture in FIXTURES:
        entry = BY_NAME[fixture.name]
        regex = re.compile(entry.regex)
        for _, line in fixture.lines:
            for filling in ("a", " ", "7", ","):
                begun_s = time.process_time()
                regex.search(line[: len(line) // 2] + filling * 200_000)
                assert time.process_time() - begun_s < 20, entry.name


@pytest.mark.parametrize("prefix", ["3: ", "[rank3]: ", "[default3]:", "2026-11-29T20:11:12.123Z "])
def test_what_stands_before_a_line_changes_nothing(prefix: str) -> None:
    anchored = {entry.name for entry in TABLE if "^" in re.sub(r"\[\^", "", entry.regex)}
    for fixture in FIXTURES:
        own = BY_NAME[fixture.name]
        if own.name in anchored:
            continue
        for _, line in fixture.lines:
            if known(line) is own:
                assert known(prefix + line) is own, line


def test_a_cascade_and_advice_name_no_cause_of_their_own() -> None:
    assert {entry.cause.value for entry in entries(Role.CASCADE)} == {"crashed"}
    assert {entry.cause.value for entry in entries(Role.ADVICE)} == {"unknown"}


def test_each_xid_has_one_action() -> None:
    codes = [code for each in ACTIONS.values() for code in each]
    assert len(codes) == len(set(codes))
    assert [action_of(code) for code in (79, 63, 31, 95, 61)] == [
        "RESTART_BM", "IGNORE", "RESTART_APP", "RESET_GPU", "CONTACT_SUPPORT",
    ]  # fmt: skip


@pytest.mark.parametrize("code", sorted({*range(1, 175)}))
def test_an_xid_that_wants_a_reset_leaves_its_node_out_and_one_to_be_ignored_does_not(code: int) -> None:
    entry = known(f"NVRM: Xid (PCI:0000:9a:00): {code}, pid=4711, name=python, something")
    assert entry is not None
    match action_of(code):
        case "RESET_GPU" | "RESTART_BM" | "CONTACT_SUPPORT":
            assert entry.remedy is not None
            assert entry.remedy.avoid_node
        case "IGNORE":
            assert entry.role is Role.ADVICE
        case _:
            pass


def test_the_page_is_what_the_table_says() -> None:
    path = Path(__file__).parents[3] / "docs" / "known_failures.md"
    assert path.read_text() == page(TABLE), "python -m slurm_resilience.triage.known > docs/known_failures.md"


def literals(entry: KnownFailure) -> list[str]:
    """The texts that the entry's line has whatever stands in its blanks."""
    return [hint.strip() for hint in entry.hints] + re.findall(r"[A-Za-z][A-Za-z,' ]{9,}", entry.regex)


def of_origin(*words: str) -> list[KnownFailure]:
    return [entry for entry in TABLE if entry.origin.startswith(words)]


def test_what_is_said_to_be_torchs_wording_is_in_the_torch_that_is_installed() -> None:
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith("2.13"):
        pytest.skip(f"torch {torch.__version__} is not the one that was looked at")
    folder = Path(torch.__file__).parent
    sources = "\n".join(
        path.read_text(errors="replace")
        for part in (
            "distributed",
            "utils/data",
            "nn/modules",
            "optim",
            "cuda",
            "multiprocessing",
            "_dynamo",
            "_inductor",
        )
        for path in sorted((folder / part).rglob("*.py"))
    )
    sources += "\n".join((folder / name).read_text(errors="replace") for name in ("serialization.py", "_utils.py"))
    wanting = of_origin("torch 2.13, strings", "torch 2.13, source")
    left = [entry for entry in wanting if not any(text in sources for text in literals(entry))]
    for library in ("libtorch_cpu.so", "libtorch_python.so", "libc10.so"):
        with (
            (folder / "lib" / library).open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            left = [entry for entry in left if not any(data.find(text.encode()) >= 0 for text in literals(entry))]
    assert [entry.name for entry in left] == []


def test_what_is_said_to_be_slurms_wording_is_in_the_slurm_that_is_installed() -> None:
    places = [Path("/usr/bin/srun"), Path("/usr/sbin/slurmd"), Path("/usr/sbin/slurmstepd")]
    libraries = sorted(Path("/usr/lib").glob("*/slurm*/*.so"))
    if not all(path.exists() for path in places):
        pytest.skip("no Slurm is installed here")
    blob = b"".join(path.read_bytes() for path in (*places, *libraries))
    if b"22.05.8" not in blob:
        pytest.skip("the Slurm that is installed is not the one that was looked at")
    wanting = of_origin("Slurm 22.05.8, strings")
    assert [entry.name for entry in wanting if not any(text.encode() in blob for text in literals(entry))] == []


def test_a_new_entry_needs_a_fixture_with_a_head(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("#! origin: here\n#! expect: slurm.x\n#! line: 5\n\nslurmstepd: error\n")
    fixture = read_fixture(path)
    assert (fixture.said("expect"), fixture.lines) == (["slurm.x"], ((5, "slurmstepd: error"),))
