"""Owns how results are drawn. It measures nothing."""

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


def draw_delays(result: Mapping[str, Any], target: Path) -> Path:
    """The distributions of how long a request waits for a guess, and each wait by how long the guess had run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    samples = result["samples"]
    rows = [dict(zip(samples["columns"], row, strict=True)) for row in samples["requests"]]
    rows = [row for row in rows if row["delay_ms"]]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.6), dpi=120, layout="constrained")
    left.ecdf([row["delay_ms"] for row in rows], color="#2a7f4f", label="modeld")
    theirs = [max(delay, 0.1) for delay in samples["peer_delay_ms"]]
    if theirs:
        left.ecdf(theirs, color="#3a6ea5", linestyle=":", label="llama-server, long prompt given up")
    chunk = result["chunk_ms"]
    left.axvline(chunk, color="#b23a48", linestyle="--", label="one chunk of 512 tokens")
    left.axvline(0.03 * chunk, color="#d68c1f", linestyle="--", label="3 % of it")
    left.set_xlabel("wait, ms")
    left.set_ylabel("share of requests")
    for same, colour, label in ((True, "#2a7f4f", "the guessed request"), (False, "#888888", "another request")):
        chosen = [row for row in rows if row["same"] is same]
        right.scatter([row["waited_s"] for row in chosen], [row["delay_ms"] for row in chosen], 9, colour, label=label)
    right.set_yscale("log")
    right.set_xlabel("how long the guess had run, s")
    right.set_ylabel("wait, ms")
    left.set_xscale("log")
    for axes in (left, right):
        axes.grid(visible=True, which="major", color="#dddddd")
        axes.legend(frameon=False, fontsize=8)
    figure.suptitle(
        f"From a request's arrival to its own work on the model, {result['n']} guesses interrupted\n"
        f"{result['model']['file']}, {result['machine']['cpu']}, {result['threads']} threads",
        fontsize=10,
    )
    figure.savefig(target)
    pyplot.close(figure)
    return target


def draw_profiles(result: Mapping[str, Any], target: Path) -> Path:
    """Cold prefill rates by length, and what other tapes' cells add to a decode step."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.6), dpi=120, layout="constrained")
    for model, marker in zip(result["models"], "osd", strict=False):
        for profile, colour in (("exact", "#2a7f4f"), ("fast", "#3a6ea5")):
            rows, label = model["prefill"], f"{profile}, {model['parameters'] / 1e9:.1f}B"
            rates = [row[f"{profile}_per_s"] for row in rows]
            left.plot([row["tokens"] for row in rows], rates, "-", color=colour, marker=marker, label=label)
            alone = model["residents"][0][f"{profile}_ms"]
            for where, style in (("below", "-"), ("above", ":")):
                beside = [row for row in model["residents"] if row["where"] in (where, "nowhere")]
                shares = [100 * (row[f"{profile}_ms"] / alone - 1) for row in beside]
                cells = [row["other_cells"] for row in beside]
                right.plot(cells, shares, style, color=colour, marker=marker, label=f"{label}, {where}")
    left.set_yscale("log")
    left.set_xlabel("prompt, tokens")
    left.set_ylabel("cold prefill, tokens per second")
    right.set_xlabel("cells of other tapes")
    right.set_ylabel("added to a decode step, %")
    for axes in (left, right):
        axes.grid(visible=True, which="major", color="#dddddd")
        axes.legend(frameon=False, fontsize=8)
    figure.suptitle(f"The profiles: {result['machine']['cpu']}, {result['threads']} threads", fontsize=10)
    figure.savefig(target)
    pyplot.close(figure)
    return target


DRAFTERS = {
    "ours": ("modeld", "#2a7f4f"),
    "llama_cpp_python": ("llama-cpp-python", "#3a6ea5"),
    "latest_3gram": ("latest 3-gram", "#888888"),
    "oracle": ("the best that copying can do", "#d68c1f"),
}


def draw_decode(result: Mapping[str, Any], target: Path) -> Path:
    """Speedups on the model by group, a panel for each profile, and modelled ones on the recorded edits."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    profiles = [name for name in ("exact", "fast") if name in result]
    figure, panels = pyplot.subplots(1, len(profiles) + 1, figsize=(15, 5.2), dpi=120, layout="constrained")
    for axes, profile in zip(panels, profiles, strict=False):
        part = result[profile]
        places = range(len(part))
        axes.bar([x - 0.2 for x in places], [row["speedup"] for row in part.values()], 0.4, color="#2a7f4f")
        axes.bar([x + 0.2 for x in places], [row["peer_speedup"] for row in part.values()], 0.4, color="#3a6ea5")
        axes.plot(places, [row["cap"] for row in part.values()], "_", color="#b23a48", markersize=22)
        axes.set_xticks(places, list(part), rotation=40, ha="right", fontsize=8)
        axes.set_title(f"{profile}: modeld, the faster peer, a perfect drafter (line)", fontsize=9)
        axes.set_ylabel("tokens a second, against modeld without drafts")
    _draw_recorded(panels[-1], result["recorded"])
    for axes in panels:
        axes.axhline(1.0, color="#444444", linewidth=0.8)
        axes.grid(visible=True, axis="y", color="#dddddd")
        axes.set_axisbelow(True)
    machine = result["machine"]
    figure.suptitle(f"{result['model']['file']}, {machine['cpu']}, {result['threads']} threads", fontsize=10)
    figure.savefig(target)
    pyplot.close(figure)
    return target


def _draw_recorded(axes: Any, recorded: Mapping[str, Any]) -> None:
    curves = ("exact", "fast", "tiles", "gpu")
    for number, (name, (label, colour)) in enumerate(DRAFTERS.items()):
        values = [recorded[f"all/{curve}"]["modelled_speedup"][name] for curve in curves]
        axes.bar([x + 0.2 * (number - 1.5) for x in range(len(curves))], values, 0.2, color=colour, label=label)
    axes.set_yscale("log")
    axes.set_yticks((1, 2, 4, 8), ("1", "2", "4", "8"))
    axes.set_xticks(range(len(curves)), [f"cost of batches: {curve}" for curve in curves], fontsize=8)
    axes.set_title("recorded edits, modelled", fontsize=9)
    axes.legend(frameon=False, fontsize=8)
