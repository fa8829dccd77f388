"""One figure: how fast writes become durable, and how long the training stands still for a save."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.checkpoint.rounds import Part
from benchmarks.figures import Figure, figure

_OURS, _OTHERS, _YARDSTICK = "#1f6f54", "#9aa5ad", "#d9dee1"
_PANELS = (
    ("write", "gb_per_s", "durable write, GB/s (more is better)"),
    ("stall spare", "stall_s", "training stands still, s (less is better)"),
)


def draw(parts: Mapping[str, Part], path: Path) -> None:
    """Equal measurements make equal files. Raises ImportError without matplotlib."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    settings: Any = {"svg.hashsalt": "checkpoint", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9}
    with mpl.rc_context(settings):
        panels = [each for each in _PANELS if each[0] in parts]
        drawing, axes = plt.subplots(1, max(len(panels), 1), figsize=(5.6 * max(len(panels), 1), 3.6), squeeze=False)
        for axis, (part, quantity, label) in zip(axes[0], panels, strict=False):
            _bars(axis, _figures(parts[part], quantity), label)
        drawing.tight_layout()
        drawing.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(drawing)


def _figures(part: Part, quantity: str) -> dict[str, Figure]:
    return {method: figure(values) for method in part.measured if (values := part.values(method, quantity))}


def _bars(axis: Any, figures: Mapping[str, Figure], label: str) -> None:
    """The median as a bar, the lowest and highest as a line on it; in the order measured, from the top."""
    names = list(figures)
    medians = [figures[name].median for name in names]
    below = [figures[name].median - figures[name].lowest for name in names]
    above = [figures[name].highest - figures[name].median for name in names]
    colours = [_colour(name) for name in names]
    places = range(len(names), 0, -1)
    axis.barh(places, medians, xerr=[below, above], color=colours, ecolor="#55606a", error_kw={"linewidth": 0.8})
    axis.set_yticks(list(places), names)
    for place, median, more in zip(places, medians, above, strict=True):
        axis.annotate(f" {median:.2g}", (median + more, place), va="center")
    axis.set_xlabel(label)
    axis.margins(x=0.12)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _colour(method: str) -> str:
    if method.startswith("ours"):
        return _OURS
    return _YARDSTICK if method.startswith(("raw", "a warm copy")) else _OTHERS
