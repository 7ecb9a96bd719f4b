"""Names, defaults and `super()` mean what they mean where they stand, whoever runs the code."""

from __future__ import annotations

from gradlint.events import Clip, Zero
from tests.paths.tracing import happened, names, paths, usual


def test_what_another_function_imports_is_not_seen() -> None:
    source = """
        def tidy(model):
            from torch.nn.utils import clip_grad_norm_ as limit
            limit(model.parameters(), 1.0)
        def train(model, loader, optimizer):
            for x in loader:
                model(x).mean().backward()
                limit(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        """
    (path,) = [path for path in paths(source) if path.entry == "train" and not path.unusual]
    assert not [event for event in path.events if isinstance(event, Clip)]


def test_two_functions_that_import_one_name_get_two_things() -> None:
    source = """
        def tidy(model):
            from torch.nn.utils import clip_grad_norm_ as limit
            limit(model.parameters(), 1.0)
        def log(model):
            from tools import show as limit
            limit(model.parameters(), 1.0)
        def train(model, loader, optimizer):
            for x in loader:
                model(x).mean().backward()
                log(model)
                tidy(model)
                optimizer.step()
                optimizer.zero_grad()
        """
    assert names(usual(source))[:4] == ["Backward", "Clip", "Step", "Zero"]


def test_a_default_is_that_of_the_function_not_of_its_caller() -> None:
    source = """
        def clear(optimizer):
            optimizer.zero_grad()
        def update(optimizer, tool=clear):
            optimizer.step()
            tool(optimizer)
        def train(model, loader, optimizer, clear):
            for x in loader:
                model(x).mean().backward()
                update(optimizer)
        """
    assert names(usual(source))[:3] == ["Backward", "Step", "Zero"]


def test_super_finds_what_stands_behind_a_mixin() -> None:
    source = """
        class Base:
            def update(self):
                self.optimizer.step()
        class Clears:
            def update(self):
                super().update()
                self.optimizer.zero_grad()
        class Trainer(Clears, Base):
            def train(self, model, loader):
                for x in loader:
                    model(x).mean().backward()
                    self.update()
        """
    assert names(usual(source))[:3] == ["Backward", "Step", "Zero"]


def test_super_asks_the_first_parameter_whatever_it_is_called() -> None:
    source = """
        class Base:
            def clear(self):
                self.optimizer.zero_grad()
        class Trainer(Base):
            def clear(this):
                super().clear()
            def train(this, model, loader):
                for x in loader:
                    this.clear()
                    model(x).mean().backward()
                    this.optimizer.step()
        """
    assert next(type(event) for event in happened(usual(source))) is Zero


def test_what_two_stars_stand_for_is_handed_over() -> None:
    source = """
        import torch
        def tidy(model, limit=None, **rest):
            torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
        def train(model, loader, optimizer):
            settings = {"limit": 0.5}
            for x in loader:
                model(x).mean().backward()
                tidy(model, **settings)
                optimizer.step()
                optimizer.zero_grad()
        """
    assert {event.threshold for event in happened(usual(source)) if isinstance(event, Clip)} == {0.5}
