"""A bench with a small file on it, for tests of the tools that rewrites share."""

from __future__ import annotations

import libcst as cst

from gradlint.rewrite.bench import Bench
from gradlint.rewrite.document import Document
from tests.frontend.tracing import lowered


def bench(source: str) -> Bench:
    read = lowered(source)
    return Bench(Document(read.module, read.places), read.nodes, [])


def looked_at(on: Bench) -> cst.BaseExpression:
    """What the call `look(…)` is given."""
    (call,) = [x for x in on.every(cst.Call) if on.code(x.func) == "look"]
    return call.args[0].value
