"""Owns how first-token times are drawn. It measures nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

LINES = {
    "cold_ms": ("modeld, cold", "#b23a48", "-", "o"),
    "peer_cold_ms": ("llama-server, cold", "#b23a48", ":", "s"),
    "prefix_warm_ms": ("modeld, all but the last 50 tokens resident", "#d68c1f", "-", "o"),
    "peer_warm_ms": ("llama-server, the same prompt again", "#3a6ea5", ":", "s"),
    "hit_ms": ("modeld, after a guess", "#2a7f4f", "-", "o"),
}
STEP = "decode_step_ms"


def draw(result: Mapping[str, Any], target: Path) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = sorted(result["rows"], key=lambda row: row["prompt_tokens"])
    lengths = [row["prompt_tokens"] for row in rows]
    figure, axes = pyplot.subplots(figsize=(8.5, 5.2), dpi=120, layout="constrained")
    for name, (label, colour, style, marker) in LINES.items():
        axes.plot(lengths, [row[name] for row in rows], style, color=colour, marker=marker, label=label)
    axes.plot(lengths, [row[STEP] for row in rows], "--", color="#888888", label="modeld, one decode step")
    axes.set_yscale("log")
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g} ms" if value < 1000 else f"{value / 1000:,g} s")
    axes.set_ylim(bottom=min(1.0, *(row["hit_ms"] / 2 for row in rows)))
    axes.set_xlim(left=0)
    axes.set_xlabel("prompt tokens")
    axes.set_ylabel("from sending the request to its first token")
    axes.grid(visible=True, which="major", color="#dddddd")
    machine = result["machine"]
    axes.set_title(
        f"Time to the first token (medians)\n{result['model']['file']}, {machine['cpu']}, {result['threads']} threads",
        fontsize=10,
    )
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(target)
    pyplot.close(figure)
    return target
