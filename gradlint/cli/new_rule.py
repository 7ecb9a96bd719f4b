"""`gradlint new-rule`: write a rule that fails its tests, ready to be made right."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click

from gradlint import events, rule
from gradlint.config.reading import unknown
from gradlint.registry import by_code, by_name
from gradlint.rule import HOOKS

_RULE = '''"""{code} {name}."""

from __future__ import annotations

from collections.abc import Iterator

{imports}


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

    meta = RuleMeta("{code}", Severity.WARNING, unshowable="say why, or measure it")
    message = "`{{{subject}}}` …: say what is wrong, then the consequence"
{declares}
    def {hook}(self{parameters}) -> Iterator[Draft]:
        # repair = Repair("Say what it does", lambda bench: bench.delete({subject}))
        # yield self.finding({subject}, {subject}={words}, repairs=[repair])
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

#: what hooks that are about the text have to declare
_DECLARES = {
    "on_call": '    calls = ("torch.say.which",)\n',
    "on_operation": "    operations = frozenset({Kind.LOG})\n",
    "on_file": '    words = ("step",)\n',
}
#: what of them is said in the message, and imported for it
_WORDS = {"on_call": "call.short", "on_operation": "operation.shown()", "on_setting": "setting", "on_stack": "stack"}


@click.command("new-rule")
@click.argument("name")
@click.option("--code", required=True, metavar="GLxxx", help="A code that no rule has yet.")
@click.option(
    "--hook", default="step", show_default=True, metavar="HOOK", help="What it looks at: step, clip, call, operation, …"
)
def new_rule(name: str, code: str, hook: str) -> int:
    """Write a failing rule NAME (such as clip-after-step) and its fixtures into a checkout of gradlint."""
    root = _checkout()
    name, code = _checked(name, code)
    module = name.replace("-", "_")
    class_name = "".join(word.capitalize() for word in name.split("-"))
    files = {
        root / "rules" / f"{module}.py": _rule(name, code, class_name, _hook(hook)),
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
    click.echo(f'Edit these, then: pytest --update-expected -k "{code} or {module}"')
    click.echo("Once you like what it says: python -m docs, and pytest.")
    return 0


def _hook(word: str) -> str:
    known = [hook.removeprefix("on_") for hook in HOOKS]
    if word.removeprefix("on_") not in known:
        raise click.UsageError(str(unknown("hook", word, known)))
    return f"on_{word.removeprefix('on_')}"


def _rule(name: str, code: str, class_name: str, hook: str) -> str:
    """The text of a rule that says nothing yet."""
    given = [p for p in inspect.signature(getattr(rule.Rule, hook)).parameters.values() if p.name != "self"]
    types = [str(p.annotation) for p in given]
    subject = given[0].name if given else "file"
    words = _WORDS.get(hook, f"short({subject})")
    needed = {"Draft", "Rule", "RuleMeta", "Severity", *(x for x in types if x in rule.__all__)}
    needed |= {"Kind"} if hook == "on_operation" else set()
    imports = f"from gradlint.rule import {', '.join(sorted(needed))}"
    own = [x for x in types if x not in rule.__all__ and hasattr(events, x)]
    if own:
        imports = f"from gradlint.events import {', '.join(own)}\n{imports}"
    parameters = "".join(f", {p.name}: {p.annotation}" for p in given)
    return _RULE.format(
        name=name, code=code, class_name=class_name, imports=imports, hook=hook,
        parameters=parameters, subject=subject, words=words, declares=_DECLARES.get(hook, ""),
    )  # fmt: skip


def _checked(name: str, code: str) -> tuple[str, str]:
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
