"""Training scripts as people write them, broken in one place or two: `verify` confirms it, and cures it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.verified import SCRIPTS, Changes, Script, verify

_DIGITS = Script(SCRIPTS / "right_digits" / "train.py")
_LANGUAGE_MODEL = Script(SCRIPTS / "right_language_model.py")

_CLIP = "        nn.utils.clip_grad_norm_(model.parameters(), args.clip)\n"
_STEP = "        optimizer.step()\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "changes", "wanted"),
    [
        pytest.param(
            _DIGITS,
            [("        optimizer.zero_grad()\n", ""), (_CLIP + _STEP, _STEP + _CLIP)],
            {"GL401": "loss.backward()", "GL101": "nn.utils.clip_grad_norm_("},
            id="digits: nothing cleared, clipped behind the step",
        ),
        pytest.param(
            _LANGUAGE_MODEL,
            [
                ("        scaler.unscale_(optimizer)\n", ""),
                ("            loss = loss / gradient_accumulation_steps\n", ""),
            ],
            {"GL201": "torch.nn.utils.clip_grad_norm_(", "GL301": "scaler.scale(loss).backward()"},
            id="language model: scaled gradients clipped, loss not divided",
        ),
        pytest.param(
            _LANGUAGE_MODEL,
            [("    scaler.update()\n", "")],
            {"GL204": "scaler.step(optimizer)"},
            id="language model: no update, the second turn raises",
        ),
    ],
)
def test_broken(script: Script, changes: Changes, wanted: dict[str, str], tmp_path: Path) -> None:
    verified = verify(script, tmp_path, changes)
    lines = {
        (name, number): line
        for name, text in verified.before.items()
        for number, line in enumerate(text.decode("utf-8").splitlines(), 1)
    }
    confirmed = verified.confirmed()
    assert {code: lines[name, line].strip() for name, line, code in confirmed} == {
        code: next(line.strip() for line in lines.values() if line.strip().startswith(text))
        for code, text in wanted.items()
    }
    assert set(confirmed.values()) == {"cured"}
    assert verified.data["runtime_only"] == []
    assert verified.data["failure"] is None
    assert verified.code == 1
    assert verified.after == verified.before
