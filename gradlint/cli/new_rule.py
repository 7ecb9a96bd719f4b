"""`gradlint new-rule`: write a rule that fails its tests, ready to be made right."""

from __future__ import annotations

import re
from pathlib import Path

import click

_CATEGORIES = {
    "1": "CLIPPING",
    "2": "MIXED_PRECISION",
    "3": "ACCUMULATION",
    "4": "LOOP",
    "5": "DISTRIBUTED",
    "6": "NUMERICS",
    "7": "MODEL",
    "9": "META",
}

_RULE = '''"""{code}: say in one line what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlint.model import Category, Severity
from gradlint.rule import Draft, Rule, RuleMeta

if TYPE_CHECKING:
    from gradlint.events import Step
    from gradlint.rule import GradientState


class {class_name}(Rule):
    """Say in one sentence what is wrong.

    ## What it does
    Say what is reported, and when.

    ## Why is this bad?
    Say what happens to the training that runs.

    ## Example
    ```python
    optimizer.step()
    ```

    ## Use instead
    ```python
    optimizer.step()
    ```

    ## Fix safety
    There is no automatic fix.

    ## Known limits
    Say what is not seen, and why it is left alone.

    ## References
    - [torch.optim](https://docs.pytorch.org/docs/stable/optim.html)
    """

    meta = RuleMeta("{code}", Category.{category}, Severity.WARNING)
    message = "`{{step}}` …: say what is wrong, then the consequence"

    def on_step(self, step: Step, state: GradientState) -> Iterator[Draft]:
        yield from ()
'''

_BAD = """# The mistake, as people write it. `expect` names the code on the line where it must be found.
import torch

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in loader:
    optimizer.zero_grad()
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()  # expect: {code}
"""

_GOOD = """# Right code that looks alike; say beside each case why it is right.
import torch

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in loader:
    optimizer.zero_grad()
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()
"""


@click.command("new-rule")
@click.argument("name")
@click.option("--code", required=True, metavar="GLxxx", help="A code that no rule has yet.")
def new_rule(name: str, code: str) -> int:
    """Write a failing rule NAME (such as clip-after-step) and its fixtures into a checkout of gradlint."""
    root = _checkout()
    name, code = _checked(name, code)
    module = name.replace("-", "_")
    class_name = "".join(word.capitalize() for word in name.split("-"))
    files = {
        root / "rules" / f"{module}.py": _RULE.format(code=code, class_name=class_name, category=_CATEGORIES[code[2]]),
        root / "fixtures" / module / "bad.py": _BAD.format(code=code),
        root / "fixtures" / module / "good.py": _GOOD,
    }
    for path in files:
        if path.exists():
            raise click.UsageError(f"{path.relative_to(root)} exists already.")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        click.echo(f"wrote {path.relative_to(root)}")
    click.echo(f"Now make `pytest -k {code}` and `pytest -k {module}` pass, then run `python docs/make_readme.py`.")
    return 0


def _checked(name: str, code: str) -> tuple[str, str]:
    from gradlint.registry import by_code, by_name

    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z][a-z0-9]*)+", name):
        raise click.UsageError(f"`{name}` is no rule name: small words joined by hyphens, such as clip-after-step.")
    code = code.upper()
    if not re.fullmatch(r"GL[1-79]\d\d", code):
        raise click.UsageError(f"`{code}` is no rule code: GL, the family's digit (1 to 7, 9) and two digits.")
    if code in by_code():
        raise click.UsageError(f"{code} is taken by {by_code()[code].rule_name()}; codes are permanent.")
    if name in by_name():
        raise click.UsageError(f"{name} exists already: {by_name()[name].meta.code}.")
    return name, code


def _checkout() -> Path:
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "rules" / "__init__.py").is_file() and (folder / "gradlint" / "registry.py").is_file():
            return folder
    raise click.UsageError("this is no checkout of gradlint (no rules/ beside gradlint/ here or above).")
