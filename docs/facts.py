"""The tables of the rules' pages: what `gradlint prove` measures in the script with the mistake, and put right.

`python -m docs.facts GL101` runs one proof and prints its table; `--check` compares with the file that is shipped.
`python -m docs` writes the tables that are missing, `python -m docs --measure` all of them.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from importlib import metadata
from pathlib import Path

from gradlint.docs.pages import FILE, Facts, Row, all_facts
from gradlint.model import Category
from gradlint.registry import by_code
from gradlint.runtime.prove.case import Case, Value, chosen
from gradlint.runtime.prove.proving import Proof, prove

#: seconds until a run counts as one that never ends; nobody waits for it, and the machine may be slow or busy
_LIMIT = 3600.0
#: rows of a table
FEWEST, MOST = 2, 4

#: what the scripts set, and what another row says in better words
_HIDDEN = {"max_norm", "scale", "exception", "warnings", "future_warnings", "first_window", "optimizers"}
_LABELS = {
    "all_reduces_per_update": "all-reduces per update",
    "clips_of_used_gradients": "clips behind the step",
    "cosine": "cosine to the right gradient",
    "difference_between_ranks": "difference between the weights of the ranks",
    "difference_of_norms": "difference between the norms that the ranks measure",
    "dtypes": "dtype of a float32 product in a backward of your own",
    "first_layer_to_last": "norm of the first layer's gradient / of the last layer's",
    "first_learning_rate": "learning rate of the first update",
    "first_optimizer_to_large_batch": "gradient of the first optimizer / the large batch's",
    "gradient_to_large_batch": "norm of the gradient / the large batch's",
    "gradients_found": "gradients that a step finds",
    "gradients_the_clip_found": "gradients that the clip finds",
    "learning_rates": "learning rates of the updates",
    "loss_at_the_end_to_that_at_the_beginning": "loss at the end / at the beginning",
    "micro_batches_lost": "micro-batches in no update",
    "micro_batches_per_update": "micro-batches in each update",
    "norm_at_step": "norm of the gradient at the step",
    "norm_in_the_log_to_true_norm": "norm in the log / the true norm",
    "norm_the_clip_returned": "norm that the clip returns",
    "norms_returned": "norm that the clip returns, rank 0 and 1",
    "parameters_the_clip_got": "parameters that the clip is given",
    "relative_error": "distance to the right gradient / its length",
    "relative_error_of_the_last": "the same at the last step",
    "scaler_updates": "updates of the scale",
    "scheduled_before": "steps of the schedule before the first update",
    "second_optimizer_to_large_batch": "gradient of the second optimizer / the large batch's",
    "share_of_gradients_that_are_0": "gradients that became 0",
    "share_of_updates_clipped": "updates that were clipped",
    "true_threshold": "limit of the clip in true units",
    "updates": "updates made",
    "weights_moved_by": "distance that the weights move",
}
#: differences below this are rounding: their digits are another machine's business
_ROUNDING = {"difference_between_ranks": 1e-6, "norm_at_step": 1e-6}


def tables(codes: Sequence[str]) -> dict[str, Facts]:
    """Runs the proofs of these rules, of all if there are none."""
    found = {}
    for proof in prove(chosen(codes), "cpu", limit=_LIMIT).proofs:
        if not proof.passed:
            raise SystemExit(f"{proof.case.code} is not proved: {proof.note}")
        found[proof.case.code] = table(proof)
    return found


def table(proof: Proof) -> Facts:
    """What one proof has measured."""
    torch = metadata.version("torch").partition("+")[0]
    return Facts(proof.case.code, _setting(proof.case), tuple(_rows(proof)), torch)


def _setting(case: Case) -> str:
    said = ast.get_docstring(ast.parse(case.script.read_text(encoding="utf-8"))) or ""
    window = f" of {case.window} micro-batches each" if case.window > 1 else ""
    ranks = f" on {case.ranks} ranks" if case.ranks > 1 else ""
    return f"{said} {case.updates} updates{window}{ranks}."


def _rows(proof: Proof) -> Iterator[Row]:
    """What differs, in the order in which it was measured; where that is too little, what does not. The distance to the
    right gradient is in all of them, and says the least."""
    assert proof.before is not None
    assert proof.after is not None
    half = by_code()[proof.case.code].meta.category is Category.MIXED_PRECISION
    before, after = proof.before.numbers, proof.after.numbers
    rows = [
        Row(_LABELS.get(name, name.replace("_", " ")), shown(name, before[name], half), shown(name, after[name], half))
        for name in before
        if name not in _HIDDEN
    ]
    told = [row for row in rows if row.mistake != "none"]
    told.sort(key=lambda row: (row.mistake == row.right, row.what == _LABELS["relative_error"]))
    apart = [row for row in told if row.mistake != row.right]
    wanted = told[: min(max(len(apart), FEWEST), MOST)]
    return (row for row in rows if row in wanted)


def shown(name: str, value: Value, half: bool = False) -> str:
    """Words and counts as they are, measurements with three digits or, behind half precision, by what they are near."""
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(shown(name, number, half) for number in value) or "none"
    if isinstance(value, str | int):
        return str(value)
    if not math.isfinite(value):
        return f"{value:g}"
    if name.startswith("share_"):
        return f"{100 * value:.0f} %"
    if name.endswith("_per_update") or name == "gradients_found":
        return f"{value:g}"
    limit = _ROUNDING.get(name, 2e-2 if half and "error" in name else 1e-4 if "error" in name or "diff" in name else 0)
    if value < limit:
        return f"under {limit:g}"
    if half and value:
        return _about(value)
    return f"{value:g}" if value == 0 else f"{value:.1f}" if 100 <= abs(value) < 1e6 else f"{value:#.3g}"


def _about(value: float) -> str:
    """A power of two, as scales are, if it is one but for the few digits of half precision."""
    exponent = round(math.log2(value))
    if abs(value / 2.0**exponent - 1) > 0.02:
        return f"about {value:.1g}"
    return f"about {2**exponent}" if exponent >= 0 else f"about 1/{2**-exponent}"


# -- the file ----------------------------------------------------------------------------------------------------


def write(found: Mapping[str, Facts]) -> None:
    """One row a line: a change is read."""
    entries = []
    for code, facts in sorted(found.items()):
        rows = ",\n".join(f"   {json.dumps(row.cells, ensure_ascii=False)}" for row in facts.rows)
        setting = json.dumps(facts.setting, ensure_ascii=False)
        entries.append(f'  "{code}": {{\n   "setting": {setting},\n   "rows": [\n{rows}\n   ]\n  }}')
    version = next(iter(found.values())).torch
    text = f'{{\n "torch": "{version}",\n "rules": {{\n{",".join(f"{chr(10)}{e}" for e in entries).lstrip()}\n }}\n}}\n'
    Path(FILE).write_text(text, encoding="utf-8")
    print(f"wrote {len(found)} tables, measured with torch {version}")


_MEASURED = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[+-]?\d+)?(?![\w.])")


def differences(kept: Mapping[str, Facts], fresh: Mapping[str, Facts]) -> Iterator[str]:
    for code in sorted({*kept, *fresh}):
        if code not in kept or code not in fresh:
            yield f"{code}: {'not in the file' if code not in kept else 'in the file, but there is no proof'}"
            continue
        old, new = kept[code], fresh[code]
        if (old.torch, old.setting) != (new.torch, new.setting):
            yield f"{code}: {old.setting!r} with torch {old.torch} in the file, {new.setting!r} with {new.torch} now"
        if len(old.rows) != len(new.rows):
            yield f"{code}: {len(old.rows)} rows in the file, {len(new.rows)} measured"
            continue
        for was, row in zip(old.rows, new.rows, strict=True):
            for before, now in zip(was.cells, row.cells, strict=True):
                if not same(before, now):
                    yield f"{code}: {was.what}: {before} in the file, {now} measured"


def same(before: str, now: str) -> bool:
    """Words and counts to the letter; what has a decimal point was measured, and may be off by one in its last digit:
    more digits are computed than shown, so another machine can at most round the other way."""
    if _MEASURED.sub("#", before) != _MEASURED.sub("#", now):
        return False
    pairs = zip(_MEASURED.findall(before), _MEASURED.findall(now), strict=True)
    return all(_close(Decimal(old), Decimal(new)) for old, new in pairs)


def _close(old: Decimal, new: Decimal) -> bool:
    digits = [number.as_tuple().exponent for number in (old, new)]
    return abs(old - new) <= max(Decimal((0, (1,), int(exponent))) for exponent in digits)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.facts", description="What each mistake does, measured.")
    parser.add_argument("codes", nargs="*", metavar="CODE", help="run and print only these (GL101)")
    parser.add_argument("--check", action="store_true", help="compare with the file instead of printing")
    arguments = parser.parse_args()
    fresh = tables(arguments.codes)
    if not arguments.check:
        print("\n".join(f"# {code}\n\n{table.section()}" for code, table in fresh.items()))
        return 0
    kept = {code: facts for code, facts in all_facts().items() if code in fresh or not arguments.codes}
    problems = list(differences(kept, fresh))
    print("\n".join([*problems, "run: python -m docs --measure"] if problems else [f"{len(fresh)} tables hold"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
