"""GL306 loss-divided-twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.events import Backward, Norm
from gradlint.frontend import syntax as s
from gradlint.frontend.program import Program
from gradlint.machine.state import GradientState
from gradlint.model import Category, FixSafety, Severity
from gradlint.remedy import undivide_loss
from gradlint.rule import Draft, Rule, RuleMeta


class LossDividedTwice(Rule):
    """The loss is divided by hand and by the framework.

    ## What it does
    Looks for a loss that is divided by the number of accumulation steps although the framework that runs its backward
    divides as well: an `Accelerator` built with `gradient_accumulation_steps`, a DeepSpeed engine.

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

    ## Known limits
    `Accelerator()` without `gradient_accumulation_steps` divides by 1, so a division by hand is right there and is not
    flagged. N that reaches the framework through a configuration file cannot be seen. Only divisors whose name speaks
    of accumulation are judged: a loss divided by a token count is something else.

    ## References
    - [Gradient accumulation](https://pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    - [Accelerate: gradient accumulation](https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation)
    """

    meta = RuleMeta("GL306", Category.ACCUMULATION, Severity.ERROR, fix=FixSafety.SAFE)
    message = "`{loss}` is divided by `{divisor}`, and {manager} divides it again: gradients are 1/N of what was meant"

    def on_backward(self, backward: Backward, state: GradientState) -> Iterator[Draft]:
        if backward.norm is not Norm.DIVIDED or not backward.managed_division:
            return
        name = backward.divisor.rpartition(".")[2]
        if "accum" in name.lower():
            yield self.finding(
                backward, loss=backward.loss, divisor=backward.divisor, manager=backward.manager.value,
                fix=[undivide_loss(backward, backward.divisor)],
            )  # fmt: skip

    def on_program(self, program: Program) -> Iterator[Draft]:
        """The Hugging Face Trainer divides what `compute_loss` returns; there is no backward to look at."""
        for cls in program.classes.values():
            if any(_TRAINER.search(program.dotted(base)) for base in cls.bases):
                for method in cls.body:
                    if isinstance(method, s.Def) and method.name == "compute_loss":
                        yield from self._divisions(method, program)

    def _divisions(self, method: s.Def, program: Program) -> Iterator[Draft]:
        for stmt in s.walk_stmts(method.body):
            loss: s.Expr | None = None
            divisor: s.Expr | None = None
            if isinstance(stmt, s.AugAssign) and stmt.op == "/":
                loss, divisor = stmt.target, stmt.value
            elif isinstance(stmt, s.Assign | s.Return) and isinstance(stmt.value, s.Bin) and stmt.value.op == "/":
                loss, divisor = stmt.value.left, stmt.value.right
            if loss is not None and divisor is not None and "gradient_accumulation" in s.render(divisor):
                site, by = program.site(loss), s.render(divisor)
                yield self.finding(
                    site, loss=s.render(loss), divisor=by, manager="the Trainer", fix=[undivide_loss(site, by)]
                )


_TRAINER = re.compile(r"^(transformers|trl)\..*Trainer$")
