"""`gradlint check`: options, formats and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradlint.model import FileResult, RuleCrash
from gradlint.runner import run as run_module
from gradlint.runner.files import SourceFile
from tests.cli.conftest import Command
from tests.python.test_anchor import REFUSED
from tests.sources import BROKEN, CLEAN, CLIP_AFTER_STEP, NO_GRADIENTS


def test_clean_code_exits_with_zero(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLEAN)
    outcome = gradlint("check")
    assert (outcome.code, outcome.out) == (0, "All checks passed! (1 file checked)\n")


def test_a_finding_exits_with_one_and_shows_the_story(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    outcome = gradlint("check")
    assert outcome.code == 1
    lines = outcome.out.splitlines()
    assert lines[0].startswith("GL101 [*] clip-after-step error: ")
    assert lines[1] == "  --> train.py:10:9"
    step = next(number for number, line in enumerate(lines) if line.endswith("| " + " " * 8 + "optimizer.step()"))
    assert lines[step + 1].strip().startswith("|         ----------------")
    assert "^^^^" in lines[step + 3]
    assert lines[-2:] == ["Found 1 error (1 file checked)", "[*] 1 fixable with the --fix option"]


def test_concise_is_one_line_each(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    first = gradlint("check", "--output-format", "concise").out.splitlines()[0]
    assert first.startswith("train.py:10:9: GL101 ")


def test_json_has_the_shape_of_ruff(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    (finding,) = gradlint("check", "--output-format", "json").json()
    assert finding["filename"] == str(project / "train.py")
    assert (finding["code"], finding["name"], finding["severity"]) == ("GL101", "clip-after-step", "error")
    assert finding["location"] == {"row": 10, "column": 9}
    assert finding["end_location"]["row"] == 10
    assert finding["fix"] is None or finding["fix"]["applicability"] in ("safe", "unsafe")
    assert {related["location"]["row"] for related in finding["related"]} >= {9}


def test_json_tells_what_was_seen_and_what_was_guessed(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    (seen,) = gradlint("check", "--output-format", "json").json()
    assert (seen["severity"], seen["grade"]) == ("error", "seen")
    (project / "train.py").write_text(
        "def train(model, loader, optimizer, loss_fn):\n"
        "    for x, y in loader:\n"
        "        loss_fn(model(x), y).backward()\n"
        "        optimizer.step(loss)\n"
    )
    for _ in range(2):  # the second time from the cache
        (guessed,) = gradlint("check", "--output-format", "json").json()
        assert (guessed["severity"], guessed["grade"]) == ("warning", "guessed")
        assert guessed["message"].startswith("if `optimizer` is an optimizer: ")


def test_json_of_clean_code_is_an_empty_list(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLEAN)
    assert gradlint("check", "--output-format", "json").json() == []


def test_statistics(gradlint: Command, project: Path) -> None:
    (project / "one.py").write_text(CLIP_AFTER_STEP)
    (project / "two.py").write_text(CLIP_AFTER_STEP)
    assert gradlint("check", "--statistics").out.splitlines()[0] == "2  GL101  error  clip-after-step  [*] 2"
    rows = gradlint("check", "--statistics", "--output-format", "json").json()
    assert rows == [
        {
            "code": "GL101", "name": "clip-after-step", "count": 2, "severities": {"error": 2}, "fixable": True,
            "fixable_count": 2,
        }
    ]  # fmt: skip


def test_quiet_prints_findings_only(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLEAN)
    assert gradlint("check", "-q").out == ""


def test_code_that_was_not_followed_is_told(
    gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    said = "`train` is too long to be followed to its end"
    with monkeypatch.context() as short:
        short.setattr("gradlint.paths.explorer.PATH_BUDGET", 60)
        for _ in range(2):  # the second time from the cache
            outcome = gradlint("check", "-v", "--output-format", "json", "-j1")
            assert f"gradlint: train.py: {said}\n" in outcome.err
            assert [row["exhausted"] for row in outcome.json()] == [[said]]
        assert said not in gradlint("check").err
    (found,) = gradlint("check", "--no-cache", "--output-format", "json").json()
    assert "exhausted" not in found


def test_verbose_tells_what_the_run_cost_on_stderr(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLEAN)
    outcome = gradlint("check", "-v", "--output-format", "json")
    assert outcome.json() == []
    assert "1 files: 0 from the cache, 1 parsed" in outcome.err


def test_exit_zero(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    assert gradlint("check", "--exit-zero").code == 0


@pytest.mark.parametrize(("severity", "code"), [("error", 1), ("warning", 0), ("advice", 0)])
def test_fail_on_error_lets_lesser_findings_pass(gradlint: Command, project: Path, severity: str, code: int) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    (project / "gradlint.toml").write_text(f'[severity]\nGL101 = "{severity}"\n')
    assert gradlint("check", "--fail-on", "error").code == code


def test_advice_does_not_fail_unless_asked(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    (project / "gradlint.toml").write_text('[severity]\nclip-after-step = "advice"\n')
    assert gradlint("check").code == 0
    assert gradlint("check", "--fail-on", "advice").code == 1


@pytest.mark.parametrize("selector", ["GL1", "GL101", "clip-after-step", "ALL", "GL4,GL101"])
def test_select(gradlint: Command, project: Path, selector: str) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    assert "GL101" in gradlint("check", "--select", selector, "--output-format", "json").codes()


def test_select_of_other_rules_and_ignore(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    assert gradlint("check", "--select", "GL4").code == 0
    assert gradlint("check", "--ignore", "clip-after-step").code == 0
    assert gradlint("check", "--select", "GL4", "--extend-select", "GL101").code == 1


@pytest.mark.parametrize("option", ["--select", "--ignore", "--extend-select", "--fixable", "--unfixable"])
def test_an_unknown_rule_names_the_nearest(gradlint: Command, option: str) -> None:
    outcome = gradlint("check", option, "clip-afer-step")
    assert outcome.code == 2
    assert outcome.err == f"gradlint: error: {option}: unknown rule `clip-afer-step`; did you mean `clip-after-step`?\n"


def test_a_preset_chooses_the_rules(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP.replace(" 1.0)", " 0.001)"))
    assert gradlint("check", "--output-format", "json").codes() == ["GL101", "GL105"]
    assert gradlint("check", "--preset", "quiet", "--output-format", "json").codes() == ["GL101"]
    with_warning = gradlint("check", "--preset", "quiet", "--extend-select", "GL105", "--output-format", "json")
    assert with_warning.codes() == ["GL101", "GL105"]


def test_the_preset_of_the_command_line_goes_over_the_files(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP.replace(" 1.0)", " 0.001)"))
    (project / "gradlint.toml").write_text('preset = "quiet"\n')
    assert gradlint("check", "--output-format", "json").codes() == ["GL101"]
    assert gradlint("check", "--preset", "default", "--output-format", "json").codes() == ["GL101", "GL105"]
    assert gradlint("check", "--isolated", "--output-format", "json").codes() == ["GL101", "GL105"]
    (project / "gradlint.toml").write_text('select = ["GL105"]\nignore = ["GL101"]\n')
    assert gradlint("check", "--preset", "default", "--output-format", "json").codes() == ["GL105"]


@pytest.mark.parametrize("command", ["check", "rules"])
def test_an_unknown_preset_names_the_nearest(gradlint: Command, command: str) -> None:
    outcome = gradlint(command, "--preset", "quite")
    assert outcome.code == 2
    assert outcome.err == "gradlint: error: --preset: unknown preset `quite`; did you mean `quiet`?\n"


def test_the_rules_of_a_preset_are_listed(gradlint: Command) -> None:
    def listed(*arguments: str) -> set[str]:
        return {line.split()[0] for line in gradlint("rules", *arguments).out.splitlines()}

    assert listed("--preset", "strict") == listed()
    assert "GL108" in listed() - listed("--preset", "default")
    assert "GL105" in listed("--preset", "default") - listed("--preset", "quiet")


def test_a_missing_path_is_a_usage_error(gradlint: Command) -> None:
    outcome = gradlint("check", "nowhere.py")
    assert outcome.code == 2
    assert "nowhere.py: No such file or directory" in outcome.err


def test_no_files_is_a_warning(gradlint: Command) -> None:
    outcome = gradlint("check")
    assert outcome.code == 0
    assert "no Python files" in outcome.err


def test_config_and_isolated_exclude_each_other(gradlint: Command) -> None:
    assert gradlint("check", "--config", "x.toml", "--isolated").code == 2


def test_isolated_ignores_configuration(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    (project / "gradlint.toml").write_text('ignore = ["GL101"]\n')
    assert gradlint("check").code == 0
    assert gradlint("check", "--isolated").code == 1


def test_config_option_overrides_the_nearest(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    (project / "other.toml").write_text('ignore = ["GL101"]\n')
    assert gradlint("check", "--config", "other.toml").code == 0


def test_show_files(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    (project / "notes.txt").write_text("")
    outcome = gradlint("check", "--show-files")
    assert (outcome.code, outcome.out) == (0, f"{project / 'train.py'}\n")


def test_stdin(gradlint: Command) -> None:
    outcome = gradlint("check", "-", stdin=CLIP_AFTER_STEP)
    assert outcome.code == 1
    assert "  --> -:10:9" in outcome.out
    assert "optimizer.step()" in outcome.out


def test_stdin_with_a_name_uses_that_folders_settings(gradlint: Command, project: Path) -> None:
    (project / "legacy").mkdir()
    (project / "gradlint.toml").write_text('[per-file-ignores]\n"legacy/*" = ["GL1"]\n')
    assert gradlint("check", "-", "--stdin-filename", "legacy/train.py", stdin=CLIP_AFTER_STEP).code == 0
    outcome = gradlint("check", "-", "--stdin-filename", "train.py", "--output-format", "json", stdin=CLIP_AFTER_STEP)
    assert outcome.json()[0]["filename"] == str(project / "train.py")


@pytest.mark.parametrize("name", ["missing/train.py", "/missing/of/the/root/train.py"])
def test_stdin_may_have_the_name_of_a_file_in_a_folder_that_is_not_there(
    gradlint: Command, project: Path, name: str
) -> None:
    assert gradlint(
        "check", "-", "--stdin-filename", name, "--output-format", "json", stdin=CLIP_AFTER_STEP
    ).codes() == ["GL101"]


def test_stdin_with_a_syntax_error(gradlint: Command) -> None:
    assert gradlint("check", "-", "--output-format", "json", stdin=BROKEN).codes() == ["GL900"]


def test_stdin_stands_alone(gradlint: Command) -> None:
    assert gradlint("check", "-", "train.py").code == 2


def test_a_syntax_error_is_a_finding_and_the_run_goes_on(gradlint: Command, project: Path) -> None:
    (project / "broken.py").write_text(BROKEN)
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    assert gradlint("check", "--output-format", "json").codes() == ["GL900", "GL101"]


def test_a_crashing_rule_exits_with_three_and_others_are_still_told(
    gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "bad.py").write_text(CLEAN)
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    real = run_module.lint_one

    def crashing(source: bytes, file: SourceFile) -> FileResult:
        if file.shown == "bad.py":
            return FileResult("bad.py", crashes=(RuleCrash("clip-after-step", "ValueError: oops", "Traceback …"),))
        return real(source, file)

    monkeypatch.setattr(run_module, "lint_one", crashing)
    outcome = gradlint("check", "--jobs", "1", "--output-format", "json")
    assert outcome.code == 3
    assert outcome.codes() == ["GL101"]
    assert outcome.err == "gradlint: internal error: rule clip-after-step failed on bad.py: ValueError: oops\n"
    assert "Traceback" in gradlint("check", "-v").err


def test_an_engine_that_raises_is_an_internal_error(
    gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(*_: object) -> FileResult:
        raise RuntimeError("oops")

    (project / "train.py").write_text(CLEAN)
    monkeypatch.setattr("gradlint.engine.lint", raising)
    outcome = gradlint("check")
    assert outcome.code == 3
    assert "rule engine failed on train.py: RuntimeError: oops" in outcome.err
    assert outcome.out == "Not all checks could be made (1 file checked)\n"


@pytest.mark.parametrize("name", REFUSED)
def test_valid_python_that_libcst_refuses_is_told_and_left_as_it_is(
    gradlint: Command, project: Path, name: str
) -> None:
    loop = "optimizer.zero_grad(); loss.backward(); optimizer.step(); torch.nn.utils.clip_grad_norm_(p, 1.0)"
    source = "import torch\n" + REFUSED[name].format(loop)
    (project / "train.py").write_text(source)
    outcome = gradlint("check", "--fix", "-v", "--no-cache", "--output-format", "concise")
    assert outcome.code == 1
    assert "GL101 has no fix here" in outcome.err
    assert outcome.out.endswith("Found 1 error (1 file checked)\n")
    assert (project / "train.py").read_text() == source


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_processes(gradlint: Command, project: Path) -> None:
    for number in range(30):
        (project / f"train_{number:02}.py").write_text(CLIP_AFTER_STEP if number % 3 else NO_GRADIENTS)
    alone = gradlint("check", "--no-cache", "--jobs", "1")
    together = gradlint("check", "--no-cache", "--jobs", "3")
    assert alone.code == together.code == 1
    assert alone.out == together.out


def test_overlapping_paths_are_checked_once(gradlint: Command, project: Path) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    assert gradlint("check", ".", "train.py", str(project), "--output-format", "json").codes() == ["GL101"]


def test_colours_are_for_terminals_and_can_be_forced(
    gradlint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "train.py").write_text(CLIP_AFTER_STEP)
    assert "\x1b[" not in gradlint("check").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in gradlint("check").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in gradlint("check").out


def test_configuration_cannot_steer_the_terminal(gradlint: Command, project: Path) -> None:
    (project / "gradlint.toml").write_text('"se\\u001b[2J\\u202elect" = 1\n')
    outcome = gradlint("check")
    assert outcome.code == 2
    assert r"se\x1b[2J\u202elect" in outcome.err
    assert not set("\x1b\u202e") & set(outcome.err)


def test_messages_hold_no_line_break_and_no_escape(gradlint: Command, project: Path) -> None:
    """Whatever stands in the strings of the source that they quote."""
    (project / "odd.py").write_text(
        "import torch\n\ndef train(model, loader, opt):\n    for x in loader:\n        opt.zero_grad()\n"
        '        p = torch.softmax(model(x), -1)\n        loss = -torch.log(p["""a\nb\x1b[31m\u202e"""]).mean()\n'
        "        loss.backward()\n        opt.step()\n",
        encoding="utf-8",
    )
    rows = gradlint("check", "--preset", "strict", "--output-format", "json").json()
    quoting = [row for row in rows if "\\x1b[31m" in row["message"]]
    assert quoting
    said = [row["message"] for row in rows] + [related["message"] for row in rows for related in row["related"]]
    said += [row["fix"]["message"] for row in rows if row["fix"]]
    assert not [text for text in said if any(sign in text for sign in "\n\r\x1b\u202e")]
