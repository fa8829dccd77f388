"""Writing, loading and saving in the background: this package, other libraries, and what the disk and memory can do.

    python -m benchmarks.checkpoint [--quick] [--only write,load] [--json [FILE]] [--plot FILE.svg]

Methods take turns within a round; each round begins with another one. Medians, lowest and highest in brackets; ratios
are paired by round. All writes are durable: fsync is part of them. Wants about seven times the state in memory, eight
times on the disk.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

from benchmarks.checkpoint.rounds import Part
from benchmarks.checkpoint.tables import tables, verdicts
from benchmarks.report import RESULTS, progress, surroundings, write_results
from benchmarks.text_table import markdown_table, plain_table

PARTS = ("write", "stall", "load", "ranks", "stop", "incremental")


def main() -> None:
    options = _parser().parse_args()
    value = json.loads(options.read.read_text()) if options.read else _measured(options)
    if options.read is None:
        write_results("checkpoint", value)
    parts = {name: Part(**part) for name, part in value["parts"].items()}
    if options.plot is not None:
        from benchmarks.checkpoint.plot import draw

        draw(parts, options.plot)
    if options.json == "-":
        print(json.dumps(value, indent=1))
        return
    if options.json:
        Path(options.json).write_text(json.dumps(value, indent=1) + "\n")
    print(_facts(value))
    for text in tables(parts, markdown_table if options.markdown else plain_table):
        print(f"\n{text}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=None, help="size of the state (2.0)")
    parser.add_argument("--rounds", type=int, default=None, help="that count; one more before them doesn't (5)")
    parser.add_argument("--quick", action="store_true", help="0.2 GiB, 2 rounds: to see that it runs")
    parser.add_argument("--only", type=_parts, default=PARTS, help=f"some of {','.join(PARTS)}")
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to be measured (the temporary folder)")
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="also to FILE; without it, instead of tables"
    )
    parser.add_argument("--markdown", action="store_true", help="tables as in docs/benchmarks.md")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw durable writes and stalls (matplotlib)")
    parser.add_argument("--read", type=Path, metavar="FILE", help=f"measure nothing: results of before ({RESULTS})")
    return parser


def _parts(text: str) -> tuple[str, ...]:
    chosen = tuple(text.split(","))
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no part {', '.join(unknown)}")
    return chosen


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    gib = options.gib or (0.2 if options.quick else 2.0)
    rounds = options.rounds or (2 if options.quick else 5)
    facts = surroundings()
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-", dir=options.folder) as folder:
        parts, size_bytes, tensors = _parts_measured(gib, rounds, options.only, Path(folder))
    return {
        "surroundings": facts,
        "load_afterwards": [round(load, 2) for load in os.getloadavg()],
        "settings": {"gib": gib, "rounds": rounds, "bytes": size_bytes, "tensors": tensors},
        "parts": {name: dataclasses.asdict(part) for name, part in parts.items()},
        "goals": [dataclasses.asdict(one) | {"met": one.met} for one in verdicts(parts)],
    }


def _parts_measured(gib: float, rounds: int, only: tuple[str, ...], folder: Path) -> tuple[dict[str, Part], int, int]:
    # Not before: they load torch, which takes seconds that --help and --read need not wait for.
    from benchmarks.checkpoint.incremental import measure_incremental
    from benchmarks.checkpoint.load import measure_load
    from benchmarks.checkpoint.memory import measure_memory
    from benchmarks.checkpoint.ranks import measure_ranks
    from benchmarks.checkpoint.stall import measure_stall
    from benchmarks.checkpoint.state import bytes_in, flat_state, training_state
    from benchmarks.checkpoint.write import measure_stop, measure_write

    warnings.simplefilter("ignore")  # other libraries'
    progress(f"a state of {gib:g} GiB")
    state = training_state(gib)
    size_bytes, tensors = bytes_in(state), len(flat_state(state))
    parts: dict[str, Part] = {}
    if "write" in only:
        parts["write"] = measure_write(state, folder, rounds)
    if "stop" in only:
        parts["stop"] = measure_stop(state, folder, rounds)
    if "stall" in only:
        parts |= measure_stall(state, folder, rounds)
        parts["memory"] = measure_memory(gib, folder)
    if "load" in only:
        parts |= measure_load(state, folder, rounds)
    if "incremental" in only:
        parts["incremental"] = measure_incremental(state, folder, rounds)
    if "ranks" in only:
        del state
        parts["two ranks"] = measure_ranks(gib, folder, rounds)
    return parts, size_bytes, tensors


def _facts(value: dict[str, Any]) -> str:
    facts, settings = value["surroundings"], value["settings"]
    return (
        f"{settings['tensors']} tensors, {settings['bytes'] / 1e9:.2f} GB, {settings['rounds']} rounds; "
        f"{facts['cores']} cores, {facts['memory_mib'] >> 10} GiB, Linux {facts['kernel']}, torch {facts['torch']}; "
        f"load {facts['load'][0]} before, {value['load_afterwards'][0]} afterwards"
    )


if __name__ == "__main__":
    main()
