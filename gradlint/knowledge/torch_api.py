"""PyTorch's own names: optimizers, schedulers, clips, wrappers, AMP."""

from __future__ import annotations

from gradlint.events import Backward, Clip, Edit, Read, Save, Schedule, Step, Unscale, Update, Zero
from gradlint.knowledge.pattern import Pattern
from gradlint.knowledge.rows import Does, Makes, Opens, Row, Switch, Thing

#: `from torch import nn` and fragments without imports: what these names stand for when nothing says otherwise
USUAL_NAMES = {
    "torch": "torch", "th": "torch", "nn": "torch.nn", "optim": "torch.optim", "F": "torch.nn.functional",
    "dist": "torch.distributed", "DDP": "torch.nn.parallel.DistributedDataParallel",
    "DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "FSDP": "torch.distributed.fsdp.FullyShardedDataParallel",
    "GradScaler": "torch.amp.GradScaler", "autocast": "torch.amp.autocast",
    "clip_grad_norm_": "torch.nn.utils.clip_grad_norm_", "clip_grad_value_": "torch.nn.utils.clip_grad_value_",
    "clip_grad_norm": "torch.nn.utils.clip_grad_norm", "nullcontext": "contextlib.nullcontext",
    "ExitStack": "contextlib.ExitStack", "deepspeed": "deepspeed", "math": "math", "itertools": "itertools",
    "contextlib": "contextlib", "Accelerator": "accelerate.Accelerator", "lr_scheduler": "torch.optim.lr_scheduler",
    "functools": "functools", "partial": "functools.partial", "chain": "itertools.chain",
    "tqdm": "tqdm.tqdm", "trange": "tqdm.trange",
}  # fmt: skip

#: libraries whose training looks like PyTorch's and is not
OTHER_LIBRARIES = frozenset({"paddle", "mindspore", "oneflow", "jittor", "megengine", "mxnet", "chainer", "tinygrad"})

OPTIMIZER_CLASS = Pattern(
    r"^(Fused|Deep[sS]peed|Distributed|Paged|Hybrid|Schedule[fF]ree|Bf16|LB)?(CPU)?"
    r"(Adam|AdamW|SGD|ASGD|RMSprop\w*|RMSProp\w*|Adagrad|Adadelta|Adamax|NAdam|RAdam|SparseAdam|LBFGS|Rprop|Adafactor|"
    r"Lion|LAMB|Lamb|LARS|Lars|NovoGrad|Ranger\w*|MADGRAD|Prodigy|Sophia\w*|Muon|AdaBelief|Yogi|Shampoo|DAdapt\w*|"
    r"BertAdam|OpenAIAdam|AdaBound|AdamP|SGDP|QHAdam|ZeroRedundancyOptimizer|DistributedOptimizer|FP16_Optimizer|"
    r"Adam8bit|AdamW8bit|AdEMAMix|CAME)(\d*bit|_?mini|W|ScheduleFree|Factory|WScheduleFree|Like)?\d?$"
)
#: optimizers whose update does not grow with the gradient's scale
SCALE_FREE = Pattern(r"(?i)adam|lion|rmsprop|adagrad|lamb|nadam|radam|adafactor|prodigy")
SCHEDULER_CLASS = Pattern(
    r"^(LambdaLR|MultiplicativeLR|StepLR|MultiStepLR|ConstantLR|LinearLR|ExponentialLR|PolynomialLR|CosineAnnealingLR|"
    r"ChainedScheduler|SequentialLR|CyclicLR|OneCycleLR|CosineAnnealingWarmRestarts|ReduceLROnPlateau|SWALR)$"
)
#: `torch.optim.Adam`, `torch.optim.adam.Adam`, `apex.optimizers.FusedAdam`, but neither
#: `torch.optim.swa_utils.AveragedModel` nor a scheduler
TORCH_OPTIMIZER = Pattern(
    r"^(torch\.optim|apex\.optimizers)\."
    r"(?!swa_utils\.|lr_scheduler\.)(\w+\.)?(?!\w*(LR|Model|Scheduler)$)[A-Z]\w*$"
)
#: where a wrapper keeps the module that it wraps: DDP, FSDP, and what torch.compile gives
INNER_MODULE = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
#: where a wrapper keeps the optimizer that it wraps
INNER_OPTIMIZER = {
    "optimizer", "_optimizer", "optim", "_optim", "opt", "_opt", "base_optimizer", "_base_optimizer", "inner_optimizer",
    "inner", "wrapped", "wrapped_optimizer", "torch_optimizer", "optimizer_", "base",
}  # fmt: skip
#: functions of transformers and diffusers that make a LambdaLR
SCHEDULER_FUNCTION = Pattern(r"^get_(\w+_)?schedule(r)?(_with\w*)?$|^get_scheduler$")
SCHEDULER_PREFIX = "torch.optim.lr_scheduler."
#: packages whose schedulers are torch's, or made of them; and where such a one may be written without its package
SCHEDULER_PACKAGES = ("torch.", "transformers.", "diffusers.")
SCHEDULER_HOMES = (*SCHEDULER_PACKAGES, "lr_scheduler.")

#: whether numbers are any
FINITE = frozenset({"isnan", "isinf", "isfinite"})
CLIP_NORM = {"clip_grad_norm_", "clip_grad_norm"}
CLIP_VALUE = {"clip_grad_value_", "clip_grad_value"}

DDP = {"DistributedDataParallel", "DDP", "smart_DDP"}
FSDP1 = {"FullyShardedDataParallel", "FSDP"}
FSDP2 = {"fully_shard"}
TRANSPARENT = {
    # wrappers that give back the same module, possibly another object
    "compile", "DataParallel", "BalancedDataParallel", "convert_sync_batchnorm", "convert_syncbn_model", "to_device",
    "prepare_model", "checkpoint_wrapper", "parallelize_module", "get_peft_model", "script", "unwrap_model",
}  # fmt: skip

SCALER_CLASSES = {"GradScaler", "ShardedGradScaler"}
AUTOCAST = {
    "torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast",
    "torch.amp.autocast_mode.autocast", "torch.cuda.amp.autocast_mode.autocast", "torch.npu.amp.autocast",
}  # fmt: skip
NO_GRAD = {
    "torch.no_grad",
    "torch.inference_mode",
    "torch.autograd.no_grad",
    "torch.set_grad_enabled",
    "torch.enable_grad",
}

#: where distributions come from, whose `sample` gives nothing that a gradient runs through
DISTRIBUTIONS = "torch.distributions."

#: tensor methods that cut the graph
CUTS = {
    "detach", "item", "detach_", "tolist", "numpy", "argmax", "argmin", "eq", "ne", "bool", "long", "int", "size",
    "numel",
}  # fmt: skip
MODULE_PASSTHROUGH = {
    "to", "cuda", "cpu", "train", "eval", "half", "float", "double", "bfloat16", "requires_grad_", "apply", "xpu",
    "npu", "share_memory", "type", "compile", "module",
}  # fmt: skip
PARAMETER_METHODS = {"parameters", "named_parameters", "trainable_parameters", "get_parameters", "parameters_to_train"}

#: hooks that see, or may replace, the gradient of a tensor
HOOKS = {"register_hook", "register_post_accumulate_grad_hook"}

_DERIVED = ("grad", "Grad")
#: not "backwards compatible", nor the steps of a schedule
_BACKWARD = r"[._]backward\b|\bimport\b.*\bbackward\b"
_STEP = r"\.step\b"
#: what of torch makes events, as rows: the names are those that the interpreter asks for, by the sets above
ROWS: tuple[Row, ...] = (
    Makes(
        Thing.OPTIMIZER, "torch.optim.**", "**.*Optimizer",
        # names that OPTIMIZER_CLASS knows, wherever they come from
        words=(
            "optim", "Optim", "Ada", "AdEMAMix", "SGD", "RMS", "LBFGS", "Rprop", "Lion", "LAMB", "Lamb", "LARS",
            "Lars", "NovoGrad", "Ranger", "MADGRAD", "Prodigy", "Sophia", "Muon", "Yogi", "Shampoo", "CAME",
        ),
    ),
    Makes(
        Thing.SCHEDULER, "torch.optim.lr_scheduler.**", "**.get_*schedule*",
        words=(
            "sched", "Sched", "warmup", "warm_up", "Warmup", "lr_decay", "lr_policy", "LambdaLR", "MultiplicativeLR",
            "StepLR", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR", "CosineAnnealing", "SequentialLR",
            "CyclicLR", "OneCycleLR", "ReduceLROnPlateau", "SWALR",
        ),
    ),
    Makes(Thing.SCALER, *(f"**.{name}" for name in sorted(SCALER_CLASSES)), words=("caler",)),
    Makes(Thing.WRAPPER, *(f"**.{name}" for name in sorted(DDP | FSDP1 | FSDP2))),
    Does(Backward, "backward", "torch.autograd.backward", on=Thing.TENSOR, looks=_BACKWARD),
    Does(Step, "step", on=Thing.OPTIMIZER, looks=_STEP),
    # a helper that steps the optimizer it is given: see naming.OPTIMIZES
    Does(Step, "**.optimize", "**.optimise", on=Thing.TEXT),
    Does(Schedule, "step", on=Thing.SCHEDULER, looks=_STEP),
    # and `p.grad = None`, `p.grad.zero_()`, `clear_gradients(model)`
    Does(Zero, "zero_grad", on=Thing.OPTIMIZER, words=_DERIVED),
    Does(Unscale, "unscale_", on=Thing.SCALER, beside=("caler",)),
    Does(Update, "update", on=Thing.SCALER, beside=("caler",)),
    # a function of any name that says so, and `p.grad.clamp_()`
    Does(
        Clip, *sorted(CLIP_NORM | CLIP_VALUE), "clip_gradients", "clip_grads", on=Thing.TEXT,
        words=("clip", "Clip", "CLIP"), beside=_DERIVED,
        looks=r"(?i)clip\w*grad|grad\w*clip|grad.*\.clip_?\(|\.clip_?\(.*grad",
    ),
    Does(Clip, "**.clamp", "**.clamp_", on=Thing.TEXT, beside=(".grad",), looks=r"\.clamp_?\("),
    # gradients that are scaled in a loop over parameters, which may be used up
    Does(
        Clip, "**.grad", on=Thing.TEXT, words=(".grad",),
        looks=r"\.grad\S* ?[*/]=|\.grad\S*\.(mul|div)_\(|\.grad\S* = .*\.grad\S* ?[*/]",
    ),
    Does(Edit, "**.grad", on=Thing.TEXT, words=_DERIVED),
    Does(Save, "**.grad", on=Thing.TEXT, words=_DERIVED),
    Does(Read, "**.grad", "**.*norm*", on=Thing.TEXT, words=(*_DERIVED, "norm", "Norm")),
    Opens(Switch.NO_SYNC, "no_sync", "set_requires_gradient_sync"),
    Opens(Switch.NO_SYNC, "**.require_backward_grad_sync", "**.set_is_last_backward"),
    Opens(Switch.AUTOCAST, *(f"{name}" for name in sorted(AUTOCAST))),
    Opens(Switch.NO_GRAD, *sorted(NO_GRAD)),
)  # fmt: skip
