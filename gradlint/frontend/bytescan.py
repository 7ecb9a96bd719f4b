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
_USE = (b".step", b"autocast")


def worth_reading(source: bytes, enabled: Container[str] = ()) -> bool:
    """False means: no rule has anything to say about this file. `enabled`: rules that are on beside the usual ones."""
    if may_hold_events(source) or may_hold_models(source):
        return True
    from gradlint.frontend.glance import may_hold_divisions, may_hold_numerics

    return may_hold_numerics(source) or ("GL602" in enabled and may_hold_divisions(source))


def may_hold_models(source: bytes) -> bool:
    """Checkpointed segments, or saturating activations that may make a deep stack."""
    if b"checkpoint" in source and (b"torch.utils.checkpoint" in source or b"torch.utils import checkpoint" in source):
        if any(word in source for word in _CHECKPOINTED):
            return True
    if b"anh" not in source and b"igmoid" not in source:
        return False
    from gradlint.frontend.glance import may_hold_stack

    return may_hold_stack(source)


def may_hold_events(source: bytes) -> bool:
    """False means: no gradient event can be found here, the file need not be parsed."""
    clears = False
    graded = b"_grad" in source
    if graded:
        if b"clip_grad" in source:
            return True
        clears = b"zero_grad" in source
    makes = b"backward" in source and (b".backward" in source or b"_backward(" in source)
    if makes or clears:
        if (makes and clears) or any(word in source for word in _USE):
            return True
    if b".amp" in source and (b"cuda.amp" in source or b"cpu.amp" in source):
        return True
    if b"gradient_" in source:
        # arguments of trainers, keys of DeepSpeed's dicts, and the loss of a subclass of the Hugging Face trainer
        if b"gradient_clip_" in source or (b"gradient_accumulation" in source and b"compute_loss" in source):
            return True
        if b"gradient_clipping" in source and any(word in source for word in _CLIPS_BY_ITSELF):
            return True
    if not graded:
        return False
    # the limit of the Hugging Face trainer, and Lightning's number of micro-batches
    return (b"max_grad_norm=" in source and (b"TrainingArguments" in source or b"trl" in source)) or (
        b"accumulate_grad_batches" in source and b"training_step" in source
    )
