"""Owns how a status and a description look in a terminal. It asks nobody anything."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from modeld.findings import Finding
from modeld.schedule.journal import Difference
from modeld.schedule.messages import Command
from modelwire.messages import Description, Exactness, Status

_RATIOS = ("tokens_per_pass", "acceptance_")


def status_table(status: Status) -> str:
    rows = [
        ("state", status.state),
        *([("problem", status.problem)] if status.problem else []),
        ("model", status.model or "(not loaded)"),
        ("engine", f"pid {status.engine_pid}" if status.engine_pid else "none"),
        ("uptime", duration(status.uptime_s)),
        ("instance", status.instance[:12]),
        ("exactness", verdict(status.exactness)),
        *((name.removesuffix("_s").replace("_", " "), _number(name, value)) for name, value in status.figures.items()),
    ]
    return _table(rows)


def description_table(description: Description, installed: Sequence[Finding] = ()) -> str:
    """`installed`: the backends that are, or are not, on the machine that prints it."""
    model, exactness, limits = description.model, description.exactness, description.limits
    return _table(
        [
            ("model", f"{model.name} ({model.architecture}, {model.quantisation})"),
            ("parameters", f"{model.parameters:,}"),
            ("vocabulary", f"{model.vocabulary:,} tokens"),
            ("context", f"{limits.context:,} tokens (trained for {model.context_trained:,})"),
            ("templates", ", ".join(name for name, has in (("chat", model.chat), ("fim", model.fim)) if has) or "none"),
            ("fingerprint", model.fingerprint[:16]),
            ("backend", f"{description.backend}, profile {description.profile}"),
            ("exactness", verdict(exactness)),
            *((name.replace("_", " "), _yes(value)) for name, value in sorted(description.capabilities.items())),
            ("sessions", f"{limits.sessions} per client"),
            ("snapshots", f"{limits.snapshots} per client"),
            ("queue", f"{limits.queue} operations"),
            ("message", f"{limits.message_bytes:,} bytes at most"),
            *((found.about, f"{found.says}{': ' if found.advice else ''}{found.advice}") for found in installed),
        ]
    )


def settings_table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Every setting as the file would hold it, with where it comes from as a comment."""
    lines = [(name, row["value"], row["origin"]) for name, row in found.items()]
    says = [f"# {name} is not set" if value is None else f"{name} = {json.dumps(value)}" for name, value, _ in lines]
    width = max(len(line) for line in says)
    return "\n".join(f"{line:<{width}}  # {origin}" for line, (_, _, origin) in zip(says, lines, strict=True))


def findings_table(found: Sequence[Finding]) -> str:
    marks = {"ok": "ok", "warning": "!", "failure": "X"}
    width = max(len(finding.about) for finding in found)
    lines = []
    for finding in found:
        lines.append(f"{marks[finding.state]:<2}  {finding.about:<{width}}  {finding.says}")
        if finding.state != "ok" and finding.advice:
            lines.append(f"{'':<{width + 6}}→ {finding.advice}")
    return "\n".join(lines)


def verdict(exactness: Exactness) -> str:
    if exactness.running:
        return f"being tested, {exactness.progress:.0%} done"
    if exactness.verdict == "approximate":
        differ = f"{exactness.differing_tokens:.1%} of tokens"
        return f"approximate: logits differ by up to {exactness.largest_difference:.2g}, {differ}"
    return f"{exactness.verdict}: {exactness.reason}" if exactness.reason else exactness.verdict


def difference_lines(segment: int, difference: Difference) -> str:
    entry = difference.entry
    return "\n".join(
        [
            f"event {difference.number} of segment {segment} gave other commands: {entry.event}",
            *(f"  recorded  {line}" for line in _commands(entry.commands)),
            *(f"  replayed  {line}" for line in _commands(difference.commands)),
        ]
    )


def _commands(commands: Sequence[Command] | None) -> list[str]:
    if commands is None:
        return ["refused as one that cannot have happened"]
    return [str(command) for command in commands] or ["nothing"]


def _table(rows: Iterable[tuple[str, str]]) -> str:
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _yes(value: str | bool) -> str:
    return value if isinstance(value, str) else "yes" if value else "no"


def _number(name: str, value: float) -> str:
    if name.endswith("_s"):
        return f"{value:,.1f} s"
    return f"{value:,.2f}" if name.startswith(_RATIOS) else f"{value:,.0f}"


def duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
