"""GL901: a suppression that suppresses nothing."""

from __future__ import annotations

from gradlint.rule import FixSafety, Rule, RuleMeta, Severity


class UnusedSuppression(Rule):
    """A comment asks gradlint to ignore something that is not there.

    ## What it does
    Reports `# gradlint: ignore[...]`, `# gradlint: ignore`, `# gradlint: ignore-file[...]` and `# noqa: GL...`
    comments that silenced no finding.

    ## Why is this bad?
    The mistake was fixed, or the code moved, and the comment stayed. It now tells readers of a problem that does
    not exist, and it will hide the next real one on that line.

    ## Example
    ```python
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # gradlint: ignore[clip-after-step]
    optimizer.step()
    ```

    ## Use instead
    ```python
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    ```

    ## Fix safety
    The fix takes the comment away, or only the needless code if others in it are still used. It is safe: it changes
    no code. What other tools read (`# type: ignore`, codes of other linters) and remarks behind the comment stay.

    ## Known limits
    Never reported: a bare `# noqa` and codes of other tools (they may serve another linter), and codes of rules
    that are switched off for the file (the comment is needed again once the rule is on).

    ## References
    - [Ruff: unused-noqa](https://docs.astral.sh/ruff/rules/unused-noqa/)
    """

    meta = RuleMeta(
        "GL901",
        Severity.WARNING,
        fix=FixSafety.SAFE,
        unshowable="a comment that silences nothing does not change the training",
    )
    message = "unused suppression: there is no finding of {what} to ignore {where}"
