"""A monitor's results as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradlint.runtime.monitor.data import Clip, Finding, Layer, MonitorData, Sample

#: layers that are shown of a large model
SHOWN = 12


def summary(data: MonitorData) -> str:
    skipped = f" ({data.skipped} skipped by the scaler)" if data.skipped else ""
    lines = [f"{data.model} with {data.optimizer}: {data.steps} steps{skipped}, a sample every {data.every}"]
    if data.samples:
        last = data.samples[-1]
        if data.median is not None and data.largest is not None:
            step, norm = data.largest
            lines += [f"total norm ({last.label}): median {data.median:.3g}, largest {norm:.3g} at step {step}"]
        lines += [_clip(clip) for clip in data.clips] or ["no clip seen"]
        lines += ["", f"step {last.step}: {_totals(last)}", *table(last.layers)]
    lines += ["", "findings (limits are rules of thumb):" if data.findings else silence(data)]
    lines += [line for finding in data.findings for line in _finding(finding)]
    lines += [f"note: {note}" for note in data.notes]
    return "\n".join(lines)


def _totals(sample: Sample) -> str:
    after = "" if sample.clipped is None else f", {sample.used:.3g} after the clip"
    scale = "" if sample.scale == 1 else f", scale {sample.scale:g}"
    loss = "" if sample.loss is None else f", loss {sample.loss:.4g}"
    rates = ", ".join(f"{rate:.3g}" for rate in sample.rates)
    return f"total norm {sample.norm:.3g}{after}, learning rate {rates}{scale}{loss}"


def _clip(clip: Clip) -> str:
    return f"{clip.function} of {clip.what}, limit {clip.limit:g}: {clip.advice}"


def silence(data: MonitorData) -> str:
    """What it means that there is no finding: nothing, where no gradient was seen."""
    if not data.steps:
        return "nothing can be said: no step of this optimizer was seen"
    if not data.seen:
        return f"nothing can be said: no gradient was seen in {data.steps} steps"
    return "no findings"


def tried(finding: Finding) -> str:
    """`; try, in this order: 1. …, 2. …`."""
    steps = "; ".join(f"{i}. {remedy}" for i, remedy in enumerate(finding.remedies, 1))
    return f" – try, in this order: {steps}" if steps else ""


def _finding(finding: Finding) -> list[str]:
    code = f" ({finding.code})" if finding.code else ""
    until = f" [until step {finding.until}]" if finding.until is not None else ""
    line = f", {finding.line}" if finding.line else ""
    head = f"  step {finding.step}{line}, {finding.severity.label}: {finding.message}{code}{until}"
    return [head, *(f"    {i}. {remedy}" for i, remedy in enumerate(finding.remedies, 1))]


def table(layers: Sequence[Layer], shown: int = SHOWN) -> list[str]:
    """The layers in columns; of many, those with the largest and the smallest gradients, in the order of the model."""
    ordered = sorted(layers, key=_weight, reverse=True)
    few = shown // 3
    chosen = {id(layer) for layer in (ordered if len(layers) <= shown else ordered[: shown - few] + ordered[-few:])}
    rows: list[tuple[str, ...]] = [("parameter", "norm", "mean", "std", "max", "grad/param")]
    rows += [_row(layer) for layer in layers if id(layer) in chosen]
    rest = len(layers) - len(chosen)
    return [*_columns(rows), *([f"  … and {rest} more, neither the largest nor the smallest"] if rest else [])]


def _weight(layer: Layer) -> float:
    return layer.norm if layer.finite else float("inf")


def _row(layer: Layer) -> tuple[str, ...]:
    numbers = (layer.norm, layer.mean, layer.std, layer.largest)
    return (layer.name, *(f"{n:.3g}" for n in numbers), "–" if layer.ratio is None else f"{layer.ratio:.3g}")


def _columns(rows: Iterable[tuple[str, ...]]) -> list[str]:
    rows = list(rows)
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]


def some(names: Sequence[str]) -> str:
    """`a.weight, b.weight, c.weight and 3 more`."""
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
