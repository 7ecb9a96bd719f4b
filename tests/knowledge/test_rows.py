"""Names of rows, and which frameworks are found by them."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from gradlint.events import PLAIN, Framework
from gradlint.knowledge import frameworks
from gradlint.knowledge.frameworks.accelerate import ACCELERATE
from gradlint.knowledge.frameworks.apex import APEX
from gradlint.knowledge.frameworks.deepspeed import DEEPSPEED
from gradlint.knowledge.frameworks.fabric import FABRIC
from gradlint.knowledge.frameworks.lightning import LIGHTNING
from gradlint.knowledge.rows import Argument, Given, Makes, Opens, Passes, Switch, Thing, at, fits


@pytest.mark.parametrize(
    ("name", "dotted", "fit"),
    [
        ("**.Accelerator", "Accelerator", True),
        ("**.Accelerator", "accelerate.accelerator.Accelerator", True),
        ("**.Accelerator", "accelerate.MyAccelerator", False),
        ("transformers.**.*Trainer", "transformers.Seq2SeqTrainer", True),
        ("transformers.**.*Trainer", "transformers.trainer.Trainer", True),
        ("transformers.**.*Trainer", "Trainer", False),
        ("apex.**", "apex.parallel.DistributedDataParallel", True),
        ("apex.**", "apexes.amp", False),
        ("deepspeed.initialize", "my.deepspeed.initialize", False),
    ],
)
def test_names(name: str, dotted: str, fit: bool) -> None:
    assert fits(name, dotted) is fit


@pytest.mark.parametrize(
    ("dotted", "framework", "verb"),
    [
        ("accelerate.Accelerator", ACCELERATE, Makes),
        ("lightning.fabric.Fabric", FABRIC, Makes),
        ("deepspeed.initialize", DEEPSPEED, Makes),
        ("apex.amp.scale_loss", APEX, Opens),
        ("apex.parallel.convert_syncbn_model", APEX, Passes),
    ],
)
def test_functions(dotted: str, framework: Framework, verb: type[object]) -> None:
    found = frameworks.of_call(dotted)
    assert found is not None
    assert found[0] is framework
    assert isinstance(found[1], verb)


def test_objects_are_known_by_what_they_are_called() -> None:
    assert frameworks.named("self_accelerator") is ACCELERATE
    assert frameworks.named("_fabric") is FABRIC
    assert frameworks.named("engine", Thing.ENGINE) is DEEPSPEED
    assert frameworks.named("model") is None
    assert frameworks.engine("model").waits


def test_prepared_optimizers_come_from_elsewhere() -> None:
    assert frameworks.preparing({"accelerator", "accumulate"}) is ACCELERATE
    assert frameworks.preparing({"accelerator", "prepare"}) is PLAIN


def test_classes_of_the_file_that_a_framework_calls() -> None:
    found = frameworks.calling(["LightningModule"])
    assert found is not None
    assert found[0] is LIGHTNING
    assert frameworks.calling(["Module"]) is None
    alike = frameworks.alike({"training_step", "configure_optimizers"}.__contains__)
    assert alike is not None
    assert alike[0] is LIGHTNING


def test_in_use_by_imports_or_by_a_base_class() -> None:
    assert [x.name for x in frameworks.in_use(["deepspeed"], set())] == ["DeepSpeed"]
    assert [x.name for x in frameworks.in_use([], {"LightningModule"})] == ["Lightning"]
    assert [x.name for x in frameworks.in_use([], {"deepspeed"})] == []  # `args.deepspeed` is a flag


def test_what_no_verb_can_say() -> None:
    makes = frameworks.of_call("deepspeed.initialize")
    assert makes is not None
    assert isinstance(makes[1], Makes)
    assert makes[1].divides is not None
    divides = makes[1].divides
    one = Argument("1", constant=True, value=1)
    assert divides(Given((), {}))
    assert not divides(Given((), {"config": Argument("c", entries={"gradient_accumulation_steps": one})}))
    assert not divides(Given((), {"config": Argument("c", entries={"train_batch_size": one})}))
    both = {"train_batch_size": one, "train_micro_batch_size_per_gpu": one}
    assert divides(Given((), {"config": Argument("c", entries=both)}))


def test_arguments_by_place_and_by_name() -> None:
    given = Given((Argument("x"),), {"model": Argument("m")})
    assert given.get(at(0, "loss")) == Argument("x")
    assert given.get(at(0, "model")) == Argument("m")
    assert given.get(at(1, "loss")) is None
    assert given.get(at(-1, "loss")) is None


def test_a_window_tells_of_its_end() -> None:
    told = [row.told_by for row in ACCELERATE.rows if isinstance(row, Opens) and row.context is Switch.WINDOW]
    assert told == ["sync_gradients"]
    assert frameworks.tells_window("sync_gradients")
    assert not frameworks.tells_window("")


def test_every_file_of_the_folder_is_one_framework() -> None:
    files = {path.stem for path in Path(frameworks.__file__).parent.glob("*.py")} - {"__init__"}
    modules = [importlib.import_module(f"{frameworks.__name__}.{name}") for name in sorted(files)]
    own = [[x for x in vars(module).values() if isinstance(x, Framework)] for module in modules]
    assert [found[0] for found in own if len(found) == 1] == list(frameworks.FRAMEWORKS)
    assert len(own) == len(files) == len({framework.name for framework in frameworks.FRAMEWORKS})
