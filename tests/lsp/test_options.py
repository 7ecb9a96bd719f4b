"""What editors send as settings: every spelling, and every mistake told as kindly as in a file."""

from __future__ import annotations

import os

import pytest

from gradlint.config.reading import ConfigError
from gradlint.config.selectors import Preset
from gradlint.lsp.workspace import Options, Run, options_from, speaks_of_us


@pytest.mark.parametrize(
    "raw",
    [
        {"extendSelect": ["GL602"], "run": "onSave"},
        {"extend-select": ["GL602"], "run": "onSave"},
        {"settings": {"extendSelect": ["GL602"], "run": "onSave"}},
        {"gradlint": {"extendSelect": "GL602", "run": "onSave"}},
        {"settings": {"gradlint": {"extend_select": ["GL602"], "run": "onSave"}}},
    ],
)
def test_all_spellings_mean_the_same(raw: object) -> None:
    options, strange = options_from(raw)
    assert (options.layer.extend_select, options.run, strange) == (("GL602",), Run.ON_SAVE, [])


@pytest.mark.parametrize(
    "raw", [None, {}, [], {"settings": {}}, {"settings": []}, {"gradlint": []}, {"select": None, "preset": None}]
)
def test_nothing_said_is_the_default(raw: object) -> None:
    assert options_from(raw) == (Options(), [])


def test_an_empty_list_chooses_nothing_rather_than_no_rule() -> None:
    assert options_from({"select": [], "ignore": []})[0].layer.select is None


@pytest.mark.parametrize(
    ("raw", "ours"),
    [
        ({"gradlint": {}}, True),
        ({"gradlint": None}, True),
        ({"settings": {"select": ["GL1"]}}, True),
        ({"extend-select": []}, True),
        ({"python": {"path": "x"}}, False),
        ({"settings": {"path": "x"}}, False),
        ({}, False),
        (None, False),
        ([1], True),  # to be told as a mistake
    ],
)
def test_settings_of_others_are_not_ours(raw: object, ours: bool) -> None:
    assert speaks_of_us(raw) is ours


def test_all_values() -> None:
    raw = {
        "enable": False,
        "preset": "strict",
        "select": ["GL1"],
        "ignore": ["GL101"],
        "fixable": ["GL1"],
        "unfixable": ["GL102"],
        "unsafeFixes": True,
        "showSyntaxErrors": False,
        "config": "conf/gradlint.toml",
    }
    options, strange = options_from(raw, "/project")
    assert not strange
    assert not options.enable
    assert options.layer.preset is Preset.STRICT
    assert options.layer.select == ("GL1",)
    assert options.layer.fixable == ("GL1",)
    assert options.layer.unfixable == ("GL102",)
    assert options.unsafe_fixes is True
    assert not options.show_syntax_errors
    assert options.configuration == os.path.normpath("/project/conf/gradlint.toml")


def test_keys_of_the_editors_own_extension_are_named_and_harmless() -> None:
    options, strange = options_from({"path": ["gradlint"], "trace": "off"})
    assert (options, sorted(strange)) == (Options(), ["path", "trace"])


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"select": ["GL9999"]}, "gradlint.select: unknown rule `GL9999`"),
        ({"select": 3}, "gradlint.select: must be a list of strings"),
        ({"preset": "strikt"}, "gradlint.preset: unknown preset `strikt`; did you mean `strict`?"),
        ({"run": "onsave"}, "gradlint.run: unknown value `onsave`; did you mean `onSave`?"),
        ({"enable": "yes"}, "gradlint.enable: must be `true` or `false`"),
        ({"configuration": 1}, "gradlint.configuration: must be the path of a file"),
        ({"configuration": "a.toml", "isolated": True}, "cannot be used together"),
        ([1], "the settings must be an object"),
    ],
)
def test_mistakes_are_told_with_the_key(raw: object, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        options_from(raw)
    assert said in str(caught.value)
