"""Configuration: what is read, which choice wins, and how mistakes are told."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from gradlint import __version__
from gradlint.config import ConfigError, Layer, Settings
from gradlint.config.load import ConfigTree, Overrides, read_config, torch_floor
from gradlint.config.selectors import Preset, known_codes
from gradlint.config.settings import FixChoice
from gradlint.model import Severity
from gradlint.registry import all_rules, default_codes


def _read(folder: Path, text: str, name: str = "gradlint.toml") -> Settings:
    (folder / name).write_text(text)
    settings = read_config(str(folder / name))
    assert settings is not None
    return settings


def test_defaults_are_the_rules_that_are_on() -> None:
    assert Settings().enabled_for("train.py") == default_codes()
    assert "GL108" not in default_codes()


def test_all_keys_are_read(tmp_path: Path) -> None:
    settings = _read(
        tmp_path,
        """
        select = ["GL1", "missing-zero-grad"]
        extend-select = ["GL2"]
        ignore = ["value-clipping"]
        exclude = ["legacy"]
        extend-exclude = ["old"]
        target-torch = "2.1"
        per-file-ignores = { "tests/*" = ["GL4"] }
        fix = true
        unsafe-fixes = false
        fix-only = true
        fixable = ["GL1", "missing-zero-grad"]
        unfixable = ["GL104"]
        [severity]
        GL1 = "warning"
        GL101 = "advice"
        [rules.clip-threshold-too-small]
        threshold = 1
        """,
    )
    enabled = settings.enabled_for(str(tmp_path / "train.py"))
    assert {"GL101", "GL201", "GL401", "GL900"} <= enabled
    assert not {"GL104", "GL901"} & enabled
    assert "GL401" not in settings.enabled_for(str(tmp_path / "tests" / "train.py"))
    assert settings.severity_of("GL101") is Severity.ADVICE
    assert settings.severity_of("GL105") is Severity.WARNING
    assert settings.severity_of("GL401") is None
    assert settings.options_for("GL105") == {"threshold": 1.0}
    assert settings.options_for("GL101") == {}
    assert settings.target_torch == (2, 1)
    assert settings.exclude == ("legacy",)
    assert settings.fixing == FixChoice(fix=True, unsafe_fixes=False, fix_only=True, show_fixes=None)
    assert [settings.fixable(code) for code in ("GL101", "GL104", "GL401", "GL201")] == [True, False, True, False]


def test_settings_travel_between_processes() -> None:
    settings = Settings(layers=(Layer(("GL1",)),), target_torch=(2, 1))
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert pickle.loads(pickle.dumps(settings)).fingerprint() == settings.fingerprint()


def test_the_fingerprint_changes_with_what_changes_results() -> None:
    different = [
        Settings(),
        Settings(layers=(Layer(("GL1",)),)),
        Settings(layers=(Layer(ignore=("GL1",)),)),
        Settings(severities=(("GL1", Severity.ADVICE),)),
        Settings(options=(("GL105", (("threshold", 0.1),)),)),
        Settings(target_torch=(2, 1)),
        Settings(per_file_ignores=(("a.py", ("GL1",)),)),
        Settings(layers=(Layer(fixable=("GL1",)),)),
        Settings(layers=(Layer(unfixable=("GL1",)),)),
        Settings(layers=(Layer(preset=Preset.STRICT),)),
        Settings(layers=(Layer(preset=Preset.QUIET),)),
    ]
    assert len({settings.fingerprint() for settings in different}) == len(different)


def test_whether_a_run_fixes_does_not_change_what_is_found() -> None:
    assert Settings(fixing=FixChoice(fix=True, unsafe_fixes=True)).fingerprint() == Settings().fingerprint()


@pytest.mark.parametrize(
    ("layers", "present", "absent"),
    [
        ([], {"GL101", "GL108", "GL901"}, set()),
        ([Layer(("GL1",))], {"GL101", "GL201"}, set()),
        ([Layer(fixable=("GL1",))], {"GL101"}, {"GL201"}),
        ([Layer(fixable=())], set(), {"GL101"}),
        ([Layer(unfixable=("GL1",))], {"GL201"}, {"GL101"}),
        ([Layer(fixable=("GL101",), unfixable=("GL1",))], {"GL101"}, {"GL102"}),
        ([Layer(fixable=("GL1",), unfixable=("clip-after-step",))], {"GL102"}, {"GL101"}),
        ([Layer(fixable=("GL101",), unfixable=("GL101",))], set(), {"GL101"}),
        ([Layer(fixable=("GL1",)), Layer(fixable=("GL2",))], {"GL201"}, {"GL101"}),
        ([Layer(unfixable=("GL1",)), Layer(unfixable=("GL2",))], {"GL301"}, {"GL101", "GL201"}),
        ([Layer(unfixable=("GL1",)), Layer(fixable=("ALL",))], {"GL101"}, set()),
    ],
)
def test_which_rules_may_be_fixed(layers: list[Layer], present: set[str], absent: set[str]) -> None:
    settings = Settings(layers=tuple(layers))
    assert {code for code in present | absent if settings.fixable(code)} == present


def test_choices_about_fixing_lie_over_each_other() -> None:
    said, configured = FixChoice(fix=False, show_fixes=True), FixChoice(fix=True, unsafe_fixes=True)
    assert said.over(configured) == FixChoice(fix=False, unsafe_fixes=True, fix_only=None, show_fixes=True)


@pytest.mark.parametrize(
    ("layers", "present", "absent"),
    [
        ([Layer(("ALL",))], {"GL101", "GL108"}, set()),
        ([Layer(("ALL",), ignore=("GL1",))], {"GL201"}, {"GL101"}),
        ([Layer(("ALL",), extend_select=("GL101",), ignore=("GL1",))], {"GL101"}, {"GL105"}),
        ([Layer(("GL1",), ignore=("ALL",))], {"GL101"}, {"GL201"}),
        ([Layer(("GL101",), ignore=("clip-after-step",))], set(), {"GL101"}),
        ([Layer(extend_select=("GL108",))], {"GL108", "GL101"}, set()),
        ([Layer(ignore=("GL900",))], {"GL101"}, {"GL900"}),
        ([Layer(("GL1",))], {"GL101", "GL108", "GL900"}, {"GL901", "GL201"}),
        ([Layer(("GL1",), ignore=("GL101",)), Layer(("GL101",))], {"GL101"}, {"GL105"}),
        ([Layer(("GL1",)), Layer(ignore=("GL101",))], {"GL105"}, {"GL101"}),
        ([Layer(ignore=("GL101",)), Layer(extend_select=("GL101",))], {"GL101"}, set()),
    ],
)
def test_the_narrower_choice_wins(layers: list[Layer], present: set[str], absent: set[str]) -> None:
    enabled = Settings(layers=tuple(layers)).enabled_for("train.py")
    assert present <= enabled
    assert not absent & enabled
    assert enabled <= known_codes()


def _with(*layers: Layer, severities: tuple[tuple[str, Severity], ...] = ()) -> frozenset[str]:
    return Settings(layers=layers, severities=severities).enabled_for("train.py")


def test_presets_are_sets_of_rules() -> None:
    errors = {rule.meta.code for rule in all_rules() if rule.meta.severity is Severity.ERROR}
    assert _with(Layer(preset=Preset.STRICT)) == known_codes()
    assert _with(Layer(preset=Preset.DEFAULT)) == _with() == default_codes()
    assert _with(Layer(preset=Preset.QUIET)) == default_codes() & errors
    assert {"GL101", "GL900"} <= _with(Layer(preset=Preset.QUIET))


@pytest.mark.parametrize(
    ("layers", "present", "absent"),
    [
        # one layer: its own choices lie on top of its preset
        ([Layer(preset=Preset.STRICT, ignore=("GL108",))], {"GL101", "GL107"}, {"GL108"}),
        ([Layer(preset=Preset.QUIET, extend_select=("GL105",))], {"GL101", "GL105"}, {"GL104"}),
        ([Layer(preset=Preset.QUIET, extend_select=("ALL",))], {"GL101", "GL105", "GL108"}, set()),
        ([Layer(("GL1",), preset=Preset.QUIET)], {"GL101", "GL105", "GL900"}, {"GL401"}),
        # the command line's preset takes the place of the file's preset and `select`; the rest of the file holds
        ([Layer(preset=Preset.QUIET), Layer(preset=Preset.STRICT)], {"GL105", "GL108"}, set()),
        ([Layer(preset=Preset.STRICT), Layer(preset=Preset.QUIET)], {"GL101"}, {"GL105", "GL108"}),
        ([Layer(("GL2",)), Layer(preset=Preset.STRICT)], {"GL101", "GL108", "GL201"}, set()),
        ([Layer(("ALL",)), Layer(preset=Preset.QUIET)], {"GL101"}, {"GL105", "GL108"}),
        ([Layer(ignore=("GL101",)), Layer(preset=Preset.STRICT)], {"GL108"}, {"GL101"}),
        ([Layer(extend_select=("GL108",)), Layer(preset=Preset.QUIET)], {"GL101", "GL108"}, {"GL105"}),
        # the other way round: the command line's choices lie on top of the file's preset
        ([Layer(preset=Preset.STRICT), Layer(("GL2",))], {"GL201"}, {"GL101", "GL108"}),
        ([Layer(preset=Preset.STRICT), Layer(ignore=("GL1",))], {"GL201", "GL307"}, {"GL101", "GL108"}),
        ([Layer(preset=Preset.QUIET), Layer(extend_select=("GL105",))], {"GL101", "GL105"}, {"GL104"}),
        ([Layer(preset=Preset.STRICT), Layer(("GL2",), preset=Preset.QUIET)], {"GL201", "GL210"}, {"GL101"}),
    ],
)
def test_choices_lie_on_top_of_the_preset(layers: list[Layer], present: set[str], absent: set[str]) -> None:
    assert {code for code in present | absent if code in _with(*layers)} == present


def test_quiet_goes_by_the_configured_severity() -> None:
    configured = (("GL105", Severity.ERROR), ("GL101", Severity.WARNING), ("GL108", Severity.ERROR))
    quiet = _with(Layer(preset=Preset.QUIET), severities=configured)
    assert "GL105" in quiet
    assert not {"GL101", "GL108"} & quiet  # GL108 is off by default: its severity does not switch it on


def test_a_preset_in_the_file_is_read(tmp_path: Path) -> None:
    settings = _read(tmp_path, '[tool.gradlint]\npreset = "strict"\nignore = ["GL108"]\n', "pyproject.toml")
    assert settings.enabled_for("train.py") == known_codes() - {"GL108"}


def test_each_configuration_has_its_own_preset(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "gradlint.toml").write_text('preset = "strict"\n')
    (inner / "gradlint.toml").write_text('ignore = ["GL101"]\n')
    assert ConfigTree().at(str(tmp_path)).enabled_for("x.py") == known_codes()
    assert ConfigTree().at(str(inner)).enabled_for("x.py") == default_codes() - {"GL101"}
    quiet = ConfigTree(Overrides(Layer(preset=Preset.QUIET)))
    assert "GL108" not in quiet.at(str(tmp_path)).enabled_for("x.py")
    assert not {"GL101", "GL105"} & quiet.at(str(inner)).enabled_for("x.py")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("selct = []", "selct: unknown key `selct`; did you mean `select`?"),
        ('select = "GL1"', "select: must be a list of strings, such as `[\"GL1\"]`, not a string ('GL1')"),
        ("select = [1]", "select: must be a list of strings, not an integer (1)"),
        ('ignore = ["clip-aftr-step"]', "ignore: unknown rule `clip-aftr-step`; did you mean `clip-after-step`?"),
        ("per-file-ignores = 1", "per-file-ignores: must be a table"),
        ('per-file-ignores = { "a.py" = ["GLX"] }', 'per-file-ignores."a.py": unknown rule `GLX`'),
        ('severity = { GL101 = "eror" }', "severity.GL101: unknown severity `eror`; did you mean `error`?"),
        ("severity = { GL101 = 1 }", "severity.GL101: must be a string"),
        ('severity = { nonsense = "error" }', "severity: unknown rule `nonsense`"),
        ("target-torch = 2.4", 'target-torch: must be a version as a string, such as "2.4", not a number (2.4)'),
        ('target-torch = "new"', "target-torch: must be a version"),
        ("rules = { GL1 = { threshold = 1 } }", "rules: unknown rule `GL1`"),
        (
            "rules = { GL105 = { treshold = 1 } }",
            "rules.GL105: unknown option `treshold`; did you mean `threshold`?",
        ),
        ("rules = { GL101 = { x = 1 } }", "rules.GL101: unknown option `x`; clip-after-step has no options"),
        ('rules = { GL105 = { threshold = "low" } }', "rules.GL105.threshold: must be a number, not a string ('low')"),
        ("rules = { GL105 = { threshold = true } }", "rules.GL105.threshold: must be a number, not a boolean"),
        ("rules = { GL105 = 1 }", "rules.GL105: must be a table of options"),
        ("fix = 1", "fix: must be `true` or `false`, not an integer (1)"),
        ('unsafe-fixes = "yes"', "unsafe-fixes: must be `true` or `false`, not a string ('yes')"),
        ("fix-only = []", "fix-only: must be `true` or `false`, not a list"),
        ("show-fixes = 0.5", "show-fixes: must be `true` or `false`"),
        ("unsafe_fixes = true", "unsafe_fixes: unknown key `unsafe_fixes`; did you mean `unsafe-fixes`?"),
        ("fixabel = []", "fixabel: unknown key `fixabel`; did you mean `fixable`?"),
        ('fixable = "ALL"', "fixable: must be a list of strings"),
        ('unfixable = ["clip-aftr-step"]', "unfixable: unknown rule `clip-aftr-step`; did you mean `clip-after-step`?"),
        ("qqqq = 1", "qqqq: unknown key `qqqq`; valid: `baseline`, `cache-dir`, `exclude`, `extend`"),
        ('preset = "strcit"', "preset: unknown preset `strcit`; did you mean `strict`?"),
        ('preset = "zzz"', "preset: unknown preset `zzz`; valid: `default`, `quiet`, `strict`"),
        ('preset = ["strict"]', "preset: must be a string, not a list"),
        ("select = [", "not valid TOML"),
    ],
)
def test_mistakes_name_file_key_and_nearest_value(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'gradlint.toml'}: ")
    assert told in str(caught.value)


def test_pyproject_names_the_whole_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pyproject\.toml: tool\.gradlint\.selct: unknown key"):
        _read(tmp_path, "[tool.gradlint]\nselct = []\n", "pyproject.toml")


def test_a_pyproject_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("this is [not TOML")
    assert read_config(str(tmp_path / "pyproject.toml")) is None


def test_the_nearest_configuration_counts(tmp_path: Path) -> None:
    inner = tmp_path / "pkg" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.gradlint]\nignore = ["GL101"]\n')
    (tmp_path / "pkg" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    tree = ConfigTree()
    assert tree.at(str(inner)).source == str(tmp_path / "pyproject.toml")
    (inner / "gradlint.toml").write_text('ignore = ["GL105"]\n')
    (inner / "pyproject.toml").write_text('[tool.gradlint]\nignore = ["GL104"]\n')
    settings = ConfigTree().at(str(inner))
    assert "GL101" in settings.enabled_for("x.py")
    assert "GL105" not in settings.enabled_for("x.py")


def test_the_command_line_goes_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "gradlint.toml").write_text('ignore = ["GL101"]\n')
    tree = ConfigTree(Overrides(Layer(("GL101",))))
    assert "GL101" in tree.at(str(tmp_path)).enabled_for("x.py")


@pytest.mark.parametrize(
    ("text", "floor"),
    [
        ("torch>=1.13,<3", (1, 13)),
        ("torch==2.1.0", (2, 1)),
        ('"torch ~= 2.0.1"', (2, 0)),
        ("torch[opt-einsum]>=2.2", (2, 2)),
        ("torch (>=1.9)", (1, 9)),
        ("torch>=2", (2, 0)),
        ("torch", None),
        ("torch<2.4", None),
        ("pytorch>=1.1", None),
        ("torchvision>=0.9", None),
        ("torch-geometric>=1.7", None),
        ("my-torch>=1.7", None),
        ("torch<3,>=2.3", (2, 3)),
        ("torch>=2.1; python_version < '3.9'\ntorch>=1.8", (1, 8)),
    ],
)
def test_torch_floor(text: str, floor: tuple[int, int] | None) -> None:
    assert torch_floor(text) == floor


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[project]\ndependencies = ["numpy", "torch>=2.0"]\n'),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.10"\ntorch = "^2.0"\n'),
        ("requirements.txt", "numpy\n# torch>=1.0 was too old\ntorch>=2.0  # for compile\n"),
        ("setup.cfg", "[options]\ninstall_requires =\n    torch>=2.0\n"),
        ("setup.py", 'setup(install_requires=["torch>=2.0,<3"])\n'),
        ("requirements.txt", "numpy\ntorchaudio==2.0.2+cu118\n"),
        ("requirements.txt", "torch\ntorchvision>=0.15,<1\n"),
        ("requirements.txt", "torchvision>=0.11\ntorchaudio==2.0.1\n"),
        ("requirements.txt", "torchtext~=0.15.1\n"),
        ("pyproject.toml", '[project]\ndependencies = ["torch>=2.0", "torchvision==0.20"]\n'),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorchvision = "^0.15"\n'),
    ],
)
def test_target_torch_is_read_from_dependencies(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    inner = tmp_path / "src"
    inner.mkdir()
    assert ConfigTree().at(str(inner)).target_torch == (2, 0)
    (tmp_path / "gradlint.toml").write_text('target-torch = "2.4"\n')
    assert ConfigTree().at(str(inner)).target_torch == (2, 4)


@pytest.mark.parametrize(
    ("pin", "floor"),
    [("torchvision==0.9.1", (1, 8)), ("torchaudio==0.13.1", (1, 13)), ("torchvision==0.14.*", (1, 13)),
     ("torchaudio==2.2.2", (2, 2)), ("torchvision<0.15", None), ("torchvision", None)],
)  # fmt: skip
def test_what_belongs_to_one_torch_is_a_floor(tmp_path: Path, pin: str, floor: tuple[int, int] | None) -> None:
    (tmp_path / "requirements.txt").write_text(f"{pin}\n")
    assert ConfigTree().at(str(tmp_path)).target_torch == floor


def test_torch_itself_is_asked_before_its_companions(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["torchvision>=0.15"]\n')
    (tmp_path / "requirements.txt").write_text("torch==2.6.0\n")
    assert ConfigTree().at(str(tmp_path)).target_torch == (2, 6)


def test_another_repository_does_not_inherit_dependencies(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=1.5\n")
    (tmp_path / "vendored" / ".git").mkdir(parents=True)
    assert ConfigTree().at(str(tmp_path)).target_torch == (1, 5)
    assert ConfigTree().at(str(tmp_path / "vendored")).target_torch is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["torch" + " " * 20_000, "torch" + " " * 20_000 + "(", "torch>=" + "1" * 20_000, "torch[" * 20_000,
     "torch>=1x," * 20_000, "torch\n" + "\n" * 200_000],
)  # fmt: skip
@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
def test_dependencies_take_no_longer_than_they_are_long(tmp_path: Path, name: str, text: str) -> None:
    """One that takes its length squared, or cubed, does not come to an end."""
    (tmp_path / name).write_text(f"[tool.poetry]\n{text}\n")
    assert ConfigTree().at(str(tmp_path)).target_torch is None


@pytest.mark.parametrize(
    ("line", "floor"),
    [("torch==2.1.0 --hash=sha256:00", (2, 1)), ("torch==2.1.0 \\", (2, 1)), ("torch>=2.0,!=2.1,>2.2", (2, 2)),
     ("torch===2.3", (2, 3)), ("torch>=2.x", None), ("torch @ https://example.org/torch-2.0.whl", None)],
)  # fmt: skip
def test_requirements_as_pip_reads_them(line: str, floor: tuple[int, int] | None) -> None:
    assert torch_floor(line) == floor


@pytest.mark.parametrize("name", ["gradlint.toml", "pyproject.toml", "requirements.txt", "setup.py"])
def test_what_is_far_too_large_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("#" * 1_000_001)
    with pytest.raises(ConfigError, match="larger than 1,000,000 bytes"):
        ConfigTree().at(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = " + "[" * 100_000, "not valid TOML"),
        ("x = " + "{a=" * 100_000, "not valid TOML"),
        ("x = " + "9" * 5_000, ": "),
        (".".join("a" * 20_000) + " = 1", "a key of more than 50 parts"),
        ("[" + ".".join("a" * 20_000) + "]", "a key of more than 50 parts"),
        (f'exclude = ["{"*a" * 50_001}"]', "exclude: patterns of more than 100,000 characters in all"),
        (f'per-file-ignores = {{ "{"*a" * 50_001}" = [] }}', "per-file-ignores: patterns of more than 100,000"),
    ],
)
def test_configuration_that_would_take_long_is_a_mistake(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'gradlint.toml'}: ")
    assert told in str(caught.value)


def test_many_dots_in_strings_are_no_key(tmp_path: Path) -> None:
    pins = ", ".join(f'"one==1.2.{number}; python_version < \\"3.9\\""' for number in range(50))
    read = _read(tmp_path, f"[project]\ndependencies = [{pins}]\n[tool.gradlint]\n", "pyproject.toml")
    assert read.source == str(tmp_path / "pyproject.toml")


def test_a_configuration_extends_another(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(
        'select = ["GL1", "GL4"]\nexclude = ["old/*", "legacy"]\nbaseline = "known.json"\nfail-on = "error"\n'
        'extend-exclude = ["a"]\n[severity]\nGL101 = "advice"\nGL102 = "advice"\n'
    )
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text(
        '[tool.gradlint]\nextend = "../base.toml"\nignore = ["GL105"]\nextend-exclude = ["b"]\nfix = true\n'
        'severity = { GL101 = "warning" }\n'
    )
    settings = ConfigTree().at(str(inner))
    on = settings.enabled_for("x.py")
    assert {"GL101", "GL401"} <= on
    assert on.isdisjoint({"GL105", "GL201"})
    assert settings.severity_of("GL101") is Severity.WARNING
    assert settings.severity_of("GL102") is Severity.ADVICE
    assert settings.exclude == (f"{tmp_path}/old/*", "legacy")  # from the folder of the file that says it
    assert settings.extend_exclude == ("a", "b")
    assert settings.baseline == str(tmp_path / "known.json")
    assert (settings.run.fail_on, settings.fixing.fix) == ("error", True)
    assert (settings.root, settings.source) == (str(inner), str(inner / "pyproject.toml"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('extend = "nowhere.toml"', "extend: nowhere.toml: there is no such file"),
        ("extend = 1", "extend: must be the name of a file, not 1"),
        ('extend = "gradlint.toml"', "extend: gradlint.toml extends this file, or itself"),
        ('extend = "back.toml"', "extend: gradlint.toml extends this file, or itself"),
        ('extend = "pyproject.toml"', "extend: pyproject.toml has no table `[tool.gradlint]`"),
        ('required-version = ">=99"', f"required-version: >=99 is wanted, and this is {__version__}"),
        ('required-version = "new"', "required-version: must be versions, such as "),
        ('[lint]\nselect = ["GL1"]', "unknown key `lint`; there is no table of that name: its keys stand directly in"),
        ('[tool.gradlint]\nselect = ["GL1"]', "unknown key `tool`; in this file the keys stand without"),
        ("extend-ignore = []", "unknown key `extend-ignore`; `ignore` adds to what is ignored already"),
        ('target-version = "py310"', "`target-torch` is the oldest torch you support"),
        ("line-length = 100", "gradlint does not look at the length of lines"),
        ("output_format = 1", "unknown key `output_format`; did you mean `output-format`?"),
        ("rules = { GL105 = { threshold = -0.1 } }", "rules.GL105.threshold: must be a number that is not negative"),
        ("rules = { GL105 = { threshold = nan } }", "rules.GL105.threshold: must be a number that is not negative"),
        ("rules = { GL701 = { layers = -1 } }", "rules.GL701.layers: must be a number that is not negative"),
    ],
)
def test_mistakes_in_what_is_new(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "back.toml").write_text('extend = "gradlint.toml"\n')
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(ConfigError) as caught:
        _read(tmp_path, text)
    assert told in str(caught.value)


@pytest.mark.parametrize("table", ["tool.torch-gradlint", "tool.torch_gradlint", "gradlint", "torch-gradlint"])
def test_a_table_that_can_only_be_meant_for_us(tmp_path: Path, table: str) -> None:
    with pytest.raises(ConfigError, match=r"is not read; the table is called `\[tool.gradlint\]`"):
        _read(tmp_path, f'[{table}]\nselect = ["GL1"]\n', "pyproject.toml")
