"""GL213 double-scaler-update."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Opaque, Step, Update
from gradlint.rule import Aspect, Draft, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class DoubleScalerUpdate(Rule):
    """The scaler is updated twice, or between two steps that belong together.

    ## What it does
    Finds a second `scaler.update()` in one iteration, and an `update()` between the steps of two optimizers whose
    losses were scaled before it.

    ## Why is this bad?
    `update()` ends the iteration. Between two steps it can change the scale: the second optimizer's gradients were
    multiplied by the old one and are then divided by the new one. It also makes the scaler forget that they were
    unscaled, so that gradients unscaled for a clip are divided once more. A second `update()` right behind the first
    finds no step to judge and raises an AssertionError ("No inf checks were recorded prior to update.").

    ## Example
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        opt_enc.zero_grad()
        opt_dec.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(decoder(encoder(x)), x)
        scaler.scale(loss).backward()
        scaler.step(opt_enc)
        scaler.update()  # the scale may change here
        scaler.step(opt_dec)
        scaler.update()
    ```

    ## Use instead
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        opt_enc.zero_grad()
        opt_dec.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(decoder(encoder(x)), x)
        scaler.scale(loss).backward()
        scaler.step(opt_enc)
        scaler.step(opt_dec)
        scaler.update()
    ```

    ## Fix safety
    Of two calls in a row the fix drops the second, which could only raise: no number changes. An `update()`
    between two steps is dropped if another one follows them all, and else moved there. It is safe: PyTorch asks
    for one `update()`, after all steps of the iteration. Numbers change where the scale did between the two steps,
    and where gradients that were unscaled for a clip were divided once more.

    ## Known limits
    Two full rounds in one iteration (scale, backward, step, update for each optimizer, as a GAN does) are right and
    not reported, and neither are two scalers. Updates in functions of another file are not seen.

    ## References
    - [AMP: multiple models, losses and optimizers](https://pytorch.org/docs/stable/notes/amp_examples.html)
    - [torch.amp: gradient scaling](https://pytorch.org/docs/stable/amp.html#gradient-scaling)
    """

    meta = RuleMeta("GL213", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.UPDATES,)
    message = "`{update}` {what}"

    def on_update(self, update: Update, state: GradientState) -> Iterator[Draft]:
        if update.scaler is None or not update.text.endswith("()"):
            return  # `update(new_scale)` judges nothing
        scaled = state.pending[-1] if state.pending else None
        step = next(state.window.after(update, Step), None)
        if scaled is not None and scaled.scaler == update.scaler and step is not None and step.scaler == update.scaler:
            others = state.path.between(scaled, update, Step)
            if any(others) and update.same_turn(step) and scaled.same_turn(update):
                yield self.finding(
                    update, update=short(update), what=f"may change the scale before `{short(step)}` divides by it",
                    related=[(scaled, "scaled with the old factor here"), (step, "unscaled with the new one here")],
                    repairs=[
                        Repair(
                            f"Drop `{short(update)}`: another one follows all steps",
                            lambda bench: bench.delete(update),
                        ),
                        Repair(
                            f"Move `{short(update)}` behind the last step",
                            lambda bench: bench.move(update, after=step),
                        ),
                    ],
                )  # fmt: skip
                return
        first = self._previous(update, state)
        if first is not None:
            yield self.finding(
                update, update=short(update), what=_AGAIN,
                related=[(first, "already updated here")],
                repairs=[
                    Repair(f"Keep only one `{short(update)}`", lambda bench: bench.delete(update)),
                    Repair(f"Keep only one `{short(update)}`", lambda bench: bench.delete(first)),
                ],
            )  # fmt: skip

    @staticmethod
    def _previous(update: Update, state: GradientState) -> Update | None:
        """The update before this one, if no step, backward or new turn came in between."""
        for event in reversed(state.path.events[: update.index]):
            if isinstance(event, Update) and event.scaler == update.scaler:
                return event if event.same_turn(update) and event.site != update.site else None
            if isinstance(event, Step | Backward | Opaque):
                return None
        return None


_AGAIN = 'runs again with no step in between: it raises "No inf checks were recorded prior to update"'
