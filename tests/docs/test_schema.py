"""The JSON schema of a configuration accepts what gradlint accepts, and refuses what it refuses."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore] # its stubs are a package of their own
import pytest

from docs.reference import REFERENCE, reference
from docs.schema import SCHEMA, schema
from gradlint import __version__
from gradlint.cli import gradlint
from gradlint.config.reading import ConfigError, parse_toml
from gradlint.config.schema import KEYS, settings_from
from gradlint.registry import all_rules


@pytest.fixture(scope="module")
def validator() -> Any:
    kind = jsonschema.validators.validator_for(json.loads(schema()))
    kind.check_schema(json.loads(schema()))
    return kind(json.loads(schema()))


def _accepted(text: str) -> bool:
    table = parse_toml(text.encode(), "gradlint.toml")
    try:
        settings_from(table, "gradlint.toml")
    except ConfigError:
        return False
    return True


GOOD = [
    "",
    'select = ["ALL", "GL1", "GL10", "GL101", "clip-after-step"]\nignore = []',
    'preset = "strict"\nfail-on = "advice"\noutput-format = "sarif"',
    'exclude = ["legacy", "a/*.py"]\nextend-exclude = []\nsrc = ["lib"]',
    f'required-version = "{__version__}"',
    'required-version = ">=0.0.1,<99"',
    '[per-file-ignores]\n"tests/*" = ["GL4"]\n"!src/*" = []',
    '[severity]\nGL2 = "error"\nvalue-clipping = "advice"',
    "[rules.GL105]\nthreshold = 0\n[rules.deep-saturating-stack]\nlayers = 6",
    'target-torch = "2.4"\nfix = true\nproject = false\ncache-dir = "x"\nbaseline = "b.json"',
]
BAD = [
    "selct = []",
    'select = "GL1"',
    'select = ["GL999"]',
    'ignore = ["clip-afer-step"]',
    "fix = 1",
    'fail-on = "never"',
    'preset = "loud"',
    'output-format = "xml"',
    'output-format = ["json"]',
    'exclude = ["!x.py"]',
    "exclude = [1]",
    "target-torch = 2.4",
    'target-torch = "new"',
    "required-version = 1",
    'required-version = "new"',
    'baseline = ""',
    "[lint]\nselect = []",
    '[per-file-ignores]\n"a.py" = "GL1"',
    '[severity]\nGL2 = "fatal"',
    '[severity]\nGL999 = "error"',
    "[rules.GL105]\nthreshold = -1",
    "[rules.GL105]\nlimit = 1",
    "[rules.GL101]\nthreshold = 1",
    "[rules.deep-saturating-stack]\nlayers = 1.5",
]


@pytest.mark.parametrize("text", GOOD)
def test_good(validator: Any, text: str) -> None:
    assert _accepted(text)
    validator.validate(parse_toml(text.encode(), ""))


@pytest.mark.parametrize("text", BAD)
def test_bad(validator: Any, text: str) -> None:
    assert not _accepted(text)
    assert not validator.is_valid(parse_toml(text.encode(), ""))


@pytest.mark.parametrize("key", KEYS)
def test_the_examples_of_the_keys(validator: Any, key: str) -> None:
    text = f"{key} = {KEYS[key].example}"
    validator.validate(parse_toml(text.encode(), ""))
    if key != "required-version":  # it is one of a version that is not this one
        assert _accepted(text)


def test_all_rules_with_options_are_in_it() -> None:
    known = json.loads(schema())["properties"]["rules"]["properties"]
    assert set(known) == {name for r in all_rules() if r.options for name in (r.meta.code, r.rule_name())}


def test_both_are_up_to_date() -> None:
    hint = "run: python -m docs"
    assert SCHEMA.read_text(encoding="utf-8") == schema(), hint
    assert REFERENCE.read_text(encoding="utf-8") == reference(), hint


def test_the_reference_names_every_command_and_option() -> None:
    page = reference()
    for name in gradlint.list_commands(None):  # type: ignore[arg-type] # it is not asked
        command = gradlint.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        assert f"## `gradlint {name} " in page
        flags = [flag for parameter in command.params for flag in parameter.opts if flag.startswith("-")]
        assert [flag for flag in flags if flag not in page] == []
