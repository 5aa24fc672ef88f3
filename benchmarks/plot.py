"""Draws curves: ``plot.py SPEC.json PICTURE.svg``.  Run by :func:`draw`, in the environment of the peers.

A spec is ``{"title": …, "panels": [{"title", "x", "y", "xlog", "ylog", "lines": [{"name", "x", "y", "low", "high",
"dashed"}], "spans": [{"from", "to", "name"}], "levels": [{"at", "name"}]}]}``; what is not needed can be left out.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

COLOURS = ("#0b63a5", "#c8500a", "#23803f", "#7a3ea8", "#8a6d00", "#b0204f", "#4d4d4d")
COLUMNS = 2


def draw(spec: dict[str, Any], picture: Path) -> None:
    """Draw it as SVG."""
    from common import peer_python

    picture.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lcc-bench-") as folder:
        path = Path(folder) / "spec.json"
        path.write_text(json.dumps(spec))
        drawn = Path(folder) / picture.name
        subprocess.run([str(peer_python()), __file__, str(path), str(drawn)], check=True)
        # A picture is there as a whole, or as it was.
        shutil.copy(drawn, picture.with_suffix(".part"))
        picture.with_suffix(".part").replace(picture)


def main(spec: dict[str, Any], picture: str) -> None:
    """With matplotlib."""
    import matplotlib

    matplotlib.use("svg")
    # The same input gives the same file; text stays text.
    matplotlib.rcParams.update({"svg.hashsalt": "lcc", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    panels = spec["panels"]
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(5.2 * columns, 3.4 * rows), squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, panel in zip(axes.flat, panels, strict=False):
        draw_panel(axis, panel)
    figure.suptitle(spec.get("title", ""))
    figure.tight_layout()
    figure.savefig(picture, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white")
    # matplotlib leaves blanks at the ends of lines.
    text = "\n".join(line.rstrip() for line in Path(picture).read_text().splitlines())
    Path(picture).write_text(text + "\n")


def draw_panel(axis: Any, panel: dict[str, Any]) -> None:
    """One system of axes."""
    axis.set_title(panel.get("title", ""), fontsize=10)
    axis.set_xlabel(panel.get("x", ""))
    axis.set_ylabel(panel.get("y", ""))
    axis.set_xscale("log" if panel.get("xlog") else "linear")
    axis.set_yscale("log" if panel.get("ylog") else "linear")
    axis.grid(True, color="#dddddd", linewidth=0.6)
    few = max((len(line["x"]) for line in panel["lines"]), default=0) <= 20
    for colour, line in zip(COLOURS * 3, panel["lines"], strict=False):
        style = {"color": colour, "linewidth": 1.3, "linestyle": "--" if line.get("dashed") else "-"}
        axis.plot(line["x"], line["y"], label=line["name"], marker="o" if few else None, markersize=3.5, **style)
        if line.get("low"):
            axis.fill_between(line["x"], line["low"], line["high"], color=colour, alpha=0.15, linewidth=0)
    for span in panel.get("spans", []):
        axis.axvspan(span["from"], span["to"], color="#c8500a", alpha=0.08, linewidth=0, label=span["name"])
    for level in panel.get("levels", []):
        axis.axhline(level["at"], color="#777777", linewidth=0.9, linestyle=":", label=level["name"])
    if not panel.get("ylog"):
        axis.set_ylim(bottom=0)
    if panel["lines"]:
        axis.legend(fontsize=7.5, framealpha=0.7)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2])
