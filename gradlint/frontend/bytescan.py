"""Decides from the raw bytes whether a file can hold anything a rule looks at; imports next to nothing.

Each search reads the whole file, so a few short words that most files lack come first, and the exact ones only then.
"""

from __future__ import annotations

from collections.abc import Container

#: whose `gradient_clipping` it is, if it is not a model's
_CLIPS_BY_ITSELF = (b"eepspeed", b"eepSpeed", b"egatronLM", b"zero_optimization", b"train_micro_batch")
#: the function, not `load_checkpoint(`
_CHECKPOINTED = (
    b".checkpoint(",
    b" checkpoint(",
    b"(checkpoint",
    b"=checkpoint",
    b"checkpoint_sequential",
    b"checkpoint as",
)
#: a fragment need not say where its names come from
_TORCH = (b"torch", b"F.", b"nn.", b".backward(", b".log()", b".sqrt()", b".exp()")
_USE = (b".step", b"autocast")
#: the longest of the words with "grad": what stands before it, and from it on
_BEFORE = len(b"accumulate_")
_FROM = len(b"gradient_accumulation")


def worth_reading(source: bytes, enabled: Container[str] = ()) -> bool:
    """False means: no rule has anything to say about this file. `enabled`: rules that are on beside the usual ones."""
    if may_hold_events(source):
        return True
    if not any(word in source for word in _TORCH):
        return False
    if may_hold_models(source):
        return True
    from gradlint.frontend.glance import may_hold_divisions, may_hold_numerics

    return may_hold_numerics(source) or ("GL602" in enabled and may_hold_divisions(source))


def may_hold_models(source: bytes) -> bool:
    """Checkpointed segments, or saturating activations that may make a deep stack."""
    if b"torch.utils" in source and (b"torch.utils.checkpoint" in source or b"torch.utils import checkpoint" in source):
        if any(word in source for word in _CHECKPOINTED):
            return True
    from gradlint.frontend.glance import may_hold_stack

    return may_hold_stack(source)


def may_hold_events(source: bytes) -> bool:
    """False means: no gradient event can be found here, the file need not be parsed."""
    grads = _words_with_grad(source)
    if b"clip_grad" in grads:
        return True
    clears = b"zero_grad" in grads
    makes = b"backward" in source and (b".backward" in source or b"_backward(" in source)
    if makes or clears:
        if (makes and clears) or any(word in source for word in _USE):
            return True
    if b".amp" in source and (b"cuda.amp" in source or b"cpu.amp" in source):
        return True
    # arguments of trainers, keys of DeepSpeed's dicts, and the loss of a subclass of the Hugging Face trainer
    if b"gradient_clip_" in grads or (b"gradient_accumulation" in grads and b"compute_loss" in source):
        return True
    if b"gradient_clipping" in grads and any(word in source for word in _CLIPS_BY_ITSELF):
        return True
    if b"composer" in source and (b"clipping_threshold" in source or b"Composer" in source):
        return True
    # the limit of the Hugging Face trainer, and Lightning's number of micro-batches
    return (b"max_grad_norm=" in grads and (b"TrainingArguments" in source or b"trl" in source)) or (
        b"accumulate_grad_batches" in grads and b"training_step" in source
    )


def _words_with_grad(source: bytes) -> bytes:
    """What stands round each "grad": many words that are asked for have it in them, and one search finds them all."""
    found = []
    place = source.find(b"grad")
    while place >= 0:
        found.append(source[max(0, place - _BEFORE) : place + _FROM])
        place = source.find(b"grad", place + 4)
    return b"\n".join(found)
