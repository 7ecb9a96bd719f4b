"""`gradlint prove` as a whole: both scripts of every case run and measured, on the CPU and with two ranks."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradlint.runtime.prove import proving
from gradlint.runtime.prove.case import Observed, Run, Script, Used, all_cases, chosen, clipped, cosine
from gradlint.runtime.prove.proving import (
    BY_HAND,
    Pair,
    Proof,
    Proofs,
    Ran,
    judged,
    pair,
    prove,
    prove_pairs,
    run_id,
    scripts,
)
from tests.patience import PATIENCE, Clock
from tests.runtime.forked import workers_forked
from tests.runtime.zygote import zygote
from tests.sharing import once

CODES = [case.code for case in all_cases()]
Numbers = dict[str, Any]


def _close(value: float, wanted: float, tolerance: float = 0.02) -> bool:
    return math.isclose(value, wanted, rel_tol=tolerance)


def _clip_is_late(before: Numbers, after: Numbers) -> bool:
    return bool(before["norm_at_step"] > 10 * before["max_norm"] and _close(after["norm_at_step"], after["max_norm"]))


def _raises(kind: str, updates: int) -> Callable[[Numbers, Numbers], bool]:
    """With the mistake the script raises; without, it makes all of its updates."""

    def relation(before: Numbers, after: Numbers) -> bool:
        ends = (before["exception"], after["exception"], after["updates"])
        return ends == (kind, None, updates) and before["updates"] < updates

    return relation


def _scale_is_in_the_limit(before: Numbers, after: Numbers) -> bool:
    return _close(before["true_threshold"], 1 / 1024) and _close(after["true_threshold"], 1.0)


def _no_gradients(before: Numbers, after: Numbers) -> bool:
    found = (before["gradients_found"], after["gradients_found"])
    return found == (0, 4) and before["weights_moved_by"] < 1e-9 < after["weights_moved_by"]


def _four_exchanges(before: Numbers, after: Numbers) -> bool:
    agree = max(before["difference_between_ranks"], after["difference_between_ranks"]) < 1e-6
    return agree and (before["all_reduces_per_update"], after["all_reduces_per_update"]) == (4, 1)


def _four_times(before: Numbers, after: Numbers) -> bool:
    ratios = before["gradient_to_large_batch"], after["gradient_to_large_batch"]
    return _close(ratios[0], 4.0, 1e-4) and _close(ratios[1], 1.0, 1e-4)


def _finite_again(before: Numbers, after: Numbers) -> bool:
    lost = before["losses_not_finite"] + before["gradients_not_finite"]
    return bool(lost > 0 == after["losses_not_finite"] + after["gradients_not_finite"])


#: how the numbers before and after must relate, in the words of the rulebook
RELATIONS: dict[str, Callable[[Numbers, Numbers], bool]] = {
    "GL101": _clip_is_late,
    "GL102": lambda b, a: _clip_is_late(b, a) and b["norm_the_clip_returned"] == 0 < a["norm_the_clip_returned"],
    "GL103": lambda b, a: (b["clips_per_update"], a["clips_per_update"]) == (4, 1) and b["cosine"] < 0.9,
    "GL104": lambda b, a: b["cosine"] < 0.9 and _close(a["cosine"], 1.0, 1e-6),
    "GL105": lambda b, a: b["share_of_updates_clipped"] == 1 > a["share_of_updates_clipped"],
    "GL106": lambda b, a: _clip_is_late(b, a) and b["warnings"] > 0 == a["warnings"],
    "GL107": lambda b, a: _clip_is_late(b, a) and b["gradients_clipped"] == 0 < a["gradients_clipped"],
    "GL108": lambda b, a: b["norm_at_step"] > 100 and _close(a["norm_at_step"], 1.0),
    "GL109": lambda b, a: (
        (b["clips"], b["clips_that_acted"], a["clips"]) == (12, 0, 0) and b["norms_at_steps"] == a["norms_at_steps"]
    ),
    "GL110": lambda b, a: b["future_warnings"] > 0 == a["future_warnings"],
    "GL111": _clip_is_late,
    "GL112": lambda b, a: _close(b["norm_in_the_log"], b["max_norm"]) and a["norm_in_the_log"] > 10 * a["max_norm"],
    "GL201": _scale_is_in_the_limit,
    "GL202": _raises("RuntimeError", 4),
    "GL203": lambda b, a: _close(b["gradient_to_large_batch"], 1024) and _close(a["gradient_to_large_batch"], 1),
    "GL204": _raises("RuntimeError", 4),
    "GL205": _raises("RuntimeError", 3),
    "GL206": _raises("AssertionError", 4),
    "GL207": _scale_is_in_the_limit,
    "GL208": lambda b, a: (b["dtypes"], a["dtypes"]) == ("bfloat16", "float32"),
    "GL209": lambda b, a: (
        (b["scaler_updates"], a["scaler_updates"]) == (4, 0)
        and _close(b["gradient_to_large_batch"], a["gradient_to_large_batch"])
    ),
    "GL210": lambda b, a: b["future_warnings"] > 0 == a["future_warnings"],
    "GL211": lambda b, a: _close(b["norm_in_the_log_to_true_norm"], 1024 * a["norm_in_the_log_to_true_norm"]),
    "GL212": lambda b, a: b["share_of_gradients_that_are_0"] > 0.5 and a["share_of_gradients_that_are_0"] == 0,
    "GL213": lambda b, a: _close(2 * b["second_optimizer_to_large_batch"], a["second_optimizer_to_large_batch"]),
    "GL301": _four_times,
    "GL302": lambda b, a: b["cosine"] < 0.9 and _close(a["cosine"], 1.0, 1e-6),
    "GL304": lambda b, a: (b["micro_batches_lost"], a["micro_batches_lost"]) == (4, 0),
    "GL305": lambda b, a: (b["scheduler_steps_per_update"], a["scheduler_steps_per_update"]) == (4, 1),
    "GL306": lambda b, a: _close(4 * b["gradient_to_large_batch"], a["gradient_to_large_batch"], 1e-4),
    "GL307": lambda b, a: b["relative_error"] > 0.1 > 1e-4 > a["relative_error"],
    "GL308": lambda b, a: (b["first_window"], a["first_window"]) == (1, 4),
    "GL401": lambda b, a: b["relative_error_of_the_last"] > 1 > 1e-4 > a["relative_error_of_the_last"],
    "GL402": lambda b, a: (b["micro_batches_lost"], a["micro_batches_lost"]) == (9, 0),
    "GL403": _no_gradients,
    "GL404": _no_gradients,
    "GL405": lambda b, a: (b["updates"], a["updates"]) == (0, 4),
    "GL406": lambda b, a: _close(2 * b["first_learning_rate"], a["first_learning_rate"]),
    "GL501": _four_exchanges,
    "GL502": _four_exchanges,
    "GL503": lambda b, a: b["difference_between_ranks"] > 1e-4 and a["difference_between_ranks"] < 1e-6,
    "GL504": lambda b, a: _close(b["gradient_to_large_batch"], 2) and _close(a["gradient_to_large_batch"], 1),
    "GL505": lambda b, a: _close(b["norm_at_step"], math.sqrt(2)) and _close(a["norm_at_step"], 1.0),
    "GL601": _finite_again,
    "GL602": _finite_again,
    "GL603": _finite_again,
    "GL604": _finite_again,
    "GL605": _finite_again,
    "GL606": lambda b, a: b["norm_at_step"] < 1e-6 < 1 < a["norm_at_step"],
    "GL701": lambda b, a: 1000 * b["first_layer_to_last"] < a["first_layer_to_last"],
    "GL702": lambda b, a: (b["gradients_found"], a["gradients_found"]) == (2, 4),
}


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return [pair(case) for case in all_cases() if all(map(importlib.util.find_spec, case.needs))]


@pytest.fixture(scope="module")
def ran(pairs: list[Pair], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Both scripts of every case: the tests judge the same runs."""
    wanted = [script for pair in pairs for script in scripts(pair)]
    with workers_forked():
        return once(tmp_path_factory, "proofs", lambda _: proving.run(wanted, "cpu", limit=PATIENCE))


def _judged(pairs: list[Pair], ran: Ran) -> dict[str, Proof]:
    return {pair.case.code: judged(pair, ran, "cpu") for pair in pairs}


def _both(ran: Ran, pairs: list[Pair], side: str) -> Ran:
    """The runs of one side in the place of both."""
    runs = {run_id(p.case, to): ran.runs[run_id(p.case, side)] for p in pairs for to in ("before", "after")}
    return Ran(runs, ran.trouble)


@pytest.fixture(scope="module")
def proofs(pairs: list[Pair], ran: Ran) -> dict[str, Proof]:
    return _judged(pairs, ran)


@pytest.fixture(scope="module")
def not_mended(pairs: list[Pair], ran: Ran) -> dict[str, Proof]:
    """Every script as its own fix; the linter is not asked, so that only the numbers can tell."""
    return _judged(pairs, _both(ran, pairs, "before"))


@pytest.fixture(scope="module")
def never_wrong(pairs: list[Pair], ran: Ran) -> dict[str, Proof]:
    """The fixed copies in the place of the scripts with the mistakes."""
    return _judged(pairs, _both(ran, pairs, "after"))


def _of(code: str, proofs: dict[str, Proof]) -> Proof:
    if code not in proofs:
        pytest.skip(f"needs {', '.join(chosen([code])[0].needs)}")
    return proofs[code]


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES)
def test_proved(code: str, proofs: dict[str, Proof]) -> None:
    _assert_proved(_of(code, proofs))


def _assert_proved(proof: Proof) -> None:
    if proof.passed is None:
        pytest.skip(proof.note)
    assert proof.passed, proof.note
    record: Any = json.loads(json.dumps(proof.record(), allow_nan=False))
    assert RELATIONS[proof.case.code](record["before"], record["after"]), record
    assert record["sentence"]["before"] != record["sentence"]["after"]


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES)
def test_a_wrong_fix_is_not_passed(code: str, not_mended: dict[str, Proof]) -> None:
    proof = _of(code, not_mended)
    assert proof.passed is False
    assert proof.note.startswith("the fixed copy is not right"), proof.note


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES)
def test_a_mistake_that_is_not_there_is_not_passed(code: str, never_wrong: dict[str, Proof]) -> None:
    proof = _of(code, never_wrong)
    assert proof.passed is False
    assert proof.note == "the run does not show the mistake"


@pytest.mark.slow
def test_a_script_that_is_its_own_fix_and_findings_that_are_left_are_no_proofs() -> None:
    own, other, left = map(pair, chosen(["GL301", "GL403", "GL405"]))
    pairs = [replace(own, after=own.before, left=0), replace(other, after=other.before, left=0), replace(left, left=1)]
    with workers_forked():
        proofs = list(prove_pairs(pairs, "cpu", limit=PATIENCE))
    assert [proof.passed for proof in proofs] == [False, False, False]
    assert "still has 1 finding" in proofs[2].note


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.parametrize("code", CODES)
def test_proved_on_cuda(code: str, cuda_proofs: dict[str, Proof]) -> None:
    proof = cuda_proofs[code]
    _assert_proved(proof)
    assert proof.device == "cuda" or proof.case.ranks > 1  # ranks need a GPU each


@pytest.fixture(scope="module")
def cuda_proofs() -> dict[str, Proof]:
    return {proof.case.code: proof for proof in prove(all_cases(), "cuda").proofs}


@pytest.mark.slow
def test_records(proofs: dict[str, Proof]) -> None:
    for proof in proofs.values():
        record = proof.record()
        assert list(record)[:3] == ["code", "name", "device"]
        assert {"before", "after", "passed", "measure", "fix", "sentence", "ranks", "note"} <= record.keys()
        assert record["fix"] in ("safe", "unsafe", BY_HAND)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The workers of a test, in the order of their start."""
    if hasattr(os, "fork"):
        zygote()  # is none of them
    found: list[subprocess.Popen[bytes]] = []

    class Kept(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            found.append(self)

    monkeypatch.setattr(subprocess, "Popen", Kept)
    return found


@pytest.mark.slow
def test_a_script_that_hangs_is_ended(
    started: list[subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one before it is still told of."""
    begun = tmp_path / "begun"
    hangs = f"import time\nopen({str(begun)!r}, 'w').close()\ntime.sleep(1000)\n"
    scripts = [
        Script("fine", "fine.py", "x = 1\n", reference=False),
        Script("hangs", "hangs.py", hangs, reference=False),
    ]
    monkeypatch.setattr(proving, "time", Clock(begun))
    with workers_forked():
        ran = proving.run(scripts, "cpu", limit=PATIENCE)
    assert set(ran.runs) == {"fine"}
    assert [process.returncode is None for process in started] == [False]


@pytest.mark.slow
def test_a_rank_that_is_lost_ends_the_other(started: list[subprocess.Popen[bytes]]) -> None:
    text = (
        "import os\nfrom gradlint.runtime.prove.lab import join\nif join() == 1:\n    print('lost')\n    os._exit(7)\n"
    )
    text += "import torch.distributed as dist\ndist.barrier()\n"
    with workers_forked():
        ran = proving.run([Script("lost", "lost.py", text, ranks=2, reference=False)], "cpu", limit=PATIENCE)
    assert ran.runs == {}
    assert "lost" in ran.trouble
    assert [process.returncode is None for process in started] == [False, False]


def _run(*gradients: list[float], reference: list[float] | None = None) -> Run:
    used = [Used(0, gradient, len(gradient), len(gradient), reference) for gradient in gradients]
    return Run([Observed("x", used=used)], wanted=len(gradients))


def test_vectors() -> None:
    assert clipped([3.0, 4.0], 1.0) == pytest.approx([0.6, 0.8])
    assert clipped([0.3, 0.4], 1.0) == [0.3, 0.4]
    assert cosine([1.0, 0.0], [1.0, 1.0]) == pytest.approx(math.sqrt(0.5))
    assert cosine([0.0, 0.0], [1.0, 1.0]) == 0.0


def test_compared_with_the_large_batch() -> None:
    compared = _run([8.0, 0.0], [0.0, 2.0], reference=[2.0, 0.0]).compared()
    assert compared.ratios == [4.0, 1.0]
    assert compared.cosines == [1.0, 0.0]
    assert compared.error == 3.0
    assert _run([8.0, 0.0]).compared().error == math.inf  # nothing to compare with is no agreement


def test_a_run_that_did_nothing_is_neither_wrong_nor_right_by_accident() -> None:
    for case in all_cases():
        empty = Run([Observed("x", rank=rank) for rank in range(case.ranks)], case.updates)
        measured = case.measure(empty)
        assert not measured.right, case.code
        assert not measured.mistaken, case.code


def test_a_run_that_failed_for_another_reason_is_neither() -> None:
    for case in all_cases():
        ranks = [Observed("x", rank=rank, error="ValueError: another") for rank in range(case.ranks)]
        failed = Run(ranks, case.updates)
        measured = case.measure(failed)
        assert not measured.right, case.code
        assert not measured.mistaken, case.code


def test_nothing_proved_is_a_failure() -> None:
    (case,) = chosen(["GL306"])
    assert Proofs([Proof(case, "cpu", passed=None, note="needs accelerate")]).failed
    assert not Proofs([Proof(case, "cpu", passed=True), Proof(case, "cpu", passed=None)]).failed
    assert Proofs([Proof(case, "cpu", passed=True), Proof(case, "cpu", passed=False)]).failed
