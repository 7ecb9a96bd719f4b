"""Decides from the raw bytes whether a file can hold anything a rule looks at; imports nothing at all.

Each search reads the whole file, so a few short words that most files lack come first, and the exact ones only then.
"""

from __future__ import annotations

_USE = (b".step", b"autocast")


def may_hold_events(source: bytes) -> bool:
    """False means: no gradient event can be found here, the file need not be parsed."""
    clears = False
    if b"_grad" in source:
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
        # arguments of Lightning's trainer, and the loss of a subclass of the Hugging Face one
        return b"gradient_clip_algorithm" in source or (
            b"gradient_accumulation" in source and b"compute_loss" in source
        )
    return False
