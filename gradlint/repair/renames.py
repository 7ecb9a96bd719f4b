"""Other functions in the place of those that are written: an activation, a clip, what `torch.amp` has now."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.events import Site
from gradlint.repair.arguments import call_round, named
from gradlint.repair.imports import Import, import_of, imported, imports, rename
from gradlint.repair.nodes import NotFixable, comma

if TYPE_CHECKING:
    from gradlint.repair.bench import Bench


def rename_function(bench: Bench, func: Site, old: str, new: str) -> None:
    """`torch.nn.utils.clip_grad_norm` -> `….clip_grad_norm_`, where it is called or where it is imported."""
    node = bench.node(func)
    if isinstance(node, cst.Attribute):
        bench.replace(node.attr, cst.Name(new))
        return
    known = import_of(bench, node, old)
    rename(bench, known, new, everywhere=True)
    if known.alias.asname is None:
        for name in bench.names(old):
            bench.replace(name, new)


_RELU = {
    "Tanh": "ReLU", "Sigmoid": "ReLU", "tanh": "relu", "sigmoid": "relu", "tanh_": "relu_", "sigmoid_": "relu_",
}  # fmt: skip
#: where the file says for which activation it initialises
_MADE_FOR = ("calculate_gain", "nonlinearity")


def use_relu(bench: Bench, names: Sequence[Site]) -> None:
    """`nn.Tanh()` -> `nn.ReLU()`, `torch.sigmoid(x)` -> `torch.relu(x)`, `x.tanh()` -> `x.relu()`."""
    code = bench.document.source
    if any(word in code for word in _MADE_FOR):
        raise NotFixable("the weights are initialised for a certain activation")
    imported: dict[str, list[cst.Name]] = {}
    for site in names:
        node = bench.node(site)
        if isinstance(node, cst.Attribute) and node.attr.value in _RELU:
            bench.replace(node.attr, cst.Name(_RELU[node.attr.value]))
        elif isinstance(node, cst.Name):
            imported.setdefault(node.value, []).append(node)
        else:
            raise NotFixable("the activation is not written by its name")
    if len(imported) > 1:
        raise NotFixable("several imports would have to change at once")
    for local, places in imported.items():
        _exchange_imported(bench, local, places)


def _exchange_imported(bench: Bench, local: str, places: list[cst.Name]) -> None:
    """`from torch.nn import Tanh`: with all of its uses the import changes, with some of them it gets another name."""
    known = imported(bench, local)
    old = known.dotted.rpartition(".")[2] if known is not None else ""
    if known is None or old not in _RELU:
        raise NotFixable(f"where `{local}` is imported was not found")
    new = known.dotted[: -len(old)] + _RELU[old]
    others = [x for x in bench.names(local) if not any(x is place for place in places)]
    present = next((x.local for x in imports(bench) if x.dotted == new), None)
    if known.alias.asname is not None:
        if others:
            raise NotFixable(f"`{local}` is used for something else, too")
        rename(bench, known, _RELU[old], everywhere=True)
        return
    if present is None or not others:
        rename(bench, known, _RELU[old], everywhere=not others)
    for place in places:
        bench.replace(place, present or _RELU[old])


def migrate_amp(bench: Bench, func: Site) -> None:
    """`torch.cuda.amp.autocast()` -> `torch.amp.autocast("cuda")`; by name, with all that the import gives."""
    node = bench.node(func)
    text = bench.code(node)
    for known in imports(bench):
        if text == known.local or text.startswith(known.local + "."):
            dotted = known.dotted + text[len(known.local) :]
            if dotted.startswith(("torch.cuda.amp.", "torch.cpu.amp.")):
                _migrate(bench, known, node, dotted)
                return
    raise NotFixable(f"where `{text}` comes from was not found")


def _migrate(bench: Bench, known: Import, node: cst.CSTNode, dotted: str) -> None:
    device, name = dotted.split(".")[1], dotted.rpartition(".")[2]
    if known.dotted == "torch":
        _call_anew(bench, node, f"{known.local}.amp.{name}", device)
        return
    places = bench.names(known.local)
    if known.dotted.endswith(".amp"):
        rewritten = [_attribute_of(bench, place) for place in places]
        for place in rewritten:
            _call_anew(bench, place, bench.code(place), device)
        _import_module(bench, known)
        return
    for place in places:
        _call_anew(bench, place, bench.code(place), device)
    _import_names(bench, known)


def _attribute_of(bench: Bench, name: cst.Name) -> cst.CSTNode:
    """`amp.autocast` round the name `amp`."""
    for attribute in _PARAMETERS:
        for found in bench.attributes(attribute):
            if found.value is name:
                return found
    raise NotFixable("the module is used for something else, too")


#: the parameters of the old functions, in order; the new ones have the device first, and then another order
_PARAMETERS = {"autocast": ("enabled", "dtype", "cache_enabled"), "GradScaler": ()}


def _call_anew(bench: Bench, func: cst.CSTNode, new: str, device: str) -> None:
    """The new function with the device first; the old arguments keep their lines, and get names where their order
    is another one now."""
    call = call_round(bench, func)
    name = new.rpartition(".")[2]
    order = _PARAMETERS[name if name in _PARAMETERS else _original(bench, func)]
    if any(arg.star for arg in call.args):
        raise NotFixable("arguments are handed on with a star")
    between = cst.Comma(whitespace_after=call.whitespace_before_args if call.args else cst.SimpleWhitespace(""))
    if isinstance(between.whitespace_after, cst.SimpleWhitespace):
        between = comma()
    behind = between if call.args else cst.MaybeSentinel.DEFAULT
    given = [cst.Arg(cst.SimpleString(f"{bench.quote}{device}{bench.quote}"), comma=behind)]
    for n, arg in enumerate(call.args):
        if arg.keyword is None and n < len(order):
            arg = named(arg, order[n])
        given.append(arg)
    bench.replace(call, call.with_changes(func=cst.parse_expression(new), args=given))


def _original(bench: Bench, func: cst.CSTNode) -> str:
    """`from torch.cuda.amp import autocast as cast`."""
    known = imported(bench, bench.code(func))
    assert known is not None
    return known.alias.evaluated_name


def _import_module(bench: Bench, known: Import) -> None:
    """`from torch.cuda import amp` -> `from torch import amp`, and so with `import torch.cuda.amp as amp`."""
    node = known.node
    if len(node.names) != 1:  # type: ignore[arg-type]  # a star import binds no names that could be known
        raise NotFixable("the import gives something else, too")
    if isinstance(node, cst.ImportFrom):
        new: cst.CSTNode = node.with_changes(module=cst.Name("torch"))
    else:
        alias = known.alias.with_changes(name=cst.Attribute(cst.Name("torch"), cst.Name("amp")))
        new = node.with_changes(names=[alias])
    bench.document.exchange(known.statement, node, new)


def _import_names(bench: Bench, known: Import) -> None:
    """`from torch.cuda.amp import autocast` -> `from torch.amp import autocast`; other names stay where they are."""
    node = known.node
    assert isinstance(node, cst.ImportFrom)
    names = [a for a in node.names if isinstance(a, cst.ImportAlias)]  # type: ignore[union-attr]  # no star import
    moving = [a for a in names if a.evaluated_name in _PARAMETERS]
    exported = re.search(r"__all__\s*=\s*[\[(][^\])]*", bench.document.source)
    if exported is not None and re.search(r"autocast|GradScaler", exported[0]):
        raise NotFixable("other files get it from here")
    for alias in moving:
        if alias is not known.alias:
            local = alias.evaluated_alias or alias.evaluated_name
            for place in bench.names(local):
                _call_anew(bench, place, local, "cuda" if "cuda" in bench.code(node) else "cpu")
    if len(moving) == len(names):
        module = cst.Attribute(cst.Name("torch"), cst.Name("amp"))
        bench.document.exchange(known.statement, node, node.with_changes(module=module))
        return
    staying = [a for a in names if a not in moving]
    staying[-1] = staying[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    bench.document.exchange(known.statement, node, node.with_changes(names=staying))
    gained = ", ".join(bench.code(a.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for a in moving)
    new = bench.document.new(f"from torch.amp import {gained}", known.statement.block)
    bench.document.put_before(new, known.statement)
