"""Accelerate, Fabric, Lightning and DeepSpeed: who divides the loss, who syncs, who steps."""

from __future__ import annotations

from gradlint.events import ClipApi, ClipKind, Manager, Norm, OptimizerRef, Step, Zero
from gradlint.frontend import syntax as s
from gradlint.frontend import values as v
from gradlint.frontend.interp.gradients import Arguments, Gradients
from gradlint.frontend.interp.run import WINDOW
from gradlint.frontend.knowledge import naming


class Frameworks(Gradients):
    """The managed ways of training."""

    def make_framework(self, dotted: str, tail: str, a: Arguments, node: s.Call) -> v.Value | None:
        if tail == "Accelerator":
            return self._make_accelerator(a)
        if tail == "Fabric" or dotted.endswith("LightningLite"):
            return v.Framework("", Manager.FABRIC)
        if dotted == "deepspeed.initialize" or dotted.endswith(".deepspeed.initialize"):
            return self._deepspeed(a, node)
        if dotted.startswith("apex.amp.initialize") or dotted == "amp.initialize":
            return v.Collection("", list(a.args[:2])) if len(a.args) > 1 else (a.args[0] if a.args else None)
        return None

    def _make_accelerator(self, a: Arguments) -> v.Framework:
        steps = a.kwargs.get("gradient_accumulation_steps")
        plugin = a.kwargs.get("gradient_accumulation_plugin") or a.kwargs.get("deepspeed_plugin")
        one = isinstance(steps, v.Known) and steps.value == 1 and not steps.key
        divides = steps is not None and not one
        return v.Framework(
            "", Manager.ACCELERATE, steps.key if steps is not None else "", divides,
            accumulates=divides or plugin is not None,
        )  # fmt: skip

    def framework_for(self, base: v.Value) -> v.Framework:
        """An accelerator or fabric that comes from elsewhere, by its name."""
        found = self.run.inferred.get((base.key, "framework"))
        if not isinstance(found, v.Framework):
            fabric = naming.FABRIC.search(naming.last(base.key))
            manager = Manager.FABRIC if fabric else Manager.ACCELERATE
            found = v.Framework(base.key, manager, "", False)
            self.run.inferred[(base.key, "framework")] = found
        return found

    def _deepspeed(self, a: Arguments, node: s.Call) -> v.Value:
        model = a.get(1, "model") or v.Unknown("model")
        ref = OptimizerRef("", "", self.params_of(model), "", Manager.DEEPSPEED, True)
        engine = v.Framework("", Manager.DEEPSPEED, "", True, True, model)
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
            self.backward(loss, node, manager=base.manager, divides=base.divides)
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
        by_value = name == "clip_grad_value_" or "clip_val" in a.kwargs
        if name == "clip_gradients" and len(a.args) > 1:
            a = Arguments(a.args[:1], a.kwargs)
        kind = ClipKind.VALUE if by_value else ClipKind.NORM
        return self.clip(node, a, kind=kind, api=ClipApi.MANAGED, manager=base.manager)

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
        last = loop is not None and loop.data and loop.turn == loop.turns - 1  # a loader's end closes the window
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
            self.backward(loss, node, manager=Manager.DEEPSPEED, divides=isinstance(base, v.Framework))
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
            ref = OptimizerRef(f"{base.key} engine", base.key, self.params_of(model), "", Manager.DEEPSPEED, False)
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
            args = Arguments(a.args[:1], a.kwargs)
            by_value = isinstance(alg := a.kwargs.get("gradient_clip_algorithm"), v.Known) and alg.value == "value"
            kind = ClipKind.VALUE if by_value else ClipKind.NORM
            return self.clip(node, args, kind=kind, api=ClipApi.MANAGED, manager=Manager.LIGHTNING)
        if name in ("toggle_optimizer", "untoggle_optimizer", "log", "log_dict", "print", "all_gather"):
            return v.Known("", None)
        return None
