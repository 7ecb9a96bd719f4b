"""Right training files, put together from parts that real projects have."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tests.repair.layout import Stmt, block, lines


class Window(enum.Enum):
    """How micro-batches become an update."""

    PLAIN = enum.auto()
    MODULO = enum.auto()
    COUNTER = enum.auto()
    SKIPPED = enum.auto()
    INNER = enum.auto()


class Home(enum.Enum):
    """Where the loop stands."""

    FUNCTION = enum.auto()
    CLASS = enum.auto()
    SCRIPT = enum.auto()


class Clearing(enum.Enum):
    """How gradients are cleared."""

    HEAD = enum.auto()
    BEHIND = enum.auto()
    MODEL = enum.auto()


class Precision(enum.Enum):
    """Whether there is a scaler."""

    FULL = enum.auto()
    MIXED = enum.auto()
    FLAGGED = enum.auto()


class Wrapping(enum.Enum):
    """What is round the model."""

    BARE = enum.auto()
    DDP = enum.auto()
    NO_SYNC = enum.auto()


class Scheduling(enum.Enum):
    """When the learning rate moves on."""

    NEVER = enum.auto()
    STEP = enum.auto()
    EPOCH = enum.auto()


class Clipping(enum.Enum):
    """How gradients are clipped."""

    NEVER = enum.auto()
    PLAIN = enum.auto()
    BOUND = enum.auto()
    GUARDED = enum.auto()


@dataclass(frozen=True)
class Plan:
    """What one file is made of."""

    window: Window = Window.PLAIN
    home: Home = Home.FUNCTION
    clearing: Clearing = Clearing.HEAD
    wrapping: Wrapping = Wrapping.BARE
    scheduling: Scheduling = Scheduling.NEVER
    clipping: Clipping = Clipping.PLAIN
    precision: Precision = Precision.FULL
    #: the update is a function, or a method, of its own
    helper: bool = False
    #: a second model with an optimizer of its own, in turn with the first
    rival: bool = False

    @property
    def accumulates(self) -> bool:
        return self.window is not Window.PLAIN

    @property
    def synced(self) -> bool:
        """DDP that accumulates without `no_sync` would be a finding."""
        return self.wrapping is Wrapping.NO_SYNC and self.accumulates

    @property
    def amp(self) -> bool:
        return self.precision is not Precision.FULL

    @property
    def own(self) -> str:
        return "self." if self.home is Home.CLASS else ""


def composed(plan: Plan) -> list[Stmt]:
    """The whole file."""
    return _Composer(plan).file()


class _Composer:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.model = f"{plan.own}model"
        self.optimizer = f"{plan.own}optimizer"
        self.scaler = f"{plan.own}scaler"
        self.scheduler = f"{plan.own}scheduler"

    def file(self) -> list[Stmt]:
        plan = self.plan
        head = lines("from contextlib import nullcontext", "import torch", "from torch import nn", "accum = 4")
        head += lines("use_amp = torch.cuda.is_available()") if plan.precision is Precision.FLAGGED else []
        loop = block("for epoch in range(10):", *self._epoch())
        helper = [block(f"def apply_update({self._helper_arguments()}):", *self._update())] if plan.helper else []
        match plan.home:
            case Home.SCRIPT:
                return [*head, *lines("net = nn.Linear(8, 2)", "rival = nn.Linear(8, 2)"), *helper, *self._made(), loop]
            case Home.FUNCTION:
                main = block("def train(net, rival, loader, criterion):", *self._made(), loop, "return model")
                return [*head, *helper, main]
            case Home.CLASS:
                given = lines("self.net, self.rival, self.criterion = net, rival, criterion")
                made = block("def __init__(self, net, rival, criterion):", *given, *self._made())
                return [*head, block("class Trainer:", made, block("def train(self, loader):", loop), *helper)]

    def _helper_arguments(self) -> str:
        if self.plan.home is Home.CLASS:
            return "self"
        return ", ".join(self._handed())

    def _handed(self) -> list[str]:
        names = ["model", "optimizer"]
        names += ["scaler"] if self.plan.amp else []
        return names + (["scheduler"] if self.plan.scheduling is Scheduling.STEP else [])

    def _made(self) -> list[Stmt]:
        plan, own = self.plan, self.plan.own
        model = f"{own}net" if own else "net"
        wrapped = model if plan.wrapping is Wrapping.BARE else f"nn.parallel.DistributedDataParallel({model})"
        if plan.accumulates and not plan.synced:
            wrapped = model
        made = lines(f"{self.model} = {wrapped}")
        made += lines(f"{self.optimizer} = torch.optim.AdamW({self.model}.parameters(), lr=1e-3)")
        if plan.scheduling is not Scheduling.NEVER:
            made += lines(f"{self.scheduler} = torch.optim.lr_scheduler.StepLR({self.optimizer}, 100)")
        if plan.amp:
            made += lines(f'{self.scaler} = torch.amp.GradScaler("cuda")')
        if plan.rival:
            made += lines(f"{own}opt_r = torch.optim.SGD({own}rival.parameters(), lr=0.1)")
        if plan.home is Home.SCRIPT:
            made += lines("criterion = nn.MSELoss()")
        return made

    def _epoch(self) -> list[Stmt]:
        plan = self.plan
        behind = lines(f"{self.scheduler}.step()") if plan.scheduling is Scheduling.EPOCH else []
        match plan.window:
            case Window.PLAIN:
                loop = [block("for x, y in loader:", *self._cleared(*self._micro(), *self._boundary()))]
            case Window.MODULO:
                test = "(i + 1) % accum == 0 or i + 1 == len(loader)"
                loop = self._counted("for i, (x, y) in enumerate(loader):", test)
            case Window.SKIPPED:
                loop = self._skipping()
            case Window.COUNTER:
                loop = [*lines("held = 0"), *self._counted("for x, y in loader:", "held == accum", "held += 1")]
            case Window.INNER:
                inner = block("for k in range(accum):", "x, y = next(batches)", *self._micro("k < accum - 1"))
                loop = lines("batches = iter(loader)")
                loop += [block("for update in range(100):", *self._cleared(inner, *self._boundary()))]
        return [*loop, *behind]

    def _counted(self, header: str, test: str, *count: str) -> list[Stmt]:
        reset = lines("held = 0") if count else []
        end = block("if full:" if self.plan.synced else f"if {test}:", *self._boundary(), self._zero(), *reset)
        asked = lines(f"full = {test}") if self.plan.synced else []
        return [self._zero(), block(header, *lines(*count), *asked, *self._micro("not full"), end)]

    def _skipping(self) -> list[Stmt]:
        """The boundary is what lies behind a `continue`."""
        rest = [*self._boundary(), self._zero()]
        asked = lines("full = (i + 1) % accum == 0 or i + 1 == len(loader)")
        body = [*asked, *self._micro("not full"), block("if not full:", "continue"), *rest]
        return [self._zero(), block("for i, (x, y) in enumerate(loader):", *body)]

    def _cleared(self, *body: Stmt) -> list[Stmt]:
        """A turn with its zeroing, before or behind all else."""
        return [*body, self._zero()] if self.plan.clearing is Clearing.BEHIND else [self._zero(), *body]

    def _zero(self) -> Stmt:
        who = self.model if self.plan.clearing is Clearing.MODEL else self.optimizer
        return Stmt(f"{who}.zero_grad(set_to_none=True)" if self.plan.amp else f"{who}.zero_grad()")

    def _micro(self, unsynced: str = "") -> list[Stmt]:
        """Forward and backward."""
        plan = self.plan
        share = " / accum" if plan.accumulates else ""
        loss = lines(f"loss = {plan.own}criterion({self.model}(x), y){share}")
        if plan.amp:
            enabled = ", enabled=use_amp" if plan.precision is Precision.FLAGGED else ""
            loss = [block(f'with torch.autocast("cuda", dtype=torch.float16{enabled}):', *loss)]
        loss += self._either([f"{self.scaler}.scale(loss).backward()"], ["loss.backward()"])
        if plan.synced:
            return [block(f"with {self.model}.no_sync() if {unsynced} else nullcontext():", *loss)]
        return loss

    def _either(self, scaled: list[str], plain: list[str]) -> list[Stmt]:
        """With the scaler, without it, or as the flag has it."""
        if self.plan.precision is Precision.FLAGGED:
            return [block("if use_amp:", *scaled), *([block("else:", *plain)] if plain else [])]
        return lines(*(scaled if self.plan.amp else plain))

    def _boundary(self) -> list[Stmt]:
        given = "" if self.plan.home is Home.CLASS else ", ".join(self._handed())
        update = lines(f"{self.plan.own}apply_update({given})") if self.plan.helper else self._update()
        return [*update, *self._rival()]

    def _update(self) -> list[Stmt]:
        plan = self.plan
        clip = f"torch.nn.utils.clip_grad_norm_({self.model}.parameters(), max_norm=1.0)"
        clips: dict[Clipping, list[Stmt]] = {
            Clipping.NEVER: [],
            Clipping.PLAIN: lines(clip),
            Clipping.BOUND: lines(f"norm = {clip}", 'print("norm", norm.item())'),
            Clipping.GUARDED: [block("if accum > 1:", clip)],
        }
        steps = [f"{self.scaler}.step({self.optimizer})", f"{self.scaler}.update()"]
        update = self._either([f"{self.scaler}.unscale_({self.optimizer})"], []) + clips[plan.clipping]
        update += self._either(steps, [f"{self.optimizer}.step()"])
        return update + (lines(f"{self.scheduler}.step()") if plan.scheduling is Scheduling.STEP else [])

    def _rival(self) -> list[Stmt]:
        """The other model's whole update; it has no scaler."""
        own = self.plan.own
        if not self.plan.rival:
            return []
        loss = f"loss_r = {own}criterion({own}rival(x), y)"
        return lines(f"{own}opt_r.zero_grad()", loss, "loss_r.backward()", f"{own}opt_r.step()")
