"""GL401 missing-zero-grad."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward, Edit, EditKind, Norm, Step, Zero
from gradlint.rule import Aspect, Draft, File, FixSafety, GradientState, Repair, Rule, RuleMeta, Severity, short


class MissingZeroGrad(Rule):
    """Gradients are used again and again without being cleared.

    ## What it does
    Looks for a loop of backward and step in which nothing clears the gradients: no `zero_grad()` of the optimizer or
    the model, no `p.grad = None`, no `.grad.zero_()`, no framework that does it. Where a network's gradients are handed
    to another one to step with (A3C: `theirs._grad = mine.grad`), its own have to be cleared, too: since torch 2.0
    `zero_grad()` of the other one's optimizer no longer writes zeros into the tensors that both share.

    ## Why is this bad?
    `backward()` adds to what is there. From the second batch on, every step uses the sum of all gradients since
    training began: updates grow, point into the past, and the loss often falls at first and diverges later.

    ## Example
    ```python
    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    ## Use instead
    ```python
    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    ## Fix safety
    Safe. The fix inserts `optimizer.zero_grad()` at the head of the loop or, when gradients are accumulated, behind
    the step, with the arguments that the file's other calls have. Each update then uses its own gradients only: expect
    smaller steps, and choose the learning rate again if it was lowered to keep the loss from diverging. Nothing is
    offered where the gradients are still read behind the step, where the step stands amid the accumulation window of
    another step, or where gradients are copied to other weights (masters in float32), which the optimizer then steps:
    it is the model that has to be cleared.

    ## Known limits
    A function that takes one step and is called from another file is flagged only if nothing in its own file clears.
    An object with an `.optimizer` in it and that optimizer are taken for one: clearing either is enough.
    A clearing that a flag leaves out (`if clears: optimizer.zero_grad()`) is left out on purpose.
    DeepSpeed's `engine.step()`, distributed autograd, Lightning's automatic optimisation and optimizers that run inside
    backward hooks clear by themselves and are not flagged.

    ## References
    - [torch.optim.Optimizer.zero_grad](https://pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    - [Zeroing out gradients](https://pytorch.org/tutorials/recipes/recipes/zeroing_out_gradients.html)
    """

    meta = RuleMeta("GL401", Severity.ERROR, fix=FixSafety.SAFE, runs=True)
    mends = (Aspect.CLEARS,)
    needs = (Backward, Step)
    message = "`{backward}` adds to gradients that `{step}` has used already: nothing clears them in between"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        stale = state.stale
        if stale is None or not state.pending or step.framework.clears:
            return
        if self.file.words.seen & _HOOKS or not stale.shares_loop(step) or not step.frames:
            return
        kind = state.optimizer.kind
        if self.file.once(_own_steps_clear) and (not kind or kind in self.file.defined):
            return  # it may well be one of these
        first = state.pending[0]
        if any(state.path.between(stale, first, Edit)):
            return  # what is kept was chosen: momentum by hand
        chosen = step.asked_apart(first) or stale.asked_apart(first)
        if chosen and _clears_in_loop(step, state):
            return  # where a window ends was not understood, and so not that the clearing stands at its start
        if _left_out(state, stale, first):
            return
        if {f.loop for f in step.frames} == {state.path.entry_loop} and not _does_it_all(first, state):
            return
        early, late = (
            Repair(
                _BEFORE,
                lambda bench: bench.clear_first(
                    first, _to_be_cleared(first, step, state), close=_another_comes_first(first, state)
                ),
            ),
            Repair("Clear the gradients behind the step", lambda bench: bench.clear_behind(step)),
        )
        repairs = [late] if chosen else [late, early] if state.window.steps_late else [early, late]
        if _left_elsewhere(step, state):
            repairs.remove(late)
        if not state.window.steps_late and state.life.steps_in_windows:
            repairs = []  # a step amid another window: clearing at the head of its loop would empty that one
        if any(edit.source not in (None, edit.params) for edit in state.window.of(Edit)):
            repairs = []  # copied from what the optimizer may not hold, and then may not clear
        yield self.finding(
            first, backward=short(first), step=short(stale), related=[(stale, "gradients consumed here, and kept")],
            repairs=repairs,
        )  # fmt: skip

    def on_edit(self, edit: Edit, state: GradientState) -> Iterator[Draft]:
        found = state.handed_on(edit) if edit.kind is EditKind.NEW else None
        if found is None or (self.file.target_torch or _LETS_GO) < _LETS_GO:
            return
        backward, step = found
        yield self.finding(
            backward, backward=short(backward), step=short(step),
            related=[(edit, "gradients handed to other parameters"), (step, "used here, and kept at their source")],
            # no fix: `zero_grad()` of which model, and where it is known by which name, only the author can say
        )  # fmt: skip


def _does_it_all(first: Backward, state: GradientState) -> bool:
    """A function that is called for each batch from elsewhere: it makes the loss, and nothing in the file clears."""
    if first.norm is Norm.UNKNOWN:
        return False
    mine = state.optimizer.text
    others = {ref.text for ref in state.path.optimizers.values() if ref.text != mine}
    return state.path.file_zeroes <= others


def _clears_in_loop(step: Step, state: GradientState) -> bool:
    """Some turns of the loop clear these gradients."""
    return any(zero.shares_loop(step) and not zero.aborts for zero in state.life.events(Zero))


def _left_out(state: GradientState, stale: Step, first: Backward) -> bool:
    """A flag alone leaves the clearing out, between a step and a backward that are those of the usual path."""
    usual = {e.places for e in state.path.usually}
    if stale.places not in usual or first.places not in usual:
        return False
    cleared = {zero.places for zero in state.path.of(Zero)}
    zeroes = (zero for zero in state.path.usually if isinstance(zero, Zero) and zero.places not in cleared)
    mine = state.optimizer
    return any(zero.optimizer == mine.id or zero.params.may_meet(mine.params) for zero in zeroes)


def _another_comes_first(first: Backward, state: GradientState) -> bool:
    """Earlier in the turn the backward of another optimizer's loss runs through these parameters: what it leaves there
    has to be cleared, too."""
    return any(e.index < first.index and e.same_turn(first) for e in state.foreign_backwards())


def _left_elsewhere(step: Step, state: GradientState) -> bool:
    """A loop beside that of the step leaves gradients for it (an evaluation that looks at them): clearing behind the
    step would keep them."""
    return any(_beside(backward, step) for window in state.life.windows for backward in window.of(Backward))


def _beside(backward: Backward, step: Step) -> bool:
    """Each of the two is in a loop that the other is not in."""
    one, other = ({f.loop for f in event.frames} for event in (backward, step))
    return not one <= other and not other <= one


def _own_steps_clear(file: File) -> bool:
    """An optimizer class of the file's own clears each gradient as it uses it, or all of them behind its step."""
    return any(
        "zero_grad" in words.called or ("grad" in words.seen and "zero_" in words.called)
        for words in file.words_of("step")
    )


def _to_be_cleared(first: Backward, step: Step, state: GradientState) -> list[Step]:
    """The steps of all optimizers that share the loop and the fate of this one."""
    if _another_comes_first(first, state):
        return [step]
    cleared = {e.optimizer for e in state.path.of(Zero)}
    steps = {e.optimizer: e for e in state.path.of(Step) if e.frames == step.frames}
    return [e for e in steps.values() if e.optimizer not in cleared] or [step]


_BEFORE = "Clear the gradients before the backward"
#: since this version `zero_grad()` takes the tensors away that two networks shared, where it wrote zeros into them
_LETS_GO = (2, 0)
#: optimizers that step inside backward hooks clear there as well, and a hook behind a step may clear
_HOOKS = {
    "register_step_post_hook",
    "register_optimizer_step_post_hook",
    "register_post_accumulate_grad_hook",
    "dist_autograd",
    "_apply_optimizer_in_backward",
    "fused_backward_pass",
}
