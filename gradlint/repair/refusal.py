"""The answer "no" of a rewrite."""

from __future__ import annotations


class NotFixable(Exception):  # noqa: N818  # not an error: an answer, with its reason
    """This rewrite is not possible here; the text says why."""
