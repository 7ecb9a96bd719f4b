"""Decides from the raw bytes whether a file can hold anything a rule looks at; imports nothing heavy."""

from __future__ import annotations

#: at least one of these stands in every file in which a rule can fire on its own ...
_STRONG = (b"clip_grad", b"unscale_", b"cuda.amp", b"cpu.amp", b"GradScaler", b"no_sync", b"gradient_clip_algorithm")
#: ... or one of each of these pairs (gradients are made or cleared, and used)
_GRADIENTS = (b".backward", b"zero_grad", b"manual_backward")
_USE = (b".step", b"autocast")


def may_hold_events(source: bytes) -> bool:
    """False means: no gradient event can be found here, the file need not be parsed."""
    if any(word in source for word in _GRADIENTS):
        if any(word in source for word in _USE) or (b".backward" in source and b"zero_grad" in source):
            return True
    return any(word in source for word in _STRONG)
