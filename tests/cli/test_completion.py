"""Shell completion, asked of the real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gradlint.cli import run
from gradlint.config.schema import FORMATS
from gradlint.registry import all_rules, by_code
from tests.patience import PATIENCE

COMMAND = Path(sys.executable).parent / "gradlint"


def _needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(shell) is None or not COMMAND.exists(), reason=f"needs {shell} and the installed command"
    )


def _run(command: list[str], cwd: Path, **environment: str) -> str:
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, "PATH": path, **environment}, capture_output=True, text=True, check=False,
        timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def _bash(words: list[str], cwd: Path) -> list[str]:
    script = (
        'eval "$(_GRADLINT_COMPLETE=bash_source gradlint)"\n'
        'COMP_WORDS=(gradlint "$@"); COMP_CWORD=$#; _gradlint_completion gradlint "${@: -1}" ""\n'
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return _run(["bash", "--norc", "-c", script, "bash", *words], cwd).split("\n")[:-1]


def _fish(words: list[str], cwd: Path) -> list[str]:
    script = "env _GRADLINT_COMPLETE=fish_source gradlint | source; complete -C (string join ' ' -- gradlint $argv)"
    home = str(cwd / "home")
    lines = _run(["fish", "--no-config", "-c", script, "--", *words], cwd, HOME=home, XDG_CONFIG_HOME=home).splitlines()
    return [line.split("\t")[0] for line in lines]


def _zsh(words: list[str], cwd: Path) -> list[str]:
    """The function that zsh calls on TAB, with what it offers printed instead of shown."""
    script = (
        "compdef() { : }\n"
        "_describe() { local got=(${(P)3}); print -rl -- ${got%%:*} }\n"
        "compadd() { local name=$@[-1]; print -rl -- ${(P)name} }\n"
        'eval "$(_GRADLINT_COMPLETE=zsh_source gradlint)"\n'
        'words=(gradlint "$@"); CURRENT=$#words; _gradlint_completion'
    )
    return _run(["zsh", "-f", "-c", script, "zsh", *words], cwd).splitlines()


@_needs("fish")
def test_fish_shows_whole_descriptions(tmp_path: Path) -> None:
    script = "env _GRADLINT_COMPLETE=fish_source gradlint | source; complete -C 'gradlint check --select GL304'"
    home = str(tmp_path / "home")
    told = _run(["fish", "--no-config", "-c", script], tmp_path, HOME=home, XDG_CONFIG_HOME=home)
    assert told.strip() == f"GL304\t{by_code()['GL304'].summary()}"


@_needs("zsh")
def test_zsh_without_its_completion(tmp_path: Path) -> None:
    script = 'eval "$(_GRADLINT_COMPLETE=zsh_source gradlint)"; print -r -- $_comps[gradlint]'
    assert _run(["zsh", "-f", "-c", script], tmp_path, HOME=str(tmp_path)).strip() == "_gradlint_completion"


Shell = Callable[[list[str], Path], list[str]]
SHELLS = [
    pytest.param(_bash, marks=_needs("bash"), id="bash"),
    pytest.param(_fish, marks=[_needs("fish"), pytest.mark.slow], id="fish"),
    pytest.param(_zsh, marks=[_needs("zsh"), pytest.mark.slow], id="zsh"),
]


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_commands_options_and_values(shell: Shell, tmp_path: Path) -> None:
    assert {"check", "doctor", "server"} <= {word.rpartition(",")[2] for word in shell([""], tmp_path)}
    options = {word.rpartition(",")[2] for word in shell(["check", "--out"], tmp_path)}
    assert {"--output-format", "--output-file"} == options
    values = {word.rpartition(",")[2] for word in shell(["check", "--select", "GL10"], tmp_path)}
    assert values == {code for code in by_code() if code.startswith("GL10")}


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """What bash would offer, asked without it and in this process."""

    def command(*words: str) -> list[str]:
        monkeypatch.setenv("_GRADLINT_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(("gradlint", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        with pytest.raises(SystemExit) as ended:
            run([])
        assert ended.value.code == 0
        return [line.partition(",")[2] for line in capsys.readouterr().out.splitlines()]

    return command


def test_formats(complete: Callable[..., list[str]]) -> None:
    assert complete("check", "--output-format", "") == list(FORMATS)
    assert complete("check", "--output-format", "g") == ["grouped", "github", "gitlab"]


@pytest.mark.parametrize("words", [("--output-format", "=", "s"), ("--output-format=s",)])
def test_behind_an_equals_sign(complete: Callable[..., list[str]], words: tuple[str, ...]) -> None:
    """bash splits the word, unless `=` was taken out of COMP_WORDBREAKS."""
    found = complete("check", *words)
    assert found == (["sarif"] if len(words) > 1 else ["--output-format=sarif"])
    assert complete("check", "--output-format", "=") == list(FORMATS)


def _asked(shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **given: str) -> str:
    monkeypatch.setenv("_GRADLINT_COMPLETE", f"{shell}_complete")
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        run([])
    return capsys.readouterr().out


def test_zsh_and_fish_get_the_whole_word_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "gradlint check --output-format=sa"
    told = _asked("zsh", monkeypatch, capsys, COMP_WORDS=line, COMP_CWORD="2")
    assert told.splitlines() == ["plain", "--output-format=sarif", "_"]
    told = _asked("fish", monkeypatch, capsys, COMP_WORDS=line, COMP_CWORD="--output-format=sa")
    assert told.splitlines() == ["plain,--output-format=sarif"]


def test_the_scripts_of_the_shells(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What click's own lack: an older or newer click must still be the one that they were made for."""
    scripts = {}
    for shell in ("zsh", "fish"):
        monkeypatch.setenv("_GRADLINT_COMPLETE", f"{shell}_source")
        with pytest.raises(SystemExit):
            run([])
        scripts[shell] = capsys.readouterr().out
    assert "autoload -Uz compinit && compinit }\n    compdef _gradlint_completion gradlint" in scripts["zsh"]
    assert 'string split -m 1 ","' in scripts["fish"]


def test_presets(complete: Callable[..., list[str]]) -> None:
    assert complete("check", "--preset", "") == ["strict", "default", "quiet"]
    assert complete("rules", "--preset", "q") == ["quiet"]


@pytest.mark.parametrize("option", ["--select", "--ignore", "--extend-select", "--fixable", "--unfixable"])
def test_rules_by_code_and_by_name(complete: Callable[..., list[str]], option: str) -> None:
    assert complete("check", option, "clip-aft") == ["clip-after-step"]
    assert "GL2" in complete("check", option, "GL")
    assert complete("check", option, "AL") == ["ALL"]


def test_a_list_of_rules_goes_on_behind_its_comma(complete: Callable[..., list[str]]) -> None:
    assert complete("check", "--select", "GL2,clip-aft") == ["GL2,clip-after-step"]


def test_the_rule_to_explain(complete: Callable[..., list[str]]) -> None:
    assert complete("rule", "gl101") == ["GL101"]
    assert len(complete("rule", "")) == 2 * len(all_rules())


def test_severities(complete: Callable[..., list[str]]) -> None:
    assert complete("check", "--fail-on", "w") == ["warning"]
