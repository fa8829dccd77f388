"""A checkpoint writer for tests: `writer_program.py RUN SLOWNESS DESCRIPTOR`.

Finishing a part leaves `RUN/finished/<checkpoint>.json`. SLOWNESS "stuck" holds the first job up for ever, a number is
seconds that every look for the watermark and every block takes longer.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from slurm_resilience.checkpoint.disk.staged_file import StagedFile
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.checkpoint.writer.job import WriteJob
from slurm_resilience.checkpoint.writer.serve import serve


def main(run: Path, slowness: str, descriptor: int) -> int:
    real = StagedFile.write_block

    def write_slowly(file: StagedFile, offset: int, block: memoryview) -> None:
        time.sleep(600 if slowness == "stuck" else float(slowness))
        real(file, offset, block)

    if slowness != "0":
        setattr(StagedFile, "write_block", write_slowly)  # noqa: B010 mypy takes it for a bound method

    def finish(job: WriteJob, receipt: PartReceipt) -> None:
        if job.context.get("fail"):
            raise RuntimeError("told to fail")
        fields = {"rank": receipt.rank, "file": receipt.file, "bytes": receipt.bytes, "checksum": receipt.checksum}
        mark = run / "finished" / f"{job.checkpoint}.json"
        mark.with_suffix(".tmp").write_text(json.dumps(fields))
        mark.with_suffix(".tmp").rename(mark)

    def busy(on: bool) -> None:
        (run / "busy").write_text(str(on))

    (run / "loaded").write_text(" ".join(name for name in ("torch", "h5py", "numpy") if name in sys.modules))
    return serve(descriptor, run, finish=finish, busy=busy, pauses_s=(0.05,))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
