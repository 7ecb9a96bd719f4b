"""The GitHub action, run as the runner runs it, and every example of docs/ci.md and of the README."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from gradlint.cli import gradlint as command_line
from tests.patience import PATIENCE
from tests.released import wheel
from tests.sources import CLEAN, CLIP_AFTER_STEP, strings_in

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "action.yml"
PAGE = ROOT / "docs" / "ci.md"
README = ROOT / "README.md"

bash = pytest.mark.skipif(shutil.which("bash") is None or os.name != "posix", reason="bash is not installed")


def _action() -> Any:
    return yaml.safe_load(ACTION.read_text(encoding="utf-8"))


def _blocks(language: str) -> list[str]:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (PAGE, README))
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def _valid(schema: str, file: Path) -> None:
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_action_keeps_to_the_schema() -> None:
    _valid("vendor.github-actions", ACTION)


def test_no_script_of_the_action_holds_an_expression() -> None:
    """What a pull request names, a branch for one, would become part of the script."""
    for step in _action()["runs"]["steps"]:
        assert "${{" not in step["run"], step["name"]


def test_every_input_is_used_and_told_in_the_documentation() -> None:
    used = set(re.findall(r"inputs\.([a-z-]+)", ACTION.read_text(encoding="utf-8")))
    assert used == set(_action()["inputs"])
    table = PAGE.read_text(encoding="utf-8")
    for name in used:
        assert f"`{name}`" in table


@pytest.mark.slow
def test_the_workflows_keep_to_the_schemas(tmp_path: Path) -> None:
    kinds = []
    for block in _blocks("yaml"):
        parsed = yaml.safe_load(block)
        (tmp_path / "block.yml").write_text(block, encoding="utf-8")
        kind = "hooks" if "repos" in parsed else "github" if "jobs" in parsed else "gitlab"
        kinds.append(kind)
        if kind != "hooks":
            _valid("vendor.github-workflows" if kind == "github" else "vendor.gitlab-ci", tmp_path / "block.yml")
    assert sorted(kinds) == ["github"] * 5 + ["gitlab"] + ["hooks"] * 3


def test_the_workflows_give_inputs_that_the_action_has() -> None:
    known = set(_action()["inputs"])
    given = [
        step.get("with", {})
        for block in _blocks("yaml")
        for job in yaml.safe_load(block).get("jobs", {}).values()
        for step in job["steps"]
        if step.get("uses", "").startswith("OWNER/gradlint@")
    ]
    assert len(given) == 3
    for names in given:
        assert set(names) <= known


def test_the_hooks_of_the_documentation_exist() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    ids = {hook["id"] for hook in hooks}
    assert ids == {"gradlint", "gradlint-fix"}
    for block in (parsed for parsed in map(yaml.safe_load, _blocks("yaml")) if "repos" in parsed):
        assert {hook["id"] for repo in block["repos"] for hook in repo["hooks"]} <= ids


def _commands() -> list[str]:
    """Every call of gradlint in the documentation and in the hooks."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    sources = [*_blocks("sh"), *(hook["entry"] for hook in hooks)]
    sources += [text for block in _blocks("yaml") for text in strings_in(yaml.safe_load(block))]
    return [line for source in sources for line in source.splitlines() if re.match("(torch-)?gradlint ", line)]


@pytest.mark.parametrize("line", _commands())
def test_every_command_is_valid(line: str) -> None:
    name, *arguments = shlex.split(line)[1:]
    command = command_line.get_command(click.Context(command_line), name)
    assert command is not None
    with command.make_context(name, arguments):
        pass


def test_every_option_in_the_text_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    check = command_line.get_command(click.Context(command_line), "check")
    assert check is not None
    known = {name for option in check.params for name in (*option.opts, *option.secondary_opts)}
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"(?m)^.*gh pr comment.*$", "", text)))
    assert told - {"--no-torch"} <= known


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """The folders that a runner has, with gradlint installed where the first step would install it."""
    scripts = tmp_path / "temp" / "gradlint" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (scripts / "python").chmod(0o755)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(CLIP_AFTER_STEP)
    return tmp_path


def _step(runner: Path, name: str, *, source: str = str(ROOT), **inputs: str) -> subprocess.CompletedProcess[str]:
    """One step as the runner does it: inputs put into `env`, then `bash -e` with a script file."""
    action = _action()
    (step,) = [step for step in action["runs"]["steps"] if step["name"] == name]
    values = {key: str(about.get("default", "")) for key, about in action["inputs"].items()}
    values |= {key.replace("_", "-"): value for key, value in inputs.items()}

    def filled(text: str) -> str:
        found = re.fullmatch(r"\$\{\{ (inputs|github)\.([a-z_-]+) \}\}", text)
        assert found is not None, text
        return values[found[2]] if found[1] == "inputs" else {"action_path": source}[found[2]]

    (runner / "script.sh").write_text(step["run"])
    environment = {
        **os.environ,
        **{key: filled(text) for key, text in step["env"].items()},
        "RUNNER_TEMP": str(runner / "temp"),
        "GITHUB_OUTPUT": str(runner / "output"),
        "GITHUB_STEP_SUMMARY": str(runner / "summary"),
        "PIP_NO_COMPILE": "1",  # a minute is long in a test
    }
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(runner / "script.sh")],
        cwd=runner / "work", env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip


def _output(runner: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (runner / "output").read_text().splitlines())


@bash
def test_findings_become_annotations_and_a_summary(runner: Path) -> None:
    done = _step(runner, "Check", sarif_file="out/gradlint.sarif", markdown_file="gradlint.md")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error ")
    assert "file=train.py" in done.stdout
    assert _output(runner) == {"exit-code": "1", "sarif-file": "out/gradlint.sarif"}
    assert json.loads((runner / "work" / "out" / "gradlint.sarif").read_text())["version"] == "2.1.0"
    assert "GL101" in (runner / "summary").read_text()
    assert (runner / "summary").read_text() == (runner / "work" / "gradlint.md").read_text()


@pytest.mark.slow
@bash
def test_clean_code_passes(runner: Path) -> None:
    (runner / "work" / "train.py").write_text(CLEAN)
    done = _step(runner, "Check", summary="false")
    assert done.returncode == 0, done.stderr
    assert _output(runner)["exit-code"] == "0"
    assert not (runner / "summary").exists()


@pytest.mark.slow
@bash
def test_paths_and_options_are_handed_on(runner: Path) -> None:
    (runner / "work" / "with space").mkdir()
    (runner / "work" / "with space" / "a.py").write_text(CLIP_AFTER_STEP)
    done = _step(
        runner, "Check", paths="with space\n", output_format="concise", args="--select  GL1\n  --quiet", fail_on="error"
    )
    assert done.returncode == 1, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("with space/a.py:10:9: GL101")
    done = _step(runner, "Check", args="--select GL4")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@bash
def test_baseline_and_diff_base(runner: Path) -> None:
    work = runner / "work"
    shell = "git init -q -b main && git add -A && git -c user.name=A -c user.email=a@b.c commit -q -m one"
    subprocess.run(shell, shell=True, cwd=work, check=True)
    assert _step(runner, "Check", diff_base="HEAD").returncode == 0
    assert _step(runner, "Check", diff_base="nowhere").returncode == 2
    assert _output(runner)["exit-code"] in ("0", "2")
    write = [sys.executable, "-m", "gradlint", "check", "--write-baseline", "known.json"]
    subprocess.run(write, cwd=work, check=True, capture_output=True)
    assert _step(runner, "Check", baseline="known.json").returncode == 0


@pytest.mark.slow
@bash
@pytest.mark.parametrize("text", ['"; touch pwned; "', "'; touch pwned; '", "$(touch pwned)", "`touch pwned`"])
def test_inputs_are_never_run(runner: Path, text: str) -> None:
    names = [name.replace("-", "_") for name in _action()["inputs"]]
    done = _step(runner, "Check", **dict.fromkeys(names, text))
    assert done.returncode == 2
    assert not (runner / "work" / "pwned").exists()


@pytest.mark.slow
@bash
def test_a_star_stays_a_star(runner: Path) -> None:
    assert "*: No such file" in _step(runner, "Check", paths="*").stderr
    assert "*: No such file" in _step(runner, "Check", args="*").stderr


@pytest.mark.slow
@bash
def test_a_path_never_becomes_an_option_and_no_output_is_forged(runner: Path) -> None:
    done = _step(runner, "Check", paths="--fix", sarif_file="a.sarif\nexit-code=0")
    assert done.returncode == 2
    assert "--fix: No such file" in done.stderr
    assert (runner / "work" / "train.py").read_text() == CLIP_AFTER_STEP
    assert _output(runner)["exit-code"] == "2"


@pytest.mark.slow
@bash
def test_gradlint_is_installed_in_an_environment_of_its_own_and_nothing_of_the_checkout_is_run(
    runner: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Where Python is started, modules of any name may lie; these leave a mark."""
    mark = runner / "mark"
    names = ("venv", "logging", "pip", "gradlint", "ensurepip", "click", "json", "sitecustomize", "usercustomize")
    for name in names:
        (runner / "work" / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r})\nraise SystemExit(7)\n")
    shutil.rmtree(runner / "temp" / "gradlint")
    # the wheel in place of the action's own folder, which the hooks of pre-commit are built from
    done = _step(runner, "Install gradlint", source=str(wheel(tmp_path_factory)))
    assert not mark.exists(), mark.read_text()
    words = ("No matching distribution", "Could not find a version", "ConnectionError", "Max retries")
    for line in (done.stderr + done.stdout).splitlines() if done.returncode else ():
        if any(word in line for word in words):
            pytest.skip(f"the package index cannot be reached: {line.strip()}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("gradlint, version ")
    done = _step(runner, "Check")
    assert done.returncode == 1, done.stderr
    assert not mark.exists(), mark.read_text()
