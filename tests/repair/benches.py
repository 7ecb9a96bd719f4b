"""A bench with a small file on it, for tests of the tools that rewrites share."""

from __future__ import annotations

import textwrap

import libcst as cst

from gradlint.python.anchor import Anchors
from gradlint.python.lower import Lowering
from gradlint.python.source import Source
from gradlint.repair.bench import Bench
from gradlint.repair.document import Document


def bench(source: str) -> Bench:
    read = Source.of(textwrap.dedent(source))
    anchors = Anchors(read.text, read.tree, read.lines())
    return Bench(Document(anchors), Lowering(read.tree).origins, [])


def looked_at(on: Bench) -> cst.BaseExpression:
    """What the call `look(…)` is given."""
    (call,) = on.calls("look")
    return call.args[0].value
