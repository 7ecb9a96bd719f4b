"""GL405 method-not-called."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradlint.events import Site
from gradlint.knowledge import frameworks, naming
from gradlint.rule import Aspect, Draft, File, FixSafety, Repair, Rule, RuleMeta, Severity


class MethodNotCalled(Rule):
    """A method of the training loop is named but not called.

    ## What it does
    Looks for `optimizer.zero_grad`, `optimizer.step`, `loss.backward`, `scaler.update`, `scheduler.step` and their kin
    as a statement of their own, without parentheses.

    ## Why is this bad?
    Python looks the method up and throws it away. Nothing happens, and nothing complains: gradients pile up, or the
    weights never change.

    ## Example
    ```python
    def train(model, optimizer, loader, criterion):
        for x, y in loader:
            optimizer.zero_grad
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    ## Use instead
    ```python
    def train(model, optimizer, loader, criterion):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    ## Fix safety
    Safe. The fix adds `()`; a bare method has no other meaning as a statement. What was skipped now happens, so expect
    other numbers. Nothing is offered for methods that need an argument: `scaler.unscale_`, `accelerator.backward`, the
    `step` of `ReduceLROnPlateau`.

    ## Known limits
    A method that is handed on is not flagged: `LambdaLR(opt, lr_lambda=schedule.step)`,
    `opt.step = torch.compile(opt.step)`. Whether something is an optimizer, a scheduler or a scaler is told by its name
    here, so that `env.step` or `self.step`, a number, stays untouched.

    ## References
    - [Taking an optimization step](https://pytorch.org/docs/stable/optim.html#taking-an-optimization-step)
    - [torch.optim.Optimizer.zero_grad](https://pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    """

    meta = RuleMeta("GL405", Severity.ERROR, fix=FixSafety.SAFE, cause=True)
    mends = tuple(Aspect)
    words = (".zero_grad", ".backward", ".unscale_", ".step", ".update")
    looks = r"(?m)\.(?:zero_grad|backward|unscale_|step|update)\s*(?:[#;)].*)?$"
    message = "`{method}` is not called: the parentheses are missing, so nothing happens"

    def on_file(self) -> Iterator[Draft]:
        for site in self.file.uncalled:
            base, _, method = site.text.rpartition(".")
            if _is_training(site, method, self.file):
                # no fix where an argument is missing with the parentheses: which one, only the author knows
                repairs = [_called(site)] if _needs_no_argument(base, method, self.file) else []
                yield self.finding(site, method=site.text, repairs=repairs)


def _called(site: Site) -> Repair:
    return Repair("Add the parentheses", lambda bench: bench.add_parentheses(site))


def _is_training(site: Site, method: str, file: File) -> bool:
    name = naming.last(site.text.rpartition(".")[0])
    match method:
        case "zero_grad" | "backward" | "unscale_":
            return True
        case "step":
            if naming.OPTIMIZER.search(name) or naming.SCHEDULER.search(name) or file.clears(site):
                return True
            return file.made_by(site).startswith("torch.optim.")
        case "update":
            return bool(naming.SCALER.search(name))
        case _:
            return False


def _needs_no_argument(base: str, method: str, file: File) -> bool:
    name = naming.last(base)
    match method:
        case "backward":
            return name != "self" and not (_TAKES_LOSS.search(name) or frameworks.speaks_of_one(name))
        case "step":
            return not (naming.SCHEDULER.search(name) and "ReduceLROnPlateau" in file.words.seen)
        case "unscale_":
            return False
        case _:
            return True


_TAKES_LOSS = re.compile(r"(?i)engine|model|trainer|strategy|optim")
