"""Inject one gradient bug at a time into correct training loops, to measure what gradlint finds.

    python -m benchmarks.mutate --out DIR [--codes GL101,GL2] [--per-code 2] FILE_OR_FOLDER_OR_JSONL...

reads correct training code and writes `DIR/*.py`, each with one injected bug, and `DIR/labels.jsonl` with rows
{"file", "code", "line", "source"}: the layout that `score.py mutants DIR` reads. A JSONL argument has one row per
file, with a `file` (or `path`) relative to the JSONL's own folder.

A mutation moves, deletes or changes one statement, and only where the loop around it makes the bug certain by the
rulebook: statements keep their meaning on the way (no definition is crossed), several optimizers are touched only
where each one's gradients are known to be its own, and files that hand these steps to a framework (Accelerate,
DeepSpeed, Lightning, apex) are left alone. The output depends on nothing but the input.
"""
