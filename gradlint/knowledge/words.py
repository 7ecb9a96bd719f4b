"""The words of what rows speak of: a file without any of them holds nothing of the kind.

A word is a piece of text, not always a whole name: `grad` stands in `zero_grad` and in `p.grad = None`.
"""

from __future__ import annotations

from gradlint.events import Mark, Opaque
from gradlint.knowledge.frameworks import FRAMEWORKS
from gradlint.knowledge.rows import About, Context, Does, Opens, Row, Thing
from gradlint.knowledge.torch_api import ROWS

#: contexts whose calls are events as far as paths are concerned
_EVENTFUL = (Context.WINDOW, Context.NO_SYNC, Context.LOSS)


def all_rows() -> tuple[Row, ...]:
    return (*ROWS, *(row for framework in FRAMEWORKS for row in framework.rows))


def words(about: About) -> frozenset[str]:
    """One of these stands in each file in which there is such an event, object, context or setting.

    Of an `Edit` that only perhaps happens nothing is promised, but it never comes without another event.
    """
    if about in (Opaque, Mark):
        raise ValueError(f"{about} has no words: what is not known has no name, and every loop is marked")
    found = {word for row in all_rows() if row.about is about for word in row.words}
    if not found:
        raise ValueError(f"no row speaks of {about}")
    return frozenset(word for word in found if not any(other in word for other in found if other != word))


def _methods() -> frozenset[str]:
    found = {"scale"}  # it makes a loss for the backward
    for row in all_rows():
        if isinstance(row, Does) and (row.event is not None or row.on is Thing.OBJECT):
            found.update(row.methods)
        elif isinstance(row, Opens) and row.context in _EVENTFUL:
            found.update(name.rpartition(".")[2] for name in row.names)
    return frozenset(name for name in found if not name.startswith("__"))


#: methods that do something to gradients, whoever has them
EVENT_METHODS = _methods()
