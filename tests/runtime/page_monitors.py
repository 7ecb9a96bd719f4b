"""What monitors could have seen, made by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

from gradlint.model import Severity
from gradlint.runtime.monitor.data import Clip, ClipVerdict, Condition, Finding, Layer, MonitorData, Sample


def names(blocks: int) -> list[str]:
    within = ("ln_1.weight", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight", "mlp.c_fc.weight",
              "mlp.c_proj.weight", "mlp.c_proj.bias")  # fmt: skip
    inner = [f"transformer.h.{block}.{name}" for block in range(blocks) for name in within]
    return ["transformer.wte.weight", *inner, "lm_head.weight"]


def layer(name: str, at: int, of: int, step: int) -> Layer:
    """Early layers have ever smaller gradients."""
    fading = 10 ** (-3.5 * (1 - at / of) * min(1.0, step / 3000))
    norm = fading * (0.6 + 0.4 * math.sin(at * 1.7 + step / 400))
    bad = math.nan if step == 2000 and at % 5 == 0 else norm
    largest = math.nan if math.isnan(bad) else bad / 3
    return Layer(name, bad, 0.0, bad / 40, largest, norm / 30, 4096, 1 if name.endswith("bias") else 2)


def sample(step: int, layers: tuple[Layer, ...]) -> Sample:
    finite = [part.norm for part in layers if part.finite]
    norm = math.hypot(*finite) if len(finite) == len(layers) else math.nan
    rate = 3e-4 * (1 + math.cos(math.pi * step / 4000)) / 2
    clipped = not norm <= 1.0
    return Sample(
        step, norm, min(norm, 1.0), 1.0, clipped, 65536.0 if step < 2000 else 32768.0, False, (rate, rate / 10),
        3 * math.exp(-step / 1500) + 0.2, layers, time=step / 20,
    )  # fmt: skip


def monitored(blocks: int, samples: int = 80) -> MonitorData:
    every, all_names = 4000 // samples, names(blocks)
    seen = [
        sample(every * n, tuple(layer(name, at, len(all_names), every * n) for at, name in enumerate(all_names)))
        for n in range(1, samples + 1)
    ]
    early = tuple(all_names[:12])
    findings = [
        Finding(Condition.NOT_FINITE, 2000, Severity.ERROR, "NaN in the gradients of `transformer.wte.weight`",
                early[:1], until=2000 + every),
        Finding(Condition.VANISHING_EARLY, 2600, Severity.WARNING, "the last layers' gradients are 1410 × the first's",
                early),
    ]  # fmt: skip
    clips = [
        Clip("clip_grad_norm_", "all parameters", 1.0, 4000, 3604, ClipVerdict.ALWAYS,
             "limits every step: raise max_norm towards the 90th percentile, 3.2", 2.1, 3.2, 41.0, 0, 1),
        Clip("clip_grad_value_", "12 of 30 parameters", 0.5, 400, 8, ClipVerdict.SAFETY_NET, "acts in 2 % of steps"),
    ]  # fmt: skip
    return MonitorData("GPT", "AdamW", every, 4000, 1, len(all_names), 4096 * len(all_names), True, seen, findings,
                       clips, ["older samples are thinned out"], 212.0, seen=3999)  # fmt: skip


def calm() -> MonitorData:
    parts = (Layer("fc.weight", 2.0, 0.0, 0.1, 0.5, 1e-3, 100), Layer("fc.bias", 0.0, 0.0, 0.0, 0.0, None, 10, 1))
    norms = [2.0 + math.sin(n) for n in range(1, 31)]
    seen = [Sample(n, norm, norm, rates=(0.1,), loss=1 / n, layers=parts) for n, norm in enumerate(norms, 1)]
    return MonitorData("Net", "SGD", 1, 30, parameters=2, elements=110, samples=seen, seen=30)


def hostile() -> MonitorData:
    evil = '"><script>alert(1)</script>'
    part = Layer(evil, 1.0, 0.0, 0.1, 0.5, 1e-3, 100)
    seen = [Sample(1, 1.0, 1.0, layers=(part,))]
    found = Finding(Condition.EXPLODING, 1, Severity.ERROR, evil, (evil,), evil)
    clip = Clip(evil, evil, math.nan, 0, 0, ClipVerdict.UNKNOWN, evil)
    return MonitorData(evil, evil, 1, 1, samples=seen, findings=[found], clips=[clip], notes=[evil])


#: every kind of page, by name
MONITORS: dict[str, Callable[[], MonitorData]] = {
    "small-model": lambda: monitored(1),
    "transformer": lambda: monitored(12),
    "large-model": lambda: monitored(45),
    "calm": calm,
    "nothing-seen": lambda: MonitorData("Net", "SGD", 10),
    "hostile-monitor": hostile,
}
