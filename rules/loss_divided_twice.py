"""GL306 loss-divided-twice."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Norm, Site, Step
from gradlint.rule import (
    Aspect,
    DivisionSetting,
    Draft,
    FixSafety,
    GradientState,
    Repair,
    Rule,
    RuleMeta,
    Setting,
    Severity,
)


class LossDividedTwice(Rule):
    """The loss is divided by hand and by the framework.

    ## What it does
    Looks for a loss that is divided by the number of accumulation steps although the framework that runs its backward
    divides as well: an `Accelerator` that is given `gradient_accumulation_steps`, itself or through a
    `GradientAccumulationPlugin` or `DeepSpeedPlugin`; a DeepSpeed engine; the Hugging Face `Trainer` with what
    `compute_loss` returns; Lightning's automatic optimisation with what `training_step` returns, where the divisor is
    `self.trainer.accumulate_grad_batches` or the number that a `Trainer` of the same file is given; Composer with what
    `loss` of a `ComposerModel` returns.

    ## Why is this bad?
    The gradients are 1/N of what was meant; with N = 4 they are exactly a quarter. With SGD that is a learning rate
    N times too small. Adam hides most of it, until gradients meet a clip threshold that now hardly ever acts.

    ## Example
    ```python
    def train(model, optimizer, loader, criterion, accum_steps):
        accelerator = Accelerator(gradient_accumulation_steps=accum_steps)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = criterion(model(x), y) / accum_steps
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    def train(model, optimizer, loader, criterion, accum_steps):
        accelerator = Accelerator(gradient_accumulation_steps=accum_steps)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = criterion(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Fix safety
    Safe. The fix drops the division by hand; the framework's own gives the mean over the window. Gradients become N
    times larger, which they were meant to be: with SGD the effective learning rate rises by N, with Adam hardly
    anything changes unless you clip, and then the clip acts again. A loss that you log behind the division becomes N
    times larger in the log: it is the true one. No fix is offered where the loss is multiplied by N again (for a log,
    say), or is divided in another function.

    A division by `accelerator.gradient_accumulation_steps`, or by the number of Lightning's own trainer, is wrong
    whatever the number is, for it is the very number that the framework divides by.

    ## Known limits
    `Accelerator()` without `gradient_accumulation_steps` divides by 1, so a division by hand is right there and is not
    flagged; the same holds for a DeepSpeed configuration in the file that says 1, for
    `engine.backward(loss, scale_wrt_gas=False)`, and for an `engine.step()` that is called once for several backwards.
    Fabric never divides, nor does Lightning with `automatic_optimization = False`. N that reaches the framework through
    a configuration file cannot be seen. Only divisors are judged whose name speaks of accumulation, or that are the
    very name or number that the framework is given: a loss divided by a token count is something else, and so is the
    mean over as many terms.

    Since transformers 4.46 the `Trainer` does not divide if the model takes `num_items_in_batch`, as most models do.
    A `compute_loss` that can be handed that number is judged only if its class sets
    `self.model_accepts_loss_kwargs = False`, which makes the `Trainer` divide. A class with a `training_step` that does
    not call the `Trainer`'s is not judged.

    ## References
    - [Gradient accumulation](https://pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    - [Accelerate: gradient accumulation](https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation)
    - [Lightning: training_step](https://lightning.ai/docs/pytorch/stable/common/lightning_module.html#training-step)
    """

    meta = RuleMeta("GL306", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.DIVISION,)
    configured = (DivisionSetting,)
    needs = (Step,)
    message = "`{loss}` is divided by `{divisor}`, and {who} divides it again: gradients are 1/N of what was meant"

    def on_backward(self, backward: Backward, state: GradientState) -> Iterator[Draft]:
        if backward.norm not in (Norm.DIVIDED, Norm.WEIGHTED) or not backward.managed_division:
            return
        if backward.framework.waits and state.window.accumulates:
            return  # the step is taken once for several backwards by hand: the framework was told of windows of one
        if _is_frameworks_number(backward):
            by = backward.divisor or str(backward.managed_size)
            yield self.finding(
                backward, loss=backward.loss, divisor=by, who=backward.framework.name,
                repairs=[_undivided(backward, by)],
            )  # fmt: skip

    def on_setting(self, setting: Setting) -> Iterator[Draft]:
        """Trainers divide what `compute_loss` and `training_step` return; there is no backward to look at."""
        if isinstance(setting, DivisionSetting):
            loss, by = setting.loss, setting.divisor
            yield self.finding(
                loss, loss=loss.text, divisor=by, who=setting.framework.name, repairs=[_undivided(loss, by)]
            )


def _undivided(loss: Backward | Site, by: str) -> Repair:
    return Repair(f"Drop the division by `{by}`", lambda bench: bench.undivide(loss))


def _is_frameworks_number(backward: Backward) -> bool:
    """By its name, or because it is the very number that the framework was given."""
    if backward.managed_size == 1:
        return False  # it divides by 1, whatever the loss was divided by
    if backward.managed_size is not None and backward.divisors:
        return any(abs(number - backward.managed_size) < 1e-6 * backward.managed_size for number in backward.divisors)
    name, given = backward.divisor.rpartition(".")[2], backward.managed_by
    if "accum" in name.lower() or (given and given == backward.divisor):
        return True
    return len(name) > 3 and name == given.rpartition(".")[2]  # `self.n` may be another number than `args.n`
