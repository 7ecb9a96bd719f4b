"""Accelerate, Fabric, Lightning and DeepSpeed: who divides the loss, who syncs, who steps."""

from __future__ import annotations

from gradlint.events import WINDOW, ClipApi, ClipKind, Manager, Norm, OptimizerRef, Role, Step, Zero
from gradlint.frontend import roles
from gradlint.frontend import syntax as s
from gradlint.frontend import values as v
from gradlint.frontend.interp.gradients import Arguments, Gradients
from gradlint.knowledge import frameworks as known
from gradlint.knowledge import naming


class Frameworks(Gradients):
    """The managed ways of training."""

    def make_framework(self, dotted: str, tail: str, a: Arguments, node: s.Call) -> v.Value | None:
        if tail == "Accelerator":
            return self._make_accelerator(a)
        if tail in ("GradientAccumulationPlugin", "DeepSpeedPlugin"):
            return self._make_plugin(tail, a)
        if tail == "Fabric" or dotted.endswith("LightningLite"):
            return v.Framework("", Manager.FABRIC)
        if dotted == "deepspeed.initialize" or dotted.endswith(".deepspeed.initialize"):
            return self._deepspeed(a, node)
        if dotted.startswith("apex.amp.initialize") or dotted == "amp.initialize":
            return v.Collection("", list(a.args[:2])) if len(a.args) > 1 else (a.args[0] if a.args else None)
        return None

    def _make_accelerator(self, a: Arguments) -> v.Framework:
        plugin = a.kwargs.get("gradient_accumulation_plugin") or a.kwargs.get("deepspeed_plugin")
        steps = a.kwargs.get("gradient_accumulation_steps") or _entry(plugin, known.DEEPSPEED_STEPS)
        divides = steps is not None and not _is_one(steps)
        return v.Framework(
            "", Manager.ACCELERATE, steps.key if steps is not None else "", divides,
            accumulates=divides or plugin is not None, size=v.whole_number(steps),
        )  # fmt: skip

    def _make_plugin(self, tail: str, a: Arguments) -> v.Value:
        """What a plugin of Accelerate knows of the window; nothing where it is "auto", or stands in a file."""
        if tail == "GradientAccumulationPlugin":
            steps = a.get(0, "num_steps")
        else:
            steps = a.get(1, known.DEEPSPEED_STEPS) or _entry(a.get(0, "hf_ds_config"), known.DEEPSPEED_STEPS)
        entries = {} if steps is None or _is_auto(steps) else {f'"{known.DEEPSPEED_STEPS}"': steps}
        return v.Collection(tail, [], entries, "dict")

    def framework_for(self, base: v.Value) -> v.Framework:
        """An accelerator or fabric that comes from elsewhere, by its name."""
        found = self.run.inferred.get((base.key, "framework"))
        if not isinstance(found, v.Framework):
            fabric = naming.FABRIC.search(naming.last(base.key))
            manager = Manager.FABRIC if fabric else Manager.ACCELERATE
            found = v.Framework(base.key, manager, "", False)
            found.guess = roles.suspect(self.program, Role.FRAMEWORK, base.key, f"is {manager.value}'s")
            self.run.inferred[(base.key, "framework")] = found
        return found

    def _deepspeed(self, a: Arguments, node: s.Call) -> v.Value:
        model = a.get(1, "model") or v.Unknown("model")
        ref = OptimizerRef("", "", self.params_of(model), "", Manager.DEEPSPEED, True)
        steps = _entry(a.kwargs.get("config") or a.kwargs.get("config_params"), known.DEEPSPEED_STEPS)
        window, size = (steps.key, v.whole_number(steps)) if steps is not None else ("", None)
        engine = v.Framework("", Manager.DEEPSPEED, window, not _counts_one(a.kwargs), True, model, size=size)
        scheduler = v.Scheduler("", None, True, Manager.DEEPSPEED)
        return v.Collection(s.render(node), [engine, v.Optimizer("", ref), v.Unknown("loader"), scheduler])

    # -- Accelerate and Fabric

    def framework_method(self, base: v.Framework, name: str, a: Arguments, node: s.Call) -> v.Value:
        if base.manager is Manager.DEEPSPEED:
            return self.engine_method(base, name, a, node)
        if name == "backward":
            loss = a.get(0, "loss") or v.Unknown("loss")
            if self.run.accelerate_sync is not None and isinstance(loss, v.Tensor) and loss.norm is Norm.RAW:
                loss = loss.but(norm=Norm.UNKNOWN)  # inside `accumulate` the framework divides
            own = isinstance(loss, v.Tensor) and loss.divisor == f"{base.key}.{known.DEEPSPEED_STEPS}"
            divides = (base.divides or (own and bool(base.key))) and not _keeps_scale(a)
            self.backward(
                loss, node, manager=base.manager, divides=divides, by=base, gradient=a.kwargs.get("gradient"),
                guess=base.guess,
            )  # fmt: skip
            return v.Known("", None)
        if name in ("prepare", "setup", "prepare_model", "prepare_optimizer", "setup_module", "setup_optimizers",
                    "setup_dataloaders", "prepare_data_loader", "prepare_scheduler"):  # fmt: skip
            return self._prepared(base, a)
        if name in ("clip_grad_norm_", "clip_grad_value_", "clip_gradients"):
            return self._managed_clip(base, name, a, node)
        if name in ("accumulate", "no_sync", "no_backward_sync", "autocast", "join_uneven_inputs"):
            return self._managed_context(base, name, a, node)
        if name == "unwrap_model" and a.args:
            return a.args[0]
        if name == "gather" and a.args:
            return v.Unknown(s.render(node), called="gather")
        return v.Unknown(s.render(node), called=name)

    def _prepared(self, base: v.Framework, a: Arguments) -> v.Value:
        for value in a.every:
            optimizer = self.run.optimizer_for(value)
            if optimizer is not None:
                self.run.manage(optimizer, base.manager)
            if isinstance(value, v.Scheduler):
                value.manager = base.manager
            elif isinstance(value, v.Unknown) and naming.SCHEDULER.search(naming.last(value.key)):
                self.run.inferred[(value.key, "scheduler")] = v.Scheduler(value.key, None, True, base.manager)
        values = a.every
        return values[0] if len(values) == 1 else v.Collection("", values)

    def _managed_clip(self, base: v.Framework, name: str, a: Arguments, node: s.Call) -> v.Value:
        by_value = name == "clip_grad_value_"
        if name == "clip_gradients":
            # Fabric's (module, optimizer, clip_val, max_norm): one of the two limits is None
            value, norm = a.get(2, "clip_val"), a.get(3, "max_norm")
            by_value = not _is_none(value) and _is_none(norm)
            limit = value if by_value else norm if _is_none(value) else None
            a = Arguments(a.args[:1], {"max_norm": limit or v.Unknown("limit")})
        kind = ClipKind.VALUE if by_value else ClipKind.NORM
        return self.clip(node, a, kind=kind, api=ClipApi.MANAGED, manager=base.manager, guess=base.guess)

    def _managed_context(self, base: v.Framework, name: str, a: Arguments, node: s.Call) -> v.Value:
        site = self.run.site(node)
        if name == "accumulate":
            return v.Context(s.render(node), "accumulate", site, value=base)
        if name == "autocast":
            return v.Context(s.render(node), "managed autocast", site)
        model = a.get(0, "module", "model") or v.Unknown("model")
        if name == "no_backward_sync":
            return self.no_sync_context(model, node, a.get(1, "enabled"))
        if name == "no_sync":
            return self.no_sync_context(model, node)
        return v.Context(s.render(node), "other", site)

    def enter_accumulate(self, framework: v.Framework) -> None:
        """Starts a micro-batch; `sync_gradients` keeps its value behind the block, as it does in Accelerate."""
        self.run.accelerate_count += 1
        loop = self.run.loops[-1] if self.run.loops else None
        last = loop is not None and loop.data and loop.number() == loop.turns - 1  # a loader's end closes the window
        size = self.window_size(naming.last(framework.window)) if framework.window else WINDOW
        full = self.run.accelerate_count % size == 0
        self.run.accelerate_sync = not framework.accumulates or full or last
        if last:
            self.run.accelerate_count = 0

    # -- DeepSpeed

    def engine_method(self, base: v.Value, name: str, a: Arguments, node: s.Call) -> v.Value:
        model = base.model if isinstance(base, v.Framework) and base.model is not None else base
        optimizer = self._engine_optimizer(base, model)
        if name == "backward":
            loss = a.get(0, "loss") or v.Unknown("loss")
            divides = isinstance(base, v.Framework) and base.divides and not _keeps_scale(a)
            framework = base if isinstance(base, v.Framework) else None
            guess = optimizer.ref.guess
            self.backward(loss, node, manager=Manager.DEEPSPEED, divides=divides, by=framework, guess=guess)
            return v.Known("", None)
        if name == "step":
            self.run.emit(Step, node, optimizer=optimizer.ref.id, manager=Manager.DEEPSPEED)
            return v.Known("", None)
        if name == "zero_grad":
            self.run.emit(Zero, node, params=optimizer.ref.params)
            return v.Known("", None)
        if name in ("parameters", "named_parameters"):
            return v.ParamsValue("", self.params_of(model), True, None, name == "named_parameters")
        if name in ("train", "eval"):
            return base
        return v.Unknown(s.render(node), called=name)

    def _engine_optimizer(self, base: v.Value, model: v.Value) -> v.Optimizer:
        found = self.run.inferred.get((base.key, "engine"))
        if not isinstance(found, v.Optimizer):
            known = isinstance(base, v.Framework)
            guess = None if known else roles.suspect(self.program, Role.FRAMEWORK, base.key, "is a DeepSpeed engine")
            params = self.params_of(model)
            ref = OptimizerRef(f"{base.key} engine", base.key, params, "", Manager.DEEPSPEED, False, guess=guess)
            found = v.Optimizer(base.key, ref)
            self.run.inferred[(base.key, "engine")] = found
            self.run.register(ref)
        return found

    # -- Lightning

    def lightning_method(self, base: v.Instance, name: str, a: Arguments, node: s.Call) -> v.Value | None:
        if name == "manual_backward":
            self.backward(a.get(0, "loss") or v.Unknown("loss"), node, manager=Manager.LIGHTNING)
            return v.Known("", None)
        if name == "optimizers":
            return v.Unknown(f"{base.key}.optimizers()")
        if name == "lr_schedulers":
            return v.Unknown(f"{base.key}.lr_schedulers()")
        if name == "clip_gradients":
            return self._lightning_clip(a, node)
        if name in ("toggle_optimizer", "untoggle_optimizer", "log", "log_dict", "print", "all_gather"):
            return v.Known("", None)
        return None

    def _lightning_clip(self, a: Arguments, node: s.Call) -> v.Value:
        """`self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)`."""
        limit, algorithm = a.get(1, "gradient_clip_val"), a.get(2, "gradient_clip_algorithm")
        named = {"gradient_clip_val": limit, "gradient_clip_algorithm": algorithm}
        args = Arguments(a.args[:1], {k: x for k, x in named.items() if x is not None and not _is_none(x)})
        by_value = (isinstance(algorithm, v.Known) and str(algorithm.value).lower() == "value") or (
            isinstance(algorithm, v.Dotted) and algorithm.key.endswith("GradClipAlgorithmType.VALUE")
        )
        kind = ClipKind.VALUE if by_value else ClipKind.NORM
        return self.clip(node, args, kind=kind, api=ClipApi.MANAGED, manager=Manager.LIGHTNING)


def _is_none(value: v.Value | None) -> bool:
    return value is None or (isinstance(value, v.Known) and value.value is None)


def _is_one(steps: v.Value) -> bool:
    """The number itself, written down; what is counted with has another key."""
    return isinstance(steps, v.Known) and steps.value == 1 and steps.key == "1"


def _is_auto(steps: v.Value) -> bool:
    return isinstance(steps, v.Known) and isinstance(steps.value, str)


def _entry(config: v.Value | None, key: str) -> v.Value | None:
    return config.entries.get(f'"{key}"') if isinstance(config, v.Collection) else None


def _keeps_scale(a: Arguments) -> bool:
    """`engine.backward(loss, scale_wrt_gas=False)`: DeepSpeed does not divide."""
    wanted = a.kwargs.get("scale_wrt_gas")
    return wanted is not None and not (isinstance(wanted, v.Known) and wanted.value is True)


def _counts_one(kwargs: dict[str, v.Value]) -> bool:
    """A configuration in the file whose windows have one micro-batch: DeepSpeed divides by one.

    Without the key DeepSpeed finds the number out from two batch sizes; with one of them it is one.
    """
    config = kwargs.get("config") or kwargs.get("config_params")
    if not isinstance(config, v.Collection) or config.kind != "dict" or not config.entries:
        return False
    steps = _entry(config, known.DEEPSPEED_STEPS)
    if steps is not None:
        return isinstance(steps, v.Known) and steps.value == 1
    both = [_entry(config, key) for key in ("train_batch_size", "train_micro_batch_size_per_gpu")]
    return None in both
