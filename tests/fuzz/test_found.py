"""Inputs that broke something once, as `python -m benchmarks.fuzz` found them and made them small."""

from __future__ import annotations

import pytest

from tests.fuzz.holds import check
from tests.fuzz.mutants import Input

FOUND = {
    "form feeds in front of a block": Input(
        "train.py",
        b"def train(model, optimizer, loader):\n\x0c    grad_scaler = StaticScaler(1024.0)\n"
        b"\x0c    for batch in loader:\n"
        b"\x0c        optimizer.zero_grad()\n\x0c        grad_scaler.scale(model(batch).mean()).backward()\n"
        b"\x0c        grad_scaler.step(optimizer, model.parameters())\n\x0c",
    ),
    "unused suppression behind a backslash": Input(
        "train.py", b"for x in loader:\n    with torch():()\\\n #gradlint:ignore[GL4]"
    ),
    "enumerate of nothing": Input(
        "train.py",
        b"def train(loader, accum):\n    for i, x in enumerate():\n        loss.backward()\n"
        b"        if i % accum == accum - 1:\n            optimizer.step()\n            optimizer.zero_grad()\n",
    ),
    "enumerate into nothing": Input(
        "train.py",
        b"def train(loader, accum):\n    for () in enumerate(loader):\n        loss.backward()\n"
        b"        if i % accum == accum - 1:\n            optimizer.step()\n            optimizer.zero_grad()\n",
    ),
    "clearing that holds the loop": Input(
        "train.py",
        b"def train():\n    for()in ():\n        for()in optimizer.zero_grad():\n            loss.backward()\n"
        b"            if(step)%cfg['']==0:optimizer.step\n            if 50==0:([''])\n        loss.backward()",
    ),
    "division by infinity": Input(
        "train.py",
        b"class OwnStep:\n    def compute_loss():\n        loss=model().loss/1e309\n        loss.backward()",
    ),
    "division by more than a float can hold": Input(
        "train.py",
        b"for x in loader:\n    loss = model(x) / " + b"9" * 400 + b"\n    loss.backward()\n    optimizer.step()\n",
    ),
    "multiplication by more than a float can hold": Input(
        "train.py",
        b"for x in loader:\n    loss = model(x) * " + b"9" * 400 + b"\n    loss.backward()\n    optimizer.step()\n",
    ),
    "a limit that no float can hold": Input(
        "train.py",
        b"import torch\nfor x in loader:\n    model(x).mean().backward()\n    optimizer.step()\n"
        b"    torch.nn.utils.clip_grad_norm_(model.parameters(), " + b"9" * 400 + b")\n    optimizer.zero_grad()\n",
    ),
    "an option that no float can hold": Input(
        "gradlint.toml", b"[rules.clip-threshold-too-small]\nthreshold = " + b"9" * 400
    ),
    "an f-string of a newer Python beside the step": Input(
        "train.py",
        b"for epoch in ():\n        loss.backward()\n        optimizer.step()\n        if step:(f'{(\n):}')",
    ),
    "a clamp with one argument too many": Input(
        "train.py", b"def optimize():\n    for param in policy_net:param.grad.clamp_(1,1,weights)"
    ),
    "brackets without end in a pattern": Input(
        "train.py", b"import torch\nmatch x:\n    case " + b"(" * 120 + b"{'a': 1} if c:\n        loss.backward()\n"
    ),
    "as many brackets as one likes in a pattern": Input(
        "train.py",
        b"import torch\nfor x in loader:\n    match x:\n        case "
        + b"(" * 40
        + b"y"
        + b")" * 40
        + b":\n            model(y).backward()\n    optimizer.step()\n",
    ),
    "a star behind `in`": Input(
        "train.py",
        b"def fit(f,):\n        for y in*zip(xs):\n            loss.backward()\n            opt.step()",
    ),
    "an activation that is kept, and used in a loop": Input(
        "train.py",
        b"class Net():\n    def __init__(self):\n        self.act=nn.Sigmoid()\n"
        b"        self.layers=nn.ModuleList(nn.Linear(8,)for _ in range(6))\n    def forward(self):\n"
        b"        for layer in self.layers:\n            x=self.act(layer(x))",
    ),
    "strings that libcst will not join": Input("train.py", b"import torch\nx = ''t'{x}'\nloss.backward()\n"),
    "a logarithm behind a function in its function": Input(
        "train.py",
        b"import torch\ndef loss_fn(y_true, y_pred):\n    def inner(x):\n        return x.mean()\n"
        b"    return inner(y_true * torch.log(y_pred))\n",
    ),
    "an error that is a loss": Input("train.py", b"import torch\nerror = torch.sqrt((b) ** 2)\n"),
    "a softmax that is handed to who calls the criterion": Input(
        "train.py",
        b"import torch\ndef update(probs, labels):\n    return F.cross_entropy(probs, labels)\n"
        b"def training_loss(logits, labels):\n    probs = torch.softmax(logits, -1)\n    update(probs, labels)\n",
    ),
    "a loss's class inside a block": Input(
        "train.py",
        b"import torch\nif True:\n    class LikelihoodLoss():\n        def forward(self, logits):\n"
        b"            picked = logits.softmax(-1)\n            return -torch.log(picked)\n",
    ),
    "a scheduler with a short name": Input(
        "train.py", b"import torch\nfor x in loader:\n    sched.step()\n    opt.step()\n"
    ),
    "a root without a zero": Input(
        "train.py", b"import torch\ndef power_loss(b):\n    return (((b) ** 2).sum() ** .5).mean()\n"
    ),
    "loops in loops in loops": Input(
        "train.py", b"".join(b" " * n + b"for x in x:\n" for n in range(25)) + b" " * 25 + b"loss /= accum\n"
    ),
    "a clamp that keeps nothing away from zero": Input(
        "train.py",
        b"import torch\ndef loss_fn(pred, y):\n    p = torch.softmax(pred, -1)\n"
        b"    return -(y * p.clamp_min(GradientClipping=1e06).log()).mean()\n",
    ),
    "a logarithm in a helper with a guard elsewhere": Input(
        "train.py",
        b"import torch\ndef entropy(p):\n    n = int(p.size(0))\n    return -(p * torch.log(p)).sum() / n\n\n"
        b"def loss_fn(logits):\n    return entropy(torch.softmax(logits, -1))\n",
    ),
    "a root of what a name stands for": Input(
        "train.py",
        b"import torch\ndef power_loss(p, q):\n    low = (p - q) ** 2\n    return torch.pow(low, 0.5)\n",
    ),
    "a logarithm of the module": Input(
        "train.py",
        b"import torch\nlog_probs = torch.log(probs)\ndef entropy_loss():\n    return (probs * log_probs).sum()\n",
    ),
    "a softmax in a function of one row": Input(
        "train.py",
        b"def training_loss(model,):out=().mean.softmax();max(dim).values()(F.cross_entropy(out,reduction='')"
        b"*confidence).penalty",
    ),
    "a root that takes arguments": Input("train.py", b"def silog_loss():return(d**2).sqrt(().mean()-85*2)"),
    "a helper with an activation, in a loop": Input(
        "train.py",
        b"def block(layer,x):\n    x=torch.sigmoid(layer(x))\n    return x\nclass MLP():\n"
        b"    def __init__(self,depth=6):self.layers=nn.ModuleList([nn.Linear(width,)for _ in range(depth)])\n"
        b"    def forward(self,):\n        for layer in self.layers:x=block(layer,x)",
    ),
    "a helper that a loss's class calls": Input(
        "train.py",
        b"def inner():\n    listwise=(relevance*torch.log(self.softmax())).sum()\n    return(listwise,pairwise)\n"
        b"class ListNetLoss():\n    def __init__():()\n    def forward(self):\n"
        b"        listwise,pairwise=inner(scores)\n        return stack([listwise.mean,pairwise.mean()]).sum()",
    ),
    "a function in the one that it uses": Input(
        "train.py",
        b"def temperature_loss():\n    probs=F.softmax(logits,)\n    def helper():\n"
        b"        F.cross_entropy(probs.float())\n    helper()",
    ),
    "a half with many zeros": Input(
        "train.py", b"def distance_loss(model,):\n    torch\n    return((error**2)**00.5).mean()"
    ),
    "a half power of a name": Input(
        "train.py",
        b"F\ndef augmented_loss():\n    total=((pred-target)**2).sum()\n    class A():1e08\n    return(total**.5).mean",
    ),
    "a root without torch": Input("train.py", b"def distance_loss():return((error**2)**.5)"),
    "a quotient without torch": Input("train.py", b"def relative_loss():return(()/pred)"),
    "names in letters of full width": Input(
        "train.py",
        b"def train():\n    for()in (loader):\n        (()/n).backward()\n"
        b"        for x in loader:optimizer.\xef\xbd\x93\xef\xbd\x94\xef\xbd\x85\xef\xbd\x90()",
    ),
    "a fix inside of an f-string": Input(
        "train.py",
        b"import torch as th\nfor y in mnist:\n    with f'{th.cuda.amp.autocast()}':\n"
        b"        def _run():scaler(model='')",
    ),
    "turns of a zip of nothing": Input("train.py", b"for p,in zip(x=()):p.grad"),
}


@pytest.mark.parametrize("given", FOUND.values(), ids=FOUND)
def test_what_was_found(given: Input) -> None:
    check(given)
