"""Whether a program, or a state, has anything to do with shards. Loads no torch."""

from __future__ import annotations

import sys

SHARDS = "shards"
"""Where in a state the notes on its shards stand."""


def dtensors_exist() -> bool:
    """Without importing them: a program that uses none shall not pay for them."""
    return "torch.distributed.tensor" in sys.modules or "torch.distributed._tensor" in sys.modules
