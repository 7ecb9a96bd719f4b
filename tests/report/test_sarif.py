"""SARIF: valid against the official schema, and true to the files."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema  # type: ignore[import-untyped,unused-ignore] # its stubs are a package of their own
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gradlint import __version__
from gradlint.config import Settings
from gradlint.docs.pages import page
from gradlint.engine import lint
from gradlint.fingerprints import fingerprints
from gradlint.model import Edit, FileResult, Finding, Position, Related, Severity, Span
from gradlint.registry import all_rules, by_code, rule_url
from gradlint.repair.edits import applied
from gradlint.report.document import Report
from gradlint.report.sarif import as_sarif
from tests.report.samples import ANY_PATH, ODD_PATHS, TRAIN, finding, notebook, one_file, report, span_of, troubled
from tests.sources import BROKEN, CLIP_AFTER_STEP

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEMA = Path(__file__).with_name("sarif") / "sarif-schema-2.1.0.json"


@functools.cache
def _validator() -> Any:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


def _run(given: Report) -> dict[str, Any]:
    """The run of a log that is valid, and that keeps what the schema cannot say."""
    (text,) = as_sarif(given)
    log = json.loads(text)
    errors = [f"{'/'.join(map(str, error.path))}: {error.message}" for error in _validator().iter_errors(log)]
    assert errors == []
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        linked = [int(number) for number in re.findall(r"(?<!\\)\[[^\]]*\]\((\d+)\)", result["message"]["text"])]
        assert linked == [location["id"] for location in result.get("relatedLocations", [])]
    return dict(run)


def _result(given: Report) -> dict[str, Any]:
    (result,) = _run(given)["results"]
    return dict(result)


def test_the_schema_is_that_of_sarif_and_finds_mistakes() -> None:
    (text,) = as_sarif(one_file())
    log = json.loads(text)
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    assert not _validator().is_valid(log)
    assert log["$schema"] == json.loads(SCHEMA.read_text(encoding="utf-8"))["id"]


def test_clean_code_has_a_run_without_results() -> None:
    run = _run(report([FileResult("a.py")]))
    assert run["results"] == []
    assert run["invocations"] == [{"executionSuccessful": True}]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"], driver["rules"]) == ("gradlint", __version__, [])
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[\w.]+)?", driver["semanticVersion"])


def test_a_result() -> None:
    result = _result(one_file())
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"] == {"uri": "train.py", "uriBaseId": "%SRCROOT%"}
    assert location["physicalLocation"]["region"] == {"startLine": 3, "startColumn": 15, "endLine": 5, "endColumn": 6}
    assert location["logicalLocations"] == [{"fullyQualifiedName": "train", "name": "train"}]
    assert (result["ruleId"], result["level"]) == ("GL101", "error")
    assert result["properties"] == {"grade": "seen"}
    assert result["message"]["text"] == "`clip()` runs after `step()`. [line 2](1): used here"
    (story,) = result["relatedLocations"]
    assert (story["id"], story["message"]["text"]) == (1, "used here")


def test_columns_are_code_points_and_replacements_make_the_fixed_text() -> None:
    run = _run(one_file())
    assert run["columnKind"] == "unicodeCodePoints"
    (fix,) = run["results"][0]["fixes"]
    (change,) = fix["artifactChanges"]
    edits = [
        Edit(
            Span(
                Position(part["deletedRegion"]["startLine"], part["deletedRegion"]["startColumn"]),
                Position(part["deletedRegion"]["endLine"], part["deletedRegion"]["endColumn"]),
            ),
            part["insertedContent"]["text"],
        )
        for part in change["replacements"]
    ]
    assert applied(TRAIN, edits) == TRAIN.replace("step()", "clip(a); step()").replace(
        "clip(\n        a,\n    )", "pass"
    )
    assert fix["description"]["text"] == "Move the clip"


@pytest.mark.parametrize("severity", list(Severity))
def test_severities(severity: Severity) -> None:
    made = finding(Span(Position(1, 1), Position(1, 2)), severity=severity)
    run = _run(report([FileResult("a.py", (made,))], {"a.py": "x\n"}))
    (rule,) = run["tool"]["driver"]["rules"]
    level = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}[severity]
    assert run["results"][0]["level"] == level
    assert rule["properties"]["problem.severity"] == {"note": "recommendation"}.get(level, level)
    assert rule["defaultConfiguration"]["level"] == "error"  # the rule's own, whatever this project made of it


def test_rules_bring_their_pages() -> None:
    (rule,) = _run(one_file())["tool"]["driver"]["rules"]
    own = by_code()["GL101"]
    assert rule["help"]["markdown"] == page(own)
    assert own.summary() in rule["help"]["text"]
    assert rule["helpUri"] == rule_url("GL101")
    assert rule["shortDescription"]["text"] == own.summary()
    assert rule["name"] == "ClipAfterStep"
    assert rule["properties"]["precision"] == "high"


def test_every_rule_can_be_described() -> None:
    here = Span(Position(1, 1), Position(1, 2))
    findings = tuple(finding(here, code=rule.meta.code, name=rule.rule_name()) for rule in all_rules())
    run = _run(report([FileResult("a.py", findings)]))
    assert len(run["tool"]["driver"]["rules"]) == len(all_rules())
    # what GitHub takes
    for rule in run["tool"]["driver"]["rules"]:
        assert len(rule["shortDescription"]["text"]) <= 1024
        assert len(rule["fullDescription"]["text"]) <= 1024


@pytest.mark.parametrize("path", ODD_PATHS)
def test_addresses_are_relative_and_lead_back_to_the_path(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for spelled in (path, str(tmp_path / path), f"./{path}"):
        artifact = _result(one_file(spelled))["locations"][0]["physicalLocation"]["artifactLocation"]
        parts = urlsplit(artifact["uri"])
        assert unquote(parts.path) == path
        assert not any((parts.scheme, parts.netloc, parts.query, parts.fragment))
        assert artifact["uri"].isascii()


def test_a_file_elsewhere_has_a_whole_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    artifact = _result(one_file("../a b.py"))["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": (tmp_path.parent / "a b.py").as_uri()}


def test_notebooks_are_told_by_cell_and_shown_at_the_line_of_their_json() -> None:
    given = notebook()
    result = _result(given)
    source = (given.read("nb.ipynb") or b"").decode().split("\n")
    (location,) = result["locations"]
    region = location["physicalLocation"]["region"]
    assert source[region["startLine"] - 1].strip() == '"clip()"'
    assert location["logicalLocations"] == [{"name": "cell 4", "kind": "module"}]
    assert result["message"]["text"] == ("Cell 4, line 2: `clip()` runs after `step()`. [cell 2, line 3](1): used here")
    story = result["relatedLocations"][0]["physicalLocation"]["region"]
    assert source[story["startLine"] - 1].strip() == '"step()"'
    assert "fixes" not in result


def test_fingerprints_are_ours_and_not_those_of_github() -> None:
    given = one_file()
    (made,) = fingerprints(given.results[0], TRAIN)
    assert _result(given)["partialFingerprints"] == {"gradlint/v1": made.value}


def test_trouble_is_told() -> None:
    (invocation,) = _run(troubled())["invocations"]
    assert invocation["executionSuccessful"] is False
    first, second = invocation["toolExecutionNotifications"]
    assert (first["level"], first["message"]["text"]) == ("warning", "binary.py was not checked: it is a binary file")
    assert (second["level"], second["message"]["text"]) == ("error", "Rule GL101 failed on odd.py: KeyError: 'x'")
    assert second["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "odd.py"


def test_code_that_was_not_followed_is_a_note() -> None:
    (invocation,) = _run(report([FileResult("long.py", exhausted=("`f` is too long",))]))["invocations"]
    assert invocation["executionSuccessful"] is True
    (told,) = invocation["toolExecutionNotifications"]
    assert (told["level"], told["message"]["text"]) == ("note", "long.py: `f` is too long")
    assert told["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "long.py"


def test_what_looks_like_a_link_is_none() -> None:
    made = finding(span_of("x", "x"), message="`x[0](1)` and `y[0]`")
    assert _result(report([FileResult("a.py", (made,))]))["message"]["text"] == "`x\\[0](1)` and `y[0]`"


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("train.py", CLIP_AFTER_STEP.encode()),
        ("train.py", CLIP_AFTER_STEP.replace("\n", "\r\n").encode()),
        ("train.py", CLIP_AFTER_STEP.replace("    ", "\t").encode()),
        ("-", CLIP_AFTER_STEP.encode()),
        ("broken.py", BROKEN.encode()),
        ("mistakes.py", (ROOT / "examples" / "train_with_mistakes.py").read_bytes()),
    ],
)
def test_real_findings(path: str, source: bytes) -> None:
    result = lint(source, path, Settings())
    run = _run(report([result], {path: source}))
    assert (
        [(made["ruleId"], made["locations"][0]["physicalLocation"]["region"]["startLine"]) for made in run["results"]]
        == [(made.code, made.span.start.row) for made in result.findings]
        != []
    )


@example(message="", said="", path="\ud800")  # once not taken
@given(message=st.text(), said=st.text(), path=ANY_PATH)
def test_any_words_make_a_valid_log(message: str, said: str, path: str) -> None:
    here = Span(Position(1, 1), Position(1, 2))
    story = Related(here, re.sub(r"\[|\]", "", said))
    made: Finding = finding(here, message=re.sub(r"\[|\]", "", message), related=(story,))
    assert [told["ruleId"] for told in _run(report([FileResult(path, (made,))]))["results"]] == [made.code]
