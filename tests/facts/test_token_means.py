"""A mean over tokens, in the ways in which losses are written, and what looks like one."""

from __future__ import annotations

import textwrap

import pytest

from gradlint.events import Backward
from gradlint.facts.token_means import TokenMeans
from gradlint.paths.explorer import Explorer
from tests.paths.tracing import happened, program

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch.nn.utils.rnn import pad_sequence\n"
LOOP = """
for x, y, mask, weights in loader:
    optimizer.zero_grad()
    logits = model(x)
{loss}
    loss.backward()
    optimizer.step()
"""


def _evidence(loss: str, head: str = "") -> str | None:
    read = program(HEAD + head + LOOP.format(loss=textwrap.indent(loss, "    ")))
    path = next(path for path in Explorer(read).paths() if happened(path))
    found = TokenMeans(read).of(next(e for e in path.events if isinstance(e, Backward)))
    return found.text if found is not None else None


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        ("loss = F.cross_entropy(logits, y, ignore_index=pad_id)", "`cross_entropy` leaves out `ignore_index`"),
        ("loss = F.cross_entropy(logits, y, ignore_index=-100)", "`cross_entropy` leaves out `ignore_index`"),
        ("y = pad_sequence(y)\nloss = F.cross_entropy(logits, y)", "its batches are padded"),
        ("loss_mask = mask\nloss = (logits * loss_mask).sum() / loss_mask.sum().clamp(min=1)", "a mean over a mask"),
        ("token_mask = mask\nloss = logits[token_mask].mean()", "a mean over a mask"),
    ],
)
def test_a_mean_over_tokens(loss: str, said: str) -> None:
    assert _evidence(loss) == said


@pytest.mark.parametrize(
    "loss",
    [
        "loss = F.cross_entropy(logits, y)",
        "loss = F.cross_entropy(logits, y, ignore_index=255)",  # a class of pixels, and nothing pads
        "loss = F.cross_entropy(logits, y, ignore_index=pad_id, reduction='sum')",
        "loss = F.cross_entropy(logits, y, ignore_index=pad_id) * num_tokens",
        "loss = (logits * mask).sum() / mask.sum()",  # a mask of pixels, for all that is known
    ],
)
def test_no_mean_over_tokens(loss: str) -> None:
    assert _evidence(loss) is None


def test_a_mask_of_any_name_counts_where_the_file_pads() -> None:
    assert _evidence("loss = (logits * mask).sum() / mask.sum()", "attention_mask = 1\n") == "a mean over a mask"


def test_packed_sequences_have_one_length() -> None:
    assert _evidence("loss = F.cross_entropy(logits, y, ignore_index=-100)", "data = group_texts(raw)\n") is None
