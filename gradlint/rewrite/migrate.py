"""Rewrites calls to another function: by norm instead of by value, the names that torch has now, FSDP's own clip."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import libcst.matchers as m

from gradlint.events import Clip, Site
from gradlint.rewrite.bench import NotFixable
from gradlint.rewrite.calls import arguments, call_of, first_argument, receiver
from gradlint.rewrite.imports import Import, drop_if_last, imports, reference, rename, uses

if TYPE_CHECKING:
    from gradlint.rewrite.bench import Bench
    from gradlint.rewrite.document import Statement

CLIP_NORM = "torch.nn.utils.clip_grad_norm_"


# -- clipping


def rename_function(bench: Bench, func: Site, old: str, new: str) -> None:
    """`torch.nn.utils.clip_grad_norm` -> `….clip_grad_norm_`, where it is called or where it is imported."""
    node = bench.node(func)
    if isinstance(node, cst.Attribute):
        bench.replace(node, bench.code(node.with_changes(attr=cst.Name(new))))
        return
    known = _imported(bench, node, old)
    rename(bench, known, new, everywhere=True)
    if known.alias.asname is None:
        for name in uses(bench, old):
            bench.replace(name, new)


def _imported(bench: Bench, node: cst.CSTNode, name: str) -> Import:
    local = bench.code(node)
    for known in imports(bench):
        if known.local == local and known.dotted.endswith(f".{name}"):
            return known
    raise NotFixable(f"where `{local}` is imported was not found")


def clip_by_norm(bench: Bench, clip: Clip, limit: str | None) -> None:
    """`clip_grad_value_(params, v)` and `clamp_` in a loop over parameters -> `clip_grad_norm_(params, v)`."""
    call = call_of(bench, clip)
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if name in ("clamp_", "clip_"):
        _clamped(bench, call, limit)
    elif name == "clip_gradients":
        _fabric(bench, call, limit)
    else:
        changes = {"clip_value": "max_norm"}
        given = [_argument(bench, a, changes, limit if n == 1 else None) for n, a in enumerate(call.args)]
        bench.replace(call, f"{_clip_function(bench, call)}({', '.join(given)})")


def _argument(bench: Bench, arg: cst.Arg, changes: dict[str, str], value: str | None) -> str:
    keyword = arg.keyword.value if arg.keyword is not None else ""
    text = value or bench.code(arg.value)
    return f"{changes.get(keyword, keyword)}={text}" if keyword else f"{arg.star}{text}"


def _clip_function(bench: Bench, call: cst.Call) -> str:
    """The norm's function in the place of the value's, with the import if it is imported by name."""
    func = call.func
    if isinstance(func, cst.Attribute):
        return bench.code(func.with_changes(attr=cst.Name("clip_grad_norm_")))
    known = _imported(bench, func, "clip_grad_value_")
    last = len(uses(bench, known.local)) == 1
    if known.alias.asname is not None and not last:
        return reference(bench, CLIP_NORM)
    rename(bench, known, "clip_grad_norm_", everywhere=last)
    return known.alias.evaluated_alias or "clip_grad_norm_"


def _fabric(bench: Bench, call: cst.Call, limit: str | None) -> None:
    given = []
    for arg in call.args:
        named = arg.keyword is not None and arg.keyword.value == "clip_val"
        given.append(_argument(bench, arg, {"clip_val": "max_norm"}, limit if named else None))
    bench.replace(call, f"{bench.code(call.func)}({', '.join(given)})")


def _clamped(bench: Bench, call: cst.Call, limit: str | None) -> None:
    """The whole loop over the parameters becomes one call."""
    loop = bench.statement(call)
    while not isinstance(loop.node, cst.For):
        if loop.owner is None:
            raise NotFixable("the loop over the parameters was not found")
        loop = loop.owner
    if sum(1 for x in loop.leaves() if isinstance(x.node, cst.SimpleStatementLine)) != 1:
        raise NotFixable("the loop does something else, too")
    parameters = _parameters(bench, loop)
    value = limit or _limit(bench, call)
    code = f"{reference(bench, CLIP_NORM)}({parameters}, {value})"
    new = bench.document.new(code, loop.block)
    inner = [x.node for x in loop.leaves()]
    comments = [line for node in inner for line in node.leading_lines if line.comment]
    bench.document.put_before(new, loop)
    new.node = new.node.with_changes(
        leading_lines=(*new.node.leading_lines, *comments), trailing_whitespace=inner[-1].trailing_whitespace
    )
    loop.node = loop.node.with_changes(leading_lines=())
    bench.document.take_out(loop)


def _parameters(bench: Bench, loop: Statement) -> str:
    """`model.parameters()`, also where the loop goes over `model.named_parameters()`."""
    code = bench.code(loop.node.iter)
    if code.endswith(".named_parameters()"):
        return code.removesuffix(".named_parameters()") + ".parameters()"
    return code


def _limit(bench: Bench, call: cst.Call) -> str:
    for n, arg in enumerate(call.args):
        if (arg.keyword is not None and arg.keyword.value == "max") or (arg.keyword is None and n == 1):
            return bench.code(arg.value)
    raise NotFixable("its upper limit was not found")


def clip_through_model(bench: Bench, clip: Clip) -> None:
    """`clip_grad_norm_(model.parameters(), 1.0)` -> `model.clip_grad_norm_(1.0)`."""
    call = call_of(bench, clip)
    parameters = first_argument(call)
    if not m.matches(parameters, m.Call(func=m.Attribute(attr=m.Name("parameters")))):
        raise NotFixable("the model of the clipped parameters is not written here")
    assert isinstance(parameters, cst.Call)
    assert isinstance(parameters.func, cst.Attribute)
    for arg in call.args[1:]:
        if arg.star or (arg.keyword is not None and arg.keyword.value not in ("max_norm", "norm_type")):
            raise NotFixable("FSDP's clip_grad_norm_ has only max_norm and norm_type")
    drop_if_last(bench, call.func)
    rest = arguments(bench, call.with_changes(args=call.args[1:]))
    bench.replace(call, f"{bench.code(parameters.func.value)}.clip_grad_norm_({rest})")


def clip_when_synced(bench: Bench, clip: Clip) -> None:
    """Accelerate says which micro-batch is the last of its window."""
    names = {bench.code(receiver(x)) for x in bench.every(cst.Call) if _accumulates(x)}
    if len(names) != 1:
        raise NotFixable("the accelerator was not found")
    statement = bench.document.apart(bench.statement(clip), bench.node(clip))
    bench.document.wrap_in(f"if {names.pop()}.sync_gradients:", statement)


def _accumulates(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "accumulate"


def insert_clip(bench: Bench, step: Site, model: str) -> None:
    bench.insert(f"{reference(bench, CLIP_NORM)}({model}.parameters(), max_norm=1.0)", before=step)


def make_list(bench: Bench, clip: Clip) -> None:
    """`params = model.parameters()` -> `params = list(model.parameters())`."""
    node = bench.node(clip)
    name = bench.code(first_argument(node) if isinstance(node, cst.Call) else node)
    value: cst.BaseExpression | None = None
    while value is None or isinstance(value, cst.Name | cst.Attribute):
        homes = [x for x in _assignments(bench, name) if not isinstance(x.value, cst.List | cst.ListComp)]
        if len(homes) != 1 or homes[0].value is value:
            raise NotFixable(f"where `{name}` is made was not found")
        value = homes[0].value
        name = bench.code(value)
    bare = value.with_changes(lpar=(), rpar=()) if isinstance(value, cst.GeneratorExp) else value
    if isinstance(bare, cst.GeneratorExp):
        bench.replace(value, f"[{bench.code(bare)}]")
    else:
        bench.replace(value, f"list({bench.code(value)})")


def _assignments(bench: Bench, name: str) -> list[cst.Assign]:
    return [x for x in bench.every(cst.Assign) if len(x.targets) == 1 and bench.code(x.targets[0].target) == name]


# -- torch.cuda.amp


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
    places = uses(bench, known.local)
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
    for found in bench.every(cst.Attribute):
        if found.value is name and found.attr.value in _PARAMETERS:
            return found
    raise NotFixable("the module is used for something else, too")


#: the parameters of the old functions, in order; the new ones have the device first, and then another order
_PARAMETERS = {"autocast": ("enabled", "dtype", "cache_enabled"), "GradScaler": ()}


def _call_anew(bench: Bench, func: cst.CSTNode, new: str, device: str) -> None:
    call = _call_round(bench, func)
    name = new.rpartition(".")[2]
    known = {"autocast": "autocast", "GradScaler": "GradScaler"}.get(name) or _original(bench, func)
    order = _PARAMETERS[known]
    given = [f"{bench.quote}{device}{bench.quote}"]
    for n, arg in enumerate(call.args):
        if arg.star:
            raise NotFixable("arguments are handed on with a star")
        text = bench.code(arg.value)
        keyword = arg.keyword.value if arg.keyword is not None else order[n] if n < len(order) else ""
        given.append(f"{keyword}={text}" if keyword else text)
    bench.replace(call, f"{new}({', '.join(given)})")


def _original(bench: Bench, func: cst.CSTNode) -> str:
    """`from torch.cuda.amp import autocast as cast`."""
    local = bench.code(func)
    return next(k.alias.evaluated_name for k in imports(bench) if k.local == local)


def _call_round(bench: Bench, func: cst.CSTNode) -> cst.Call:
    for found in bench.every(cst.Call):
        if found.func is func:
            return found
    raise NotFixable("it is handed on uncalled")


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
    for alias in moving:
        if alias is not known.alias:
            local = alias.evaluated_alias or alias.evaluated_name
            for place in uses(bench, local):
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
