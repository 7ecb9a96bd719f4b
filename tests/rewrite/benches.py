"""A bench with a small file on it, for tests of the tools that rewrites share."""

from __future__ import annotations

import textwrap

import libcst as cst

from gradlint.frontend.anchor import Anchors
from gradlint.frontend.lower import Lowering
from gradlint.frontend.source import Source
from gradlint.rewrite.bench import Bench
from gradlint.rewrite.document import Document


def bench(source: str) -> Bench:
    read = Source.of(textwrap.dedent(source))
    anchors = Anchors(read.text, read.tree, read.lines())
    return Bench(Document(anchors), Lowering(read.tree).origins, [])


def looked_at(on: Bench) -> cst.BaseExpression:
    """What the call `look(…)` is given."""
    (call,) = on.calls("look")
    return call.args[0].value
