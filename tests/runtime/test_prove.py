"""`gradlint prove` as a whole: both scripts of every case run and measured, on the CPU and with two ranks."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from docs.facts import differences, table
from gradlint.docs.pages import facts
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
    """In the numbers that stand on the rule's page."""
    proof = _of(code, proofs)
    _assert_proved(proof)
    shipped = facts(code)
    assert shipped is not None
    assert list(differences({code: shipped}, {code: table(proof)})) == []


def _assert_proved(proof: Proof) -> None:
    if proof.passed is None:
        pytest.skip(proof.note)
    assert proof.passed, proof.note
    record: Any = json.loads(json.dumps(proof.record(), allow_nan=False))
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
