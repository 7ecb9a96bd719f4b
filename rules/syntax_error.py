"""GL900: a file that is not Python."""

from __future__ import annotations

from gradlint.rule import Rule, RuleMeta, Severity


class SyntaxError(Rule):  # noqa: A001  # the rule's name follows from the class: syntax-error
    """The file is not valid Python, so no rule could read it.

    ## What it does
    Reports a file that cannot be parsed, with the line where the parser gave up. Of a notebook, each cell that cannot
    be parsed is reported, and the others are linted.

    A course's blanks (`<YOUR CODE HERE>`, `____`, `def f(self, ...)`, nothing but a comment that asks for code) and
    prose in a code cell are no mistakes: they are one piece of advice for a notebook or a file, and none where nothing
    is trained.

    ## Why is this bad?
    A file that does not parse does not run either. gradlint can say nothing about its gradients, and silence
    would look like praise.

    ## Example
    ```python
    for batch in loader
        loss = model(batch).loss
    ```

    ## Use instead
    ```python
    for batch in loader:
        loss = model(batch).loss
    ```

    ## Fix safety
    There is no automatic fix.

    ## Known limits
    Python 2 files, templates and files with merge conflict markers are reported, too: leave them out with `exclude`.
    In runs over more than 500 files, only files that could hold a training loop are parsed; a broken file that
    mentions no gradient is then passed over. Name it on the command line to have it parsed.
    This rule stays on whatever `select` says, unless it is ignored by name or code.

    ## References
    - [The Python language: full grammar](https://docs.python.org/3/reference/grammar.html)
    """

    meta = RuleMeta("GL900", Severity.ERROR, unshowable="a file that Python cannot read does not run")
    message = "not valid Python: {reason}"
