"""GL902: a suppression of a rule that does not exist."""

from __future__ import annotations

from gradlint.rule import Rule, RuleMeta, Severity


class UnknownSuppressionCode(Rule):
    """A comment asks gradlint to ignore a rule that does not exist.

    ## What it does
    Reports a code or name in `# gradlint: ignore[...]`, `# gradlint: ignore-file[...]` or `# noqa: GL...` that
    belongs to no rule, and names the nearest one. Reports a comment that begins like ours and is none, such as
    `# gradlint: disable-next-line`, with what to write instead.

    ## Why is this bad?
    The comment silences nothing. The finding it was meant for is still reported, or the author believes that it is
    taken care of.

    ## Example
    ```python
    loss.backward()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # gradlint: ignore[clip-afer-step]
    ```

    ## Use instead
    ```python
    loss.backward()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # gradlint: ignore[clip-after-step]
    ```

    ## Fix safety
    There is no automatic fix: only the author knows which rule was meant.

    ## Known limits
    In a `# noqa` comment only codes of our form, GL and three digits, are looked at; all others belong to other tools.
    A sentence that only speaks of gradlint (`# gradlint: this is meant`) is let be.

    ## References
    - [Ruff: invalid-rule-code](https://docs.astral.sh/ruff/rules/invalid-rule-code/)
    """

    meta = RuleMeta("GL902", Severity.WARNING, unshowable="a comment with an unknown code does not change the training")
    message = "unknown {what} in a suppression{hint}"
