"""`gradlint prove`: shows on this machine that the mistakes are real and that the fixes cure them."""

from __future__ import annotations

import json
import sys
import time

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradlint.cli.selection import FORMAT, complete_rule
from gradlint.config.reading import ConfigError
from gradlint.runtime.launch.run import resolve, torch_is_installed
from gradlint.runtime.prove.case import chosen
from gradlint.runtime.prove.proving import BY_HAND, Progress, Proof, Proofs, quiet
from gradlint.runtime.prove.proving import prove as run

_INSTALL = "`gradlint prove` runs training code and needs torch: pip install 'torch-gradlint[runtime]'"


@click.command()
@click.argument("codes", nargs=-1, metavar="[CODE]...", shell_complete=complete_rule)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda", "mps"]),
    default="auto",
    show_default=True,
    help="Where to run; auto takes an accelerator if there is one.",
)
@FORMAT
def prove(codes: tuple[str, ...], device: str, output_format: str) -> int:
    """Prove rules: run a script with the mistake and its fixed copy, and measure both.

    CODE is a rule's code, its name, or the beginning of a code like GL2; without any, all rules that a run can show
    are proved. Exits with 0 if all are proved, 1 if one is not, 3 if a run failed.
    """
    cases = chosen(codes)
    if not torch_is_installed():
        raise ConfigError(_INSTALL)
    begun = time.monotonic()
    proofs = run(cases, resolve(device), _progress(2 * len(cases)))
    if output_format == "json":
        click.echo(json.dumps([proof.record() for proof in proofs.proofs], indent=2))
    else:
        _print(proofs, time.monotonic() - begun)
    return 3 if proofs.broken else 1 if proofs.failed else 0


def _progress(scripts: int) -> Progress:
    """Who sits before a terminal sees how far it is; a line that is written over."""
    if not sys.stderr.isatty():
        return quiet
    shown = -1

    def tell(done: int) -> None:
        nonlocal shown
        if done != shown:
            shown = done
            said = f"{done} of {scripts} small training scripts have run" if done < scripts else ""
            click.echo(f"\r{said:<60}\r", nl=False, err=True)

    return tell


def _print(proofs: Proofs, seconds: float) -> None:
    if sys.stdout.isatty():
        _table(proofs)
    else:
        for proof in proofs.proofs:
            click.echo(f"{proof.case.code}  {proof.case.name}: {_verdict(proof)}")
            for side, measured in (("before", proof.before), ("after", proof.after)):
                if measured is not None:
                    click.echo(f"       {side}: {measured.sentence}")
            if proof.note:
                click.echo(f"       {proof.note}")
    for difference, codes in _on_gpu(proofs).items():
        click.echo(f"On a GPU {difference}: {', '.join(codes)}.")
    click.echo(_summary(proofs, seconds))


def _on_gpu(proofs: Proofs) -> dict[str, list[str]]:
    """What a run there would have of its own, and for which of those that ran on the CPU."""
    found: dict[str, list[str]] = {}
    for proof in proofs.proofs:
        if proof.device == "cpu" and proof.case.on_gpu and proof.before is not None:
            found.setdefault(proof.case.on_gpu, []).append(proof.case.code)
    return found


def _summary(proofs: Proofs, seconds: float) -> str:
    by_hand = sum(proof.passed is True and proof.fix == BY_HAND for proof in proofs.proofs)
    tail = f", {by_hand} of them put right by hand" if by_hand else ""
    skipped = f", {proofs.skipped} not run here" if proofs.skipped else ""
    devices = ", ".join(sorted({proof.device for proof in proofs.proofs if proof.before is not None}))
    where = f" on {devices}" if devices else ""
    return f"{proofs.passed} of {len(proofs.proofs)} proved{tail}{skipped}{where} in {seconds:.1f} s"


def _verdict(proof: Proof) -> str:
    if proof.passed is None:
        return "not run here"
    if not proof.passed:
        return "NOT PROVED"
    return "proved, put right by hand" if proof.fix == BY_HAND else "proved"


def _table(proofs: Proofs) -> None:
    """Three columns fit a terminal of 80."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_lines=False)
    table.add_column("rule", no_wrap=True)
    table.add_column("with the mistake", ratio=1)
    table.add_column("put right", ratio=1)
    colours = {None: "yellow", True: "green", False: "red"}
    for proof in proofs.proofs:
        before = proof.before.sentence if proof.before else proof.note
        after = (proof.after.sentence if proof.after else "") + (f" ({proof.note})" if proof.passed is False else "")
        rule = Text.assemble(
            (proof.case.code, "bold"), f"\n{proof.case.name}\n", (_verdict(proof), colours[proof.passed])
        )  # fmt: skip
        table.add_row(rule, Text(before), Text(after))
    Console().print(table)
