"""The writer process without a run: it makes parts durable, and nobody commits them. Arguments: ROOT SOCKET."""

from __future__ import annotations

import sys
from pathlib import Path

from slurm_resilience.checkpoint.writer.serve import serve

if __name__ == "__main__":
    root, descriptor = sys.argv[1:]
    sys.exit(serve(int(descriptor), Path(root), finish=lambda _job, _receipt: None, busy=lambda _on: None))
