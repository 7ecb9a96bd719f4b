"""Helpers, methods, closures and contexts are followed: the same loop, written in many ways, tells the same story."""

from __future__ import annotations

import pytest

from gradlint.paths.run import OUTER_TURNS, TURNS
from tests.paths.tracing import each_turn, happened, names, paths, story, usual

ZERO_BACKWARD_STEP = ("Zero", "Backward", "Step")

#: each clears, makes and uses gradients once per batch; the entry is the function that the path starts with
SAME_STORY: dict[str, tuple[str, str]] = {
    "a plain loop": (
        "train",
        """
        def train(model, optimizer, loader):
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
        """,
    ),
    "a script": (
        "",
        """
        import torch
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        """,
    ),
    "a main guard": (
        "",
        """
        def train(model, optimizer, loader):
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
        if __name__ == "__main__":
            train(make_model(), make_optimizer(), loader)
        """,
    ),
    "a helper": (
        "train",
        """
        def update(optimizer, loss):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        def train(model, optimizer, loader):
            for x in loader:
                update(optimizer, model(x).mean())
        """,
    ),
    "a helper of a helper, by keyword": (
        "train",
        """
        def back(loss):
            loss.backward()
        def update(opt, loss):
            opt.zero_grad()
            back(loss)
            opt.step()
        def train(model, optimizer, loader):
            for x in loader:
                update(loss=model(x).mean(), opt=optimizer)
        """,
    ),
    "a helper that returns early": (
        "train",
        """
        def update(optimizer, loss):
            optimizer.zero_grad()
            loss.backward()
            return
            optimizer.step()
        def train(model, optimizer, loader):
            for x in loader:
                update(optimizer, model(x).mean())
                optimizer.step()
        """,
    ),
    "a method": (
        "fit",
        """
        class Trainer:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer
            def _update(self, loss):
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            def fit(self, loader):
                for x in loader:
                    self._update(self.model(x).mean())
        """,
    ),
    "a method for each batch": (
        "learn",
        """
        class Agent:
            def learn(self, batch):
                self.optimizer.zero_grad()
                loss = self.net(batch).mean()
                loss.backward()
                self.optimizer.step()
        """,
    ),
    "a base class": (
        "fit",
        """
        class Base:
            def update(self, loss):
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        class Trainer(Base):
            def fit(self, loader):
                for x in loader:
                    self.update(self.model(x).mean())
        """,
    ),
    "super()": (
        "fit",
        """
        class Base:
            def update(self, loss):
                self.optimizer.zero_grad()
                loss.backward()
        class Trainer(Base):
            def update(self, loss):
                super().update(loss)
                self.optimizer.step()
            def fit(self, loader):
                for x in loader:
                    self.update(self.model(x).mean())
        """,
    ),
    "a closure in the loop": (
        "train",
        """
        def train(model, optimizer, loader):
            for x in loader:
                def backward():
                    optimizer.zero_grad()
                    model(x).mean().backward()
                backward()
                optimizer.step()
        """,
    ),
    "a closure for LBFGS": (
        "train",
        """
        import torch
        def train(model, loader):
            optimizer = torch.optim.LBFGS(model.parameters())
            for x in loader:
                def closure():
                    optimizer.zero_grad()
                    loss = model(x).mean()
                    loss.backward()
                    return loss
                optimizer.step(closure)
        """,
    ),
    "a lambda": (
        "train",
        """
        def train(model, optimizer, loader):
            advance = lambda: optimizer.step()
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                advance()
        """,
    ),
    "functools.partial": (
        "train",
        """
        from functools import partial
        def update(optimizer, loss):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        def train(model, optimizer, loader):
            advance = partial(update, optimizer)
            for x in loader:
                advance(model(x).mean())
        """,
    ),
    "bound methods under other names": (
        "train",
        """
        def train(model, optimizer, loader):
            clear, advance = optimizer.zero_grad, optimizer.step
            for x in loader:
                clear()
                model(x).mean().backward()
                advance()
        """,
    ),
    "a callable object": (
        "train",
        """
        class Update:
            def __init__(self, optimizer):
                self.optimizer = optimizer
            def __call__(self, loss):
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        def train(model, optimizer, loader):
            update = Update(optimizer)
            for x in loader:
                update(model(x).mean())
        """,
    ),
    "a context manager that is a generator": (
        "train",
        """
        from contextlib import contextmanager
        @contextmanager
        def stepping(optimizer):
            optimizer.zero_grad()
            yield
            optimizer.step()
        def train(model, optimizer, loader):
            for x in loader:
                with stepping(optimizer):
                    model(x).mean().backward()
        """,
    ),
    "an optimizer from a factory": (
        "train",
        """
        import torch
        def make(model):
            return torch.optim.AdamW(model.parameters())
        def train(model, loader):
            opt = make(model)
            for x in loader:
                opt.zero_grad()
                model(x).mean().backward()
                opt.step()
        """,
    ),
    "an optimizer in a dict": (
        "train",
        """
        import torch
        def train(gen, loader):
            optimizers = {"gen": torch.optim.Adam(gen.parameters())}
            for x in loader:
                optimizers["gen"].zero_grad()
                gen(x).mean().backward()
                optimizers["gen"].step()
        """,
    ),
    "a helper that calls itself": (
        "train",
        """
        def update(optimizer, loss, n):
            loss.backward()
            if n:
                update(optimizer, loss, n - 1)
        def train(model, optimizer, loader, n):
            for x in loader:
                optimizer.zero_grad()
                update(optimizer, model(x).mean(), n)
                optimizer.step()
        """,
    ),
    "a validation without gradients behind it": (
        "train",
        """
        import torch
        def train(model, optimizer, loader):
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
                with torch.no_grad():
                    print(model(x).mean())
        """,
    ),
}


@pytest.mark.parametrize("name", SAME_STORY)
def test_the_same_story(name: str) -> None:
    entry, source = SAME_STORY[name]
    path = usual(source)
    assert story(source) == each_turn(ZERO_BACKWARD_STEP, TURNS)
    assert path.entry == entry
    assert path.whole is (entry == "")


def test_a_file_without_training_has_no_paths() -> None:
    assert paths("def add(a, b):\n    return a + b\nenv.step(action)\n") == []


def test_functions_that_call_each_other_end() -> None:
    source = """
        def ping(optimizer, loss):
            loss.backward()
            pong(optimizer, loss)
        def pong(optimizer, loss):
            optimizer.step()
            ping(optimizer, loss)
        def train(model, optimizer, loader):
            for x in loader:
                optimizer.zero_grad()
                ping(optimizer, model(x).mean())
        """
    assert names(usual(source))[:3] == list(ZERO_BACKWARD_STEP)


@pytest.mark.parametrize(("call", "cleared"), [("clear=True", True), ("clear=False", False), ("", False)])
def test_arguments_and_defaults_decide(call: str, cleared: bool) -> None:
    source = f"""
        def update(optimizer, loss, clear=False):
            loss.backward()
            optimizer.step()
            if clear:
                optimizer.zero_grad()
        def train(model, optimizer, loader):
            for x in loader:
                update(optimizer, model(x).mean(), {call})
        """
    kinds = ("Backward", "Step", "Zero") if cleared else ("Backward", "Step")
    assert story(source) == each_turn(kinds, TURNS)


def test_the_whole_update_in_mixed_precision() -> None:
    source = """
        import torch
        def train(model, optimizer, loader):
            scaler = torch.amp.GradScaler("cuda")
            for x in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(x).mean()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
        """
    assert story(source) == each_turn(("Zero", "Backward", "Unscale", "Clip", "Step", "Update"), TURNS)


def test_what_is_done_to_gradients_by_hand() -> None:
    source = """
        import torch
        def train(model, optimizer, loader):
            for x in loader:
                for p in model.parameters():
                    p.grad = None
                model(x).mean().backward()
                for p in model.parameters():
                    p.grad.mul_(0.5)
                norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
        """
    assert names(usual(source)) == ["Zero", "Backward", "Edit", "Read", "Clip", "Step"] * TURNS


def test_a_loop_that_breaks_has_one_turn() -> None:
    source = """
        def train(model, optimizer, loader):
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
                break
        """
    assert story(source) == each_turn(ZERO_BACKWARD_STEP, 1)


def test_finally_comes_last() -> None:
    source = """
        def train(model, optimizer, loader):
            for x in loader:
                try:
                    model(x).mean().backward()
                    optimizer.step()
                finally:
                    optimizer.zero_grad()
        """
    assert story(source) == each_turn(("Backward", "Step", "Zero"), TURNS)


def test_epochs_are_short_and_their_batches_are_not() -> None:
    source = """
        import torch
        def train(model, optimizer, loader, epochs):
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
            for epoch in range(epochs):
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                scheduler.step()
        """
    expected = [
        event for epoch in range(OUTER_TURNS) for event in (*each_turn(ZERO_BACKWARD_STEP, TURNS), ("Schedule", epoch))
    ]
    assert story(source) == expected


def test_frames_name_every_loop_from_the_outside_in() -> None:
    source = """
        def train(model, optimizer, loader, epochs):
            for epoch in range(epochs):
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
        """
    last = happened(usual(source))[-1]
    assert [frame.turn for frame in last.frames] == [OUTER_TURNS - 1, TURNS - 1]
    assert len({frame.loop for frame in last.frames}) == 2


def test_events_are_numbered_in_order() -> None:
    path = usual(SAME_STORY["a plain loop"][1])
    assert [event.index for event in path.events] == list(range(len(path.events)))
