"""Makes new inputs of old ones: trees that borrow from each other, tokens and lines that move, bytes that flip.

An input is small, because what it costs is paid for every one; and what is said of a file hangs on few of its lines.
"""

from __future__ import annotations

import ast
import copy
import random
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from tests.fuzz.shapes import GROWTHS
from tests.fuzz.styles import restyled

#: what people write anywhere, and what nobody should
EXPRESSIONS = """
    loss / accum; (loss := model(x).mean()); [p.grad for p in model.parameters()]; lambda: optimizer.step(); await loss
    optimizer.zero_grad(set_to_none=True); clip_grad_norm_(model.parameters(), 1.0); scaler.scale(loss).backward()
    model.no_sync() if accum else nullcontext(); {**batch}; (*params,); f"{loss:.{width}f}"; x if y else z; not x; -x
    float("inf"); 1e999; -0.0; 10 ** 400; 0; None; ...; ""; b"x"; 1j; True; "optimizer"; [[[[]]]]; {1: {2: {}}}; x[::0]
    x[..., None]; self.optimizer; self.model.module; self; super().__init__(); type(self); getattr(self, "step")()
    torch.optim.AdamW(model.parameters(), lr=1e-3); torch.amp.GradScaler("cuda"); torch.log(torch.softmax(x, -1))
    torch.sqrt(x ** 2); loss.item(); loss.backward; x % 0; 7 // 0; (i + 1) % accum == 0; i % -1; a < b < c; a in b
    range(10 ** 9); range(0); enumerate(loader, 1); zip(*loader); {p for p in x}; (y for x in z for y in x if y)
    partial(optimizer.step); map(step, optimizers); [o.step() for o in optimizers]; (yield loss); (yield from loss)
    nn.Sequential(nn.Linear(1, 1), nn.Sigmoid(), nn.Linear(1, 1), nn.Sigmoid()); nn.Sequential(*layers); a[b][c][d]
    accelerator.accumulate(model); fabric.backward(loss); DDP(model); model.module; args.accum or 1; len(loader) - 1
    next(iter(loader)); iter(loader); (n := n + 1) % accum == 0; (batch := next(loader, None)); f(*args, **kwargs)
    [*loader, *loader]; {**state, "step": step}; lambda *a, k=1, **b: a; (lambda: (yield))(); not (a and b or not c)
    loss if torch.isfinite(loss) else loss.detach(); {o: s for o, s in zip(optimizers, schedulers, strict=True)}
    [x async for x in loader]; all(p.grad is None for p in model.parameters()); loader[::accum]; x[lambda: 0]
    math.ceil(len(loader) / accum); -(-len(loader) // accum); divmod(step, accum)[1]; step & 3; step and step % 8 == 0
    functools.reduce(lambda a, b: a + b, losses); sum(losses) / len(losses); f"{(lambda x: x)(loss)!r:>{width}}"
    torch.nn.utils.clip_grad_norm_(parameters=(p for p in model.parameters() if p.requires_grad), max_norm=1e-9)
    sorted(losses, key=lambda x: -x)[0]; print(*[loss], sep=(yield)); a @ b; a if b else c if d else e; "a" "b" f"{c}"
    torch.stack([torch.log(p) for p in probs]).mean(); x.exp().sum().log(); 0x_ff; 1_000.5e-3; (((((loss)))))
"""
STATEMENTS = """
    pass; break; continue; return; return loss; raise; del optimizer; del self.x, x[0]; global model; nonlocal loss
    x: int; loss: Tensor = f(x); loss += reg; loss /= accum; a = b = c; (a, *b) = c; [a, b] = b, a; assert loss, x
    optimizer.step(); optimizer.zero_grad(); loss.backward(); scaler.update(); scaler.unscale_(optimizer); step = step()
    scheduler.step(); import torch.nn as nn; from torch.optim import *; p.grad = None; p.grad.data.clamp_(-1, 1)
    model = optimizer; optimizer, model = model, optimizer; train(model, loader, optimizer); self.train(); x = x
    loss = loss / accum; optimizers = [optimizer] * 3; raise StopIteration from None; import torch; yield; await x
    self.step += 1; n += 1; step = step + 1; loss, *rest = losses; for_ = lambda: loss; batch = next(batches)
    optimizer, scaler = make(); (a), b = b, (a); x.y.z[0].grad = 0; loss: Tensor; losses += loss,
    global_step, accum = 0, 4; optimizer.step, optimizer.zero_grad; del model, loss; print(loss); self.loss = loss
    losses.append(loss); scaler = None; optimizer.param_groups[0]["lr"] *= 0.5; model.eval(); torch.save(model, f)
    def_ = [f(x) for x in xs if (y := f(x))]; assert isinstance(loss, Tensor); loss.backward(retain_graph=True)
    optimizer = torch.optim.SGD(self.parameters(), 0.1); exec("x = 1"); __all__ = ["train"]; from . import x as y
"""
#: with the statement that is put inside in the place of `pass`
WRAPPERS = """
if x: pass
if not x: pass
else: pass
while True: pass
while x < 3:
    x += 1
    pass
for i in range(4): pass
for i, (x, y) in enumerate(loader): pass
for x in loader: pass
else: pass
with model.no_sync(): pass
with torch.autocast("cuda"), a as b: pass
with torch.no_grad(): pass
try: pass
finally: pass
try: pass
except OSError as error: raise
else: pass
def closure(): pass
async def f(*a, b=1, **c): pass
class A(B, metaclass=C): pass
match x:
    case {"a": [1, *_]} | A(b=c) if c: pass
    case _: pass
@torch.no_grad()
def inner(x, /, y=[], *, z): pass
async def g():
    async with a as b:
        async for c in d: pass
while True:
    if x: break
    pass
    if not y: break
    if z: continue
while True:
    try:
        batch = next(batches)
        pass
    except StopIteration: break
while (batch := next(batches, None)) is not None: pass
while not done and step < total:
    step += 1
    pass
else: step = 0
for i in range(4):
    try:
        pass
    except RuntimeError:
        continue
    finally:
        n += 1
for (a, *b), c in zip(x, y): pass
for self.x in loader: pass
for x[i] in loader: pass
if a:
    x = 1
elif b: pass
elif c: return
else: raise
with (model.no_sync() as a, torch.autocast("cuda")): pass
with open(f) as x, contextlib.suppress(OSError): pass
def outer(loader):
    def inner():
        nonlocal loss
        pass
    inner()
    return inner
def gen(loader):
    for x in loader:
        y = yield x
        pass
class Trainer(pl.LightningModule):
    loss: Tensor = None
    def training_step(self, batch, batch_idx): pass
class B:
    for x in loader: pass
@property
@functools.wraps(f)
async def inner(self): pass
match x, y:
    case (int() as a, [b, *c]) | {"k": a, **b}: pass
    case "a" | 1 | None | -1.5: pass
    case Point(x=0): pass
try:
    try: pass
    finally: x()
except (A, B): pass
except: raise
"""
#: what editors, tools and old machines leave in files
ODD = (
    "\t", "\x0c", "\r", "\r\n", "\n", "\\\n", "\\", ";", "\x00", "\ufeff", "\u2028", "\x85", "\u202e", "\x1b[2J",
    "\xa0", "é", "\u0301", "\U0001f525", "\ud800", '"""', "'''", "f'{", "rb'", "(" * 120, ")" * 30, "[" * 250,
    "lambda:" * 40, "not " * 200, "a." * 300, "-" * 400, "1" * 5000, "0x", "1_0", "0777", "9" * 400, "1e", "x" * 3000,
    "    " * 30, "::", "->", ":=", "**", "//=", "@", "...", "# gradlint: ignore", "match", "case", "type X = int\n",
    "except*", "async ", "await ", "print x", "$", "?", "`", "%%bash\n", "%time ", "!ls", "def f[T](x): pass\n",
    "t'{x}'", "{{ cookiecutter }}", "<<<<<<< HEAD\n", "```", "___",
    "except* A:\n", "class A[T: int = str, *U, **V]: pass\n", "lazy import x\n", "0b2", "0o8", "1__0", "'\\", "\x1a",
    "f'{x!r:{y}}'", 'f"{x["a"]}"', "f'{{}}{'", "\n\x0c\n", "\u200b", "\u00b5", "\u1e9b", "...;" * 60, "@" * 9,
    "if x:\n" * 3, "else:\n", "finally:\n", "global x\n", "*", "**", "yield ", "from . import x\n", "=(",
    "(yield)", ":(", "x=" * 60,
)  # fmt: skip
_TOKEN = re.compile(r"\s+|\w+|\*\*=?|//=?|[-+*/%@&|^<>=!:]=|->|\.\.\.|[^\w\s]", re.ASCII)


class Input(NamedTuple):
    """A file: what it is called says how it is read."""

    name: str
    data: bytes


class Pool:
    """Python programs that others borrow from."""

    def __init__(self, programs: Sequence[str]) -> None:
        self._programs = programs

    @cached_property
    def _trees(self) -> list[ast.Module]:
        return [ast.parse(text) for text in self._programs]

    def expression(self, rng: random.Random) -> ast.expr:
        return copy.deepcopy(rng.choice(self._expressions))

    def statement(self, rng: random.Random) -> ast.stmt:
        return copy.deepcopy(rng.choice(self._statements))

    def wrapper(self, rng: random.Random) -> ast.stmt:
        return copy.deepcopy(rng.choice(self._wrappers))

    @cached_property
    def _expressions(self) -> list[ast.expr]:
        own = [ast.parse(text.strip(), mode="eval").body for text in re.split(r";|\n", EXPRESSIONS) if text.strip()]
        return own * 5 + [node for tree in self._trees for node in ast.walk(tree) if isinstance(node, ast.expr)]

    @cached_property
    def _statements(self) -> list[ast.stmt]:
        own = [ast.parse(text.strip()).body[0] for text in re.split(r";|\n", STATEMENTS) if text.strip()]
        found = (node for tree in self._trees for node in ast.walk(tree) if isinstance(node, ast.stmt))
        return own * 5 + [node for node in found if (node.end_lineno or 0) - node.lineno < 4]

    @cached_property
    def _wrappers(self) -> list[ast.stmt]:
        return ast.parse(WRAPPERS).body

    @cached_property
    def names(self) -> list[str]:
        return [name for text in self._programs for name in re.findall(r"[A-Za-z_]\w*", text)]

    @cached_property
    def tokens(self) -> list[str]:
        return [token for text in self._programs for token in _TOKEN.findall(text)]


def mutated(text: str, pool: Pool, rng: random.Random) -> str:
    """The same text with one to four changes."""
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        change = rng.choices((_tree, _shape, _tokens, _lines, _style, _characters), (50, 12, 12, 9, 12, 5))[0]
        text = change(text, pool, rng)
    return text


def flipped(data: bytes, rng: random.Random) -> bytes:
    """The same bytes with one to four changes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            changed[at : at + rng.choice((1, 1, 2, 20))] = b""
        elif kind == 1:
            changed[at:at] = rng.choice(ODD).encode("utf-8", "surrogatepass")
        elif kind == 2:
            changed[at : at + 1] = bytes((rng.randrange(256),))
        elif kind == 3:
            changed[at:at] = changed[at : at + rng.choice((1, 8, 60))] * rng.choice((1, 2, 9))
        else:
            other = rng.randrange(len(changed) + 1)
            changed[at:at] = changed[other : other + rng.choice((4, 20, 80))]
    return bytes(changed)


# -- trees


def _tree(text: str, pool: Pool, rng: random.Random) -> str:
    try:
        tree = ast.parse(text)
        for _ in range(rng.choice((1, 1, 2))):
            rng.choice(_GROWTHS)(tree, pool, rng)
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError, AttributeError):
        # of broken text, and of trees that no text has
        return _tokens(text, pool, rng)


def _shape(text: str, pool: Pool, rng: random.Random) -> str:
    """The same statements, otherwise cut into functions, classes and loops."""
    try:
        tree = ast.parse(text)
        rng.choice(GROWTHS)(tree, rng)
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError, AttributeError):
        return _lines(text, pool, rng)


def _slots(tree: ast.AST) -> list[tuple[ast.AST, str, int | None, ast.expr]]:
    """Where expressions stand: the node, the field, and the place if it is a list."""
    found: list[tuple[ast.AST, str, int | None, ast.expr]] = []
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                found.append((node, field, None, value))
            elif isinstance(value, list):
                found += [(node, field, n, item) for n, item in enumerate(value) if isinstance(item, ast.expr)]
    return found


def _replace_expression(tree: ast.Module, pool: Pool, rng: random.Random) -> None:
    slots = _slots(tree)
    if not slots:
        return
    node, field, at, old = rng.choice(slots)
    new = _other_expression(old, slots, pool, rng)
    if at is None:
        setattr(node, field, new)
    else:
        getattr(node, field)[at] = new


def _other_expression(
    old: ast.expr, slots: Sequence[tuple[ast.AST, str, int | None, ast.expr]], pool: Pool, rng: random.Random
) -> ast.expr:  # fmt: skip
    kind = rng.randrange(10)
    if kind < 4:
        return pool.expression(rng)
    borrowed = copy.deepcopy(rng.choice(slots)[3])  # a tree that holds itself would have no end
    if kind < 6:
        return borrowed
    made: tuple[Callable[[], ast.expr], ...] = (
        lambda: ast.IfExp(borrowed, old, pool.expression(rng)),
        lambda: ast.Call(old, [borrowed], []),
        lambda: ast.Call(ast.Name(rng.choice(pool.names)), [old], [ast.keyword(rng.choice(pool.names), borrowed)]),
        lambda: ast.Attribute(old, rng.choice(pool.names)),
        lambda: ast.Subscript(old, borrowed),
        lambda: ast.BinOp(old, rng.choice((ast.Div(), ast.Mult(), ast.Mod(), ast.FloorDiv(), ast.Pow())), borrowed),
        lambda: ast.BoolOp(rng.choice((ast.And(), ast.Or())), [old, borrowed]),
        lambda: ast.Compare(old, [rng.choice((ast.Eq(), ast.Lt(), ast.In(), ast.IsNot()))], [borrowed]),
        lambda: ast.Lambda(ast.arguments([], [], None, [], [], None, []), old),
        lambda: ast.Starred(old),
        lambda: ast.Tuple([old, borrowed]),
        lambda: ast.NamedExpr(ast.Name(rng.choice(pool.names)), old),
        lambda: ast.ListComp(old, [ast.comprehension(ast.Name(rng.choice(pool.names)), borrowed, [], 0)]),
        lambda: ast.JoinedStr([ast.FormattedValue(old, -1)]),
        lambda: ast.Await(old),
        lambda: ast.Constant(rng.choice((0, -1, 1, 3, 1e999, "", None, True, 10**400, 1j, b"", ...))),
    )
    return rng.choice(made)()


def _bodies(tree: ast.AST) -> list[list[ast.stmt]]:
    found: list[list[ast.stmt]] = []
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body:
                found.append(body)
    return found


def _change_statement(tree: ast.Module, pool: Pool, rng: random.Random) -> None:
    bodies = _bodies(tree)
    if not bodies:
        return
    body = rng.choice(bodies)
    at = rng.randrange(len(body))
    other = rng.choice(bodies)
    kind = rng.randrange(8)
    if kind == 0:
        del body[at]
    elif kind == 1:
        body.insert(at, pool.statement(rng))
    elif kind == 2:
        body[at] = pool.statement(rng)
    elif kind == 3:
        other.insert(rng.randrange(len(other) + 1), copy.deepcopy(body[at]))
    elif kind == 4:
        body.insert(rng.randrange(len(body)), body.pop(at))
    elif kind == 5:
        moved = copy.deepcopy(body.pop(at))
        other.insert(rng.randrange(len(other) + 1), moved)
    else:
        end = at + rng.choice((1, 1, 2, 3))
        body[at:end] = [_wrapped(body[at:end], pool, rng)]
    if not body:
        body.append(ast.Pass())


def _wrapped(body: list[ast.stmt], pool: Pool, rng: random.Random) -> ast.stmt:
    outer = pool.wrapper(rng)
    for inner in _bodies(outer):
        if any(isinstance(node, ast.Pass) for node in inner):
            inner[:] = [made for node in inner for made in (body if isinstance(node, ast.Pass) else [node])]
            break
    return outer


def _rename(tree: ast.Module, pool: Pool, rng: random.Random) -> None:
    """One occurrence of a name, or all of them."""
    named = [node for node in ast.walk(tree) if _named(node) is not None]
    if not named:
        return
    chosen = rng.choice(named)
    old, new = _named(chosen), rng.choice(pool.names)
    for node in named if rng.random() < 0.5 else [chosen]:
        field = _named(node)
        if field is not None and old is not None and getattr(node, field) == getattr(chosen, old):
            setattr(node, field, new)


def _named(node: ast.AST) -> str | None:
    for kind, field in (
        (ast.Name, "id"),
        (ast.Attribute, "attr"),
        (ast.arg, "arg"),
        (ast.keyword, "arg"),
        (ast.alias, "name"),
    ):
        if isinstance(node, kind):
            return field
    return "name" if isinstance(node, ast.FunctionDef | ast.ClassDef) else None


def _change_arguments(tree: ast.Module, pool: Pool, rng: random.Random) -> None:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if not calls:
        return
    call = rng.choice(calls)
    kind = rng.randrange(5)
    if kind == 0 and call.args:
        del call.args[rng.randrange(len(call.args))]
    elif kind == 1 and call.keywords:
        del call.keywords[rng.randrange(len(call.keywords))]
    elif kind == 2:
        call.args.append(pool.expression(rng))
    elif kind == 3:
        call.keywords.append(ast.keyword(rng.choice((None, *pool.names[:50])), pool.expression(rng)))
    elif call.args:
        call.keywords.append(ast.keyword(rng.choice(pool.names), call.args.pop()))


_GROWTHS = (_replace_expression, _change_statement, _change_statement, _rename, _change_arguments)


# -- text


def _tokens(text: str, pool: Pool, rng: random.Random) -> str:
    tokens = _TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(tokens) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            del tokens[at : at + rng.choice((1, 1, 3))]
        elif kind == 1:
            tokens[at:at] = [rng.choice(pool.tokens)]
        elif kind == 2:
            tokens[at : at + 1] = [rng.choice(pool.tokens)]
        elif kind == 3:
            tokens[at:at] = tokens[at : at + rng.choice((1, 5))]
        elif tokens:
            other = rng.randrange(len(tokens))
            tokens[at:at] = [tokens.pop(other)]
    return "".join(tokens)


def _lines(text: str, pool: Pool, rng: random.Random) -> str:
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    kind = rng.randrange(6)
    if kind == 0:
        del lines[at : at + rng.choice((1, 1, 2))]
    elif kind == 1:
        lines.insert(rng.randrange(len(lines)), lines.pop(at))
    elif kind == 2:
        lines.insert(at, lines[at])
    elif kind == 3:
        lines[at] = lines[at][rng.choice((1, 2, 4)) :] if lines[at].startswith(" ") else "    " + lines[at]
    elif kind == 4:
        end = at + rng.choice((1, 2, 4))
        lines[at:end] = ["    " + line for line in lines[at:end]]
    else:
        lines[at : at + 2] = [";".join(line.strip() for line in lines[at : at + 2])]
    return "\n".join(lines)


def _style(text: str, pool: Pool, rng: random.Random) -> str:
    return restyled(text, rng)


def _characters(text: str, pool: Pool, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    kind = rng.randrange(4)
    if kind == 0:
        return text[:at] + rng.choice(ODD) + text[at:]
    if kind == 1:
        return text[:at] + text[at + rng.choice((1, 2, 10, 50)) :]
    if kind == 2:
        return text[:at] + rng.choice(ODD)
    other = rng.randrange(len(text) + 1)
    return text[:at] + text[other : other + rng.choice((3, 20, 100))] + text[at:]
