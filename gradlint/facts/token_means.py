"""Whether a loss is a mean over the tokens of one padded batch, and how that is known."""

from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward
from gradlint.facts.models import Models
from gradlint.knowledge import tokens as known
from gradlint.python import syntax as s
from gradlint.python.binding import called, last
from gradlint.python.module import Module
from gradlint.python.scope import Scope
from gradlint.subjects import Evidence


class TokenMeans:
    """Looks at the losses of one file."""

    def __init__(self, program: Module) -> None:
        self._program = program
        self._models = program.once(Models)
        self._pads: bool | None = None

    def of(self, loss: Backward) -> Evidence | None:
        """What makes this loss a mean over a number of tokens that differs from batch to batch."""
        parts = list(self._models.made_of(loss))
        if any(known.COUNTS.search(name) for part, _ in parts for name in _names(part)) or self._packs():
            return None  # tokens are counted, or all batches have equally many
        masked = next((part for part, _ in parts if _is_masked_mean(part, plain=self._file_pads())), None)
        if masked is not None:
            site = self._program.site(masked, s.render(masked))
            return Evidence("a mean over a mask", site, "the mean is taken here")
        losses = [part for part, _ in parts if isinstance(part, s.Call) and known.TOKEN_LOSSES.search(called(part))]
        if any(_is_reduced(call) for call in losses):
            return None  # not a mean
        for call in losses:
            if "ignore_index" in call.kwargs and self._skips(call.kwargs["ignore_index"]):
                text = f"`{called(call)}` leaves out `ignore_index`"
                return Evidence(text, self._program.site(call), "the mean is over the other tokens")
        return self._padded(parts, losses) or self._pretrained(parts, losses)

    def _skips(self, index: s.Expr) -> bool:
        """`ignore_index=pad_id`, `ignore_index=-100`: some tokens are left out. A number alone may never occur."""
        if any("pad" in name.lower() for part in s.walk_expr(index) for name in _names(part)):
            return True
        return s.render(index) == "-100" or self._file_pads()

    def _padded(self, parts: list[tuple[s.Expr, Scope]], losses: list[s.Call]) -> Evidence | None:
        """Cross-entropy over sequences that were padded on the way, or shifted by one in a file that pads."""
        if not losses:
            return None
        for part, _ in parts:
            if isinstance(part, s.Call) and called(part) in ("pad_sequence", "pad"):
                if part.args and not any(isinstance(a, s.Call) for a in part.args[:1]):
                    return Evidence("its batches are padded", self._program.site(part), "padded here")
        if self._file_pads() and _is_shifted(parts):
            return Evidence("its batches are padded", self._program.site(losses[0]), "the mean is taken here")
        return None

    def _pretrained(self, parts: list[tuple[s.Expr, Scope]], losses: list[s.Call]) -> Evidence | None:
        """The loss that a language model of Hugging Face computes itself from padded labels."""
        if losses or not self._file_pads() or self._is_fixed_length():
            return None
        if any(isinstance(part, s.Call) and known.OTHER_LOSS.search(called(part)) for part, _ in parts):
            return None
        for part, scope in parts:
            if isinstance(part, s.Call) and _hands_labels(part):
                model = self._models.pretrained(part.func, scope)
                if model is not None and known.TOKEN_HEADS.search(model.name):
                    said = "it takes the mean over all labelled tokens"
                    return Evidence(f"the loss of `{model.name}`", model.site, said)
        return None

    def _is_fixed_length(self) -> bool:
        """All sequences are filled up to one length, and nothing marks labels that do not count."""
        fixed = any(s.render(call.kwargs.get("padding")) == '"max_length"' for call in self._program.calls())
        return fixed and not any(
            isinstance(part, s.Unary) and s.render(part) == "-100"
            for stmt in self._program.statements()
            for expr in s.expressions(stmt)
            for part in s.walk_expr(expr)
        )

    def _packs(self) -> bool:
        return any(known.PACKS.search(word) for word in self._program.all_words.seen)

    def _file_pads(self) -> bool:
        if self._pads is None:
            words = self._program.all_words
            self._pads = any(known.PADS.search(word) for word in words.seen | words.called)
        return self._pads


def _names(part: s.Expr) -> Iterator[str]:
    """Its own, without those of what is inside it."""
    yield last(part)
    if isinstance(part, s.Call):
        yield from part.kwargs


def _is_reduced(call: s.Call) -> bool:
    """It is not the mean that is taken: `reduction="sum"`, or something that is decided elsewhere."""
    reduction = call.kwargs.get("reduction") or call.kwargs.get("reduce") or call.kwargs.get("size_average")
    return reduction is not None and s.render(reduction) != '"mean"'


def _is_masked_mean(part: s.Expr, plain: bool) -> bool:
    """`(loss * mask).sum() / mask.sum()`, `loss[mask].mean()`; `plain`: a mask of any name is one of tokens."""
    if isinstance(part, s.Bin) and part.op == "/":
        return _is_masked_sum(part.right, plain)
    if isinstance(part, s.Call) and isinstance(part.func, s.Attr) and part.func.name == "mean":
        base = part.func.base
        return isinstance(base, s.Item) and _is_mask(base.index, plain)
    return False


def _is_masked_sum(expr: s.Expr, plain: bool) -> bool:
    """`mask.sum()`, also held away from zero: `mask.sum().clamp(min=1)`, `mask.sum() + eps`."""
    if isinstance(expr, s.Bin):
        return _is_masked_sum(expr.left, plain)
    if isinstance(expr, s.Call) and isinstance(expr.func, s.Attr):
        if expr.func.name == "sum":
            return _is_mask(expr.func.base, plain)
        return expr.func.name in ("clamp", "clamp_min", "float", "item") and _is_masked_sum(expr.func.base, plain)
    return False


def _is_mask(expr: s.Expr, plain: bool) -> bool:
    """A mask of tokens; masks of pixels and of patches often have the same size in all batches."""
    name = last(expr)
    return bool(known.TOKEN_MASK.search(name)) or (plain and name in ("mask", "masks"))


def _is_shifted(parts: list[tuple[s.Expr, Scope]]) -> bool:
    """`logits[:, :-1]` against `labels[:, 1:]`: the next token is predicted."""
    bounds = {
        s.render(child)
        for part, _ in parts
        if isinstance(part, s.Other) and part.label == ":"
        for child in part.children
    }
    return {"1", "-1"} <= bounds


def _hands_labels(call: s.Call) -> bool:
    return "labels" in call.kwargs or call.starred or any(isinstance(a, s.Star) for a in call.args)
