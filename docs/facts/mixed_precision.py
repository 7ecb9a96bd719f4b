"""GL2: the order of scale, unscale_, clip, step and update, with the scaler that torch has for the CPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.amp import GradScaler, autocast

from docs.facts.calls import Calls
from docs.facts.experiment import at_most, experiment, outcome, row, warning
from docs.facts.lab import batches, clip, gradient, loss_of, network, norm, sgd, update, weights
from gradlint.docs.facts import Row

#: where GradScaler begins
SCALE = 65536.0
STEEP = 20.0
_CLIPPED = "One update by SGD with lr=1, so the update is the gradient that the step uses; max_norm=1.0."


def scaler_at(scale: float = SCALE, growth_interval: int = 2000) -> GradScaler:
    return GradScaler("cpu", init_scale=scale, growth_interval=growth_interval)


def steep_loss(model: nn.Module) -> Tensor:
    """Its gradient is far above any usual limit."""
    return loss_of(model, batches(1, spread=STEEP)[0])


def _clipped_update(scale: float, unscale: str) -> float:
    """`unscale`: before the clip, behind it, or never."""
    model, scaler = network(), scaler_at(scale)
    optimizer = sgd(model)
    scaler.scale(steep_loss(model)).backward()
    if unscale == "before":
        scaler.unscale_(optimizer)
    clip(model)
    if unscale == "behind":
        scaler.unscale_(optimizer)
    return norm(update(model, lambda: scaler.step(optimizer)))


def _adam_update(unscale_first: bool, size: int) -> float:
    """The length of AdamW's first update for equal gradients on `size` weights, in learning rates per weight."""
    weight, scaler = nn.Parameter(torch.zeros(size)), scaler_at()
    optimizer = torch.optim.AdamW([weight], lr=1.0, weight_decay=0.0)
    scaler.scale(weight.sum()).backward()
    if unscale_first:
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_([weight], 1.0)
    scaler.step(optimizer)
    return weight.detach().abs().mean().item()


@experiment("GL201", _CLIPPED)
def clip_scaled_gradients() -> Iterator[Row]:
    model = network()
    steep_loss(model).backward()
    true_norm = norm(gradient(model))
    yield row("true norm of the gradient", true_norm, true_norm)
    for scale in (SCALE, 1024.0):
        bad, good = _clipped_update(scale, "never"), _clipped_update(scale, "before")
        yield row(f"norm of the update at scale {scale:.0f}", bad, good)
    yield row(
        "AdamW's first update / lr, with 1 000 000 weights",
        _adam_update(False, 1_000_000),
        _adam_update(True, 1_000_000),
    )


@experiment("GL202", "unscale_, clip, unscale_ again, step, update.")
def double_unscale() -> Iterator[Row]:
    def run(times: int) -> tuple[str, float]:
        model, scaler = network(), scaler_at()
        optimizer = sgd(model)
        scaler.scale(steep_loss(model)).backward()
        scaler.unscale_(optimizer)
        said = "runs"
        for _ in range(times - 1):
            said = outcome(lambda: scaler.unscale_(optimizer))
        return said, norm(gradient(model))

    (bad_said, bad), (said, good) = run(2), run(1)
    yield row("what torch says", bad_said, said)
    yield row("norm of the gradient after it", bad, good)


@experiment("GL203", "One update by SGD with lr=1 at scale 65536; in the last row one gradient is infinite.")
def step_bypasses_scaler() -> Iterator[Row]:
    def run(bypass: bool, unscale: bool, overflow: bool = False) -> tuple[Tensor, str]:
        model, scaler = network(), scaler_at()
        optimizer = sgd(model)
        scaler.scale(steep_loss(model)).backward()
        if overflow:
            some = next(p for p in model.parameters() if p.grad is not None)
            some.grad = torch.full_like(some, float("inf"))
        if unscale:
            scaler.unscale_(optimizer)
        moved = update(model, optimizer.step if bypass else lambda: scaler.step(optimizer))
        return moved, outcome(scaler.update)

    (bad, bad_said), (good, said) = run(bypass=True, unscale=False), run(bypass=False, unscale=False)
    yield row("norm of the update, without unscale_", norm(bad), norm(good))
    yield row("what `update()` then says", bad_said, said)
    (bad, bad_said), (good, said) = run(bypass=True, unscale=True), run(bypass=False, unscale=True)
    yield row("norm of the update, with unscale_", norm(bad), norm(good))
    (bad, _), (good, _) = run(bypass=True, unscale=True, overflow=True), run(bypass=False, unscale=True, overflow=True)
    yield row("norm of the update, if a gradient is infinite", norm(bad), norm(good))


@experiment("GL204", "Two iterations in a row with one scaler.")
def missing_scaler_update() -> Iterator[Row]:
    def second(call: str, updated: bool) -> str:
        model, scaler = network(), scaler_at()
        optimizer = sgd(model)
        method = getattr(scaler, call)
        scaler.scale(steep_loss(model)).backward()
        method(optimizer)
        if updated:
            scaler.update()
        optimizer.zero_grad()
        scaler.scale(steep_loss(model)).backward()
        return outcome(lambda: method(optimizer))

    yield row("the second `scaler.step`", second("step", updated=False), second("step", updated=True))
    yield row(
        "the second `unscale_`, if the first turn was skipped behind it",
        second("unscale_", updated=False), second("unscale_", updated=True),
    )  # fmt: skip


@experiment("GL205", "Two micro-batches with the same gradient, 1.0, at scale 1024.")
def unscale_partial_accumulation() -> Iterator[Row]:
    def run(every_time: bool, update_between: bool = False) -> tuple[str, float]:
        weight, scaler = nn.Parameter(torch.zeros(())), scaler_at(1024.0)
        optimizer = torch.optim.SGD([weight], lr=1.0)
        said = "runs"
        for i in range(2):
            scaler.scale(weight * 1.0).backward()
            if i == 1 and update_between:
                break  # the step comes now, and scaler.step divides only what it has not seen divided
            if every_time or i == 1:
                said = outcome(lambda: scaler.unscale_(optimizer))
            if update_between:
                scaler.update()
        return said, float("nan") if weight.grad is None else weight.grad.item()

    yield row("the second `unscale_`", run(every_time=True)[0], run(every_time=False)[0])
    mixed, clean = run(every_time=True, update_between=True)[1], run(every_time=False)[1]
    yield row("sum of the two gradients, if an `update()` came in between", mixed, clean)


@experiment("GL206", "One update by SGD with lr=1 at scale 65536.")
def backward_bypasses_scaler() -> Iterator[Row]:
    def ready(scaled: bool, another_loss: bool) -> tuple[nn.Module, GradScaler, torch.optim.Optimizer]:
        model, scaler = network(), scaler_at()
        if another_loss:
            scaler.scale(torch.ones((), requires_grad=True)).backward()
        loss = steep_loss(model)
        (scaler.scale(loss) if scaled else loss).backward()
        return model, scaler, sgd(model)

    def said(scaled: bool) -> str:
        _, scaler, optimizer = ready(scaled, another_loss=False)
        return outcome(lambda: scaler.step(optimizer))

    def moved(scaled: bool) -> float:
        model, scaler, optimizer = ready(scaled, another_loss=True)
        return norm(update(model, lambda: scaler.step(optimizer)))

    yield row("`scaler.step`, if no loss was ever scaled", said(scaled=False), said(scaled=True))
    yield row("norm of the update, if another loss was scaled", moved(scaled=False), moved(scaled=True))

    def adam(scaled: bool) -> float:
        """AdamW's first update in learning rates, for a gradient of 1e-4."""
        weight, scaler = nn.Parameter(torch.zeros(1)), scaler_at()
        scaler.scale(torch.ones((), requires_grad=True)).backward()
        loss = 1e-4 * weight.sum()
        (scaler.scale(loss) if scaled else loss).backward()
        scaler.step(torch.optim.AdamW([weight], lr=1.0))
        return weight.abs().item()

    yield row("AdamW's first update / lr then, for a gradient of 1e-4", adam(scaled=False), adam(scaled=True))


@experiment("GL207", _CLIPPED)
def unscale_after_clip() -> Iterator[Row]:
    for scale in (SCALE, 1024.0):
        bad, good = _clipped_update(scale, "behind"), _clipped_update(scale, "before")
        yield row(f"norm of the update at scale {scale:.0f}", bad, good)


class OwnProduct(torch.autograd.Function):
    """A matrix product whose backward was written by hand, and which remembers the dtype of what it computed."""

    dtype: torch.dtype | None = None

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, out: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors  # type: ignore[attr-defined]  # torch sets it
        product = out.float() @ w.t()
        OwnProduct.dtype = product.dtype
        return product.to(x.dtype), (x.float().t() @ out.float()).to(w.dtype)


@experiment("GL208", "Forward under bfloat16 autocast, backward inside the block and outside.", torch.float32)
def backward_under_autocast() -> Iterator[Row]:
    def run(inside: bool) -> tuple[Tensor, str]:
        model = network()
        x, y = batches(1)[0]
        own = torch.ones(1, 1, requires_grad=True)
        with autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, (x, y)) + OwnProduct.apply(own, own).sum()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        return gradient(model), str(OwnProduct.dtype).removeprefix("torch.")

    (bad, bad_dtype), (good, dtype) = run(inside=True), run(inside=False)
    differ = int((bad != good).sum())
    yield row("gradients of torch's own layers that differ", f"{differ} of {len(good)}", f"0 of {len(good)}")
    yield row("dtype of a float32 product in a backward of your own", bad_dtype, dtype)


@experiment("GL209", "One update by SGD under bfloat16 autocast, with a loss of the order of 1e-12.", torch.float32)
def scaler_with_bfloat16() -> Iterator[Row]:
    def run(scaled: bool) -> tuple[str, Tensor, Counter[str]]:
        model, scaler = network(), GradScaler("cpu", enabled=scaled)
        optimizer, calls = torch.optim.SGD(model.parameters(), lr=1e12), Calls()
        with autocast("cpu", dtype=torch.bfloat16):
            loss = 1e-12 * loss_of(model, batches(1)[0])
        scaler.scale(loss).backward()
        zeros = f"{int((gradient(model) == 0).sum())} of {len(gradient(model))}"
        with calls:
            scaler.step(optimizer)
            scaler.update()
        return zeros, weights(model), calls.seen

    (bad_zeros, bad, bad_calls), (zeros, good, calls) = run(scaled=True), run(scaled=False)
    checks = "_amp_foreach_non_finite_check_and_unscale_"
    yield row("gradients that became 0", bad_zeros, zeros)
    yield row("weights that differ after the update", f"{int((bad != good).sum())} of {len(good)}", f"0 of {len(good)}")
    yield row("passes over all gradients, in search of inf", bad_calls[checks], calls[checks])
    item = "_local_scalar_dense"
    yield row("waits for a number (`.item()`)", bad_calls[item], calls[item])


@experiment("GL210", "The old names and the new ones, called.")
def deprecated_amp_api() -> Iterator[Row]:
    old_and_new: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "GradScaler": (torch.cuda.amp.GradScaler, lambda: GradScaler("cuda")),
        "autocast": (torch.cuda.amp.autocast, lambda: autocast("cuda")),
    }
    for name, (old, new) in old_and_new.items():
        yield row(f"`{name}`", warning(old, FutureWarning), warning(new, FutureWarning))


@experiment("GL211", "One batch at scale 65536, SGD with lr=1; noise of norm 1.0 is added to the gradients.")
def scaled_gradients_read() -> Iterator[Row]:
    def run(unscaled: bool, noise: float) -> tuple[float, Tensor]:
        model, scaler = network(), scaler_at()
        optimizer = sgd(model)
        scaler.scale(steep_loss(model)).backward()
        if unscaled:
            scaler.unscale_(optimizer)
        logged = norm(gradient(model))
        for p in model.parameters():
            if p.grad is not None:
                p.grad.add_(noise / len(gradient(model)) ** 0.5)
        return logged, update(model, lambda: scaler.step(optimizer))

    def arrived(unscaled: bool) -> float:
        return norm(run(unscaled, noise=1.0)[1] - run(unscaled, noise=0.0)[1])

    yield row("norm in the log", run(False, noise=0.0)[0], run(True, noise=0.0)[0])
    yield row("norm of the noise that reaches the weights", at_most(arrived(False), 1e-4), arrived(True))


@experiment("GL212", "A linear layer under float16 autocast; all true gradients are 1e-8.", torch.float32)
def float16_without_scaler() -> Iterator[Row]:
    def zeros(dtype: torch.dtype, scaled: bool) -> str:
        layer, scaler = nn.Linear(8, 8), GradScaler("cpu", enabled=scaled)
        with autocast("cpu", dtype=dtype):
            out = layer(torch.ones(1, 8))
        scaler.scale(1e-8 * out.float().sum()).backward()
        return f"{int((gradient(layer) == 0).sum())} of {len(gradient(layer))}"

    bad = zeros(torch.float16, scaled=False)
    yield row("gradients that became 0, put right by a GradScaler", bad, zeros(torch.float16, scaled=True))
    yield row("gradients that became 0, put right by bfloat16", bad, zeros(torch.bfloat16, scaled=False))


@experiment("GL213", "Two optimizers (SGD, lr=1) share a scaler at 65536; `update()` stands between their steps.")
def double_scaler_update() -> Iterator[Row]:
    def run(between: bool, *, growth: int = 2000, overflow: bool = False, unscale: bool = False) -> float:
        """The update of the second optimizer; its gradient is 1.0."""
        first, second = (nn.Parameter(torch.zeros(())) for _ in range(2))
        scaler = scaler_at(growth_interval=growth)
        optimizers = [torch.optim.SGD([p], lr=1.0) for p in (first, second)]
        scaler.scale(first + second).backward()
        if overflow:
            first.grad = torch.tensor(float("inf"))
        for optimizer in optimizers if unscale else ():
            scaler.unscale_(optimizer)
        scaler.step(optimizers[0])
        if between:
            scaler.update()
        scaler.step(optimizers[1])
        return -second.item()

    def again(times: int) -> str:
        model, scaler = network(), scaler_at()
        scaler.scale(steep_loss(model)).backward()
        scaler.step(sgd(model))
        return [outcome(scaler.update) for _ in range(times)][-1]

    yield row("second update / its gradient, if the scale grows", run(True, growth=1), run(False, growth=1))
    yield row("the same, if the first overflows", run(True, overflow=True), run(False, overflow=True))
    yield row("the same, if both were unscaled for a clip", run(True, unscale=True), run(False, unscale=True))
    yield row("`update()` twice in a row", again(2), again(1))
