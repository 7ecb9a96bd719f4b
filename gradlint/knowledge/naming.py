"""What a name suggests when nothing better is known: the last resort of role inference."""

from __future__ import annotations

import functools
import re

from gradlint.knowledge.pattern import Pattern

#: `optim_steps_per_batch` is a number
OPTIMIZER = Pattern(
    r"(?i:optim(?!\w*(?:_steps|_iters|_epochs|_per_)))|(^|_)opts?(_|\d|$|[A-Z])|[a-z]Opts?($|[A-Z_\d])|^(?i:solver)"
)
SCHEDULER = Pattern(r"(?i)sched|lr_?decay|lr_?policy|warm_?up")
SCALER = Pattern(r"(?i)scaler|^grad_scale$")
#: classes that do what torch's does
GRAD_SCALER = Pattern(r"(?i)grad_?scaler")
MODEL = Pattern(
    r"(?i)model|net($|_|\d|[a-z]$)|^net|module|(?<!f)actor|critic(?!al)|policy|agent|encoder|decoder|generator|discriminator|"
    r"backbone|transformer|classifier|^[GDEQ]$|^(G|D)_|_[GD]$|^qf|^q_|student|teacher|unet|vae|gan$|gpt|bert|lstm|rnn"
)
#: where things keep their model; no verb
MODEL_ATTRIBUTES = frozenset({"model", "net", "network"})
LOSS = Pattern(
    r"(?i)loss|criterion|objective|cost|(^|_)err|err(or)?s?($|_|\d)|nll|(^|_)kl|kl(d|div)?($|_|\d)|^crit(?!ic)"
)
#: an object that computes a loss, kept in an attribute; a verb in front says that it is a method with a will of its own
CRITERION = Pattern(
    r"(?i)^(?!compute|get|calc|forward|make|reduce|log|update)(\w*_)?(loss|criterion)(_fn|_func|_function)?$"
)
#: a function, or an object, that makes a loss of a model and a batch, not of its weights
RUNS_MODEL = Pattern(
    r"(?i)^(?!\w*(reg|penal|l1|l2|decay|ewc))((compute|calc(ulate)?|get|forward|make)_?\w*loss|"
    r"(\w*_)?(loss|criterion)(_?(fn|func|function|comput\w*|module))?$)"
)
#: an unknown flag with such a name says that a window of micro-batches is full
BOUNDARY = Pattern(
    r"(?i)accum|bound|sync_grad|should_(step|update|sync)|do_(step|update)|need_?(update|step)|is_(last|step|update|sync)|"
    r"(update|step)_(now|grad|weights|params)|last_(micro|batch|step|accum)|optimi[sz]er_step|will_step|^(update|sync)$"
)
#: a loop that goes over parts of one batch
MICRO = Pattern(r"(?i)accum|micro|chunk|sub_?batch|mini_?step|grad_acc|virtual_?(b|s)|splits$")
#: what gives one batch after the other
BATCHES = Pattern(r"(?i)loader$|batches$")
#: the number of items in a batch
BATCH_LENGTH = Pattern(r"(?i)\.shape\[0\]$|\.size\(0\)$|\.size\(\)\[0\]$|^len\(|(^|[._])(batch_?size|batch_?len|bsz?)$")
#: the number of batches or steps in all, not the N of a window
TOTAL = Pattern(
    r"(?i)total|max|num|len|n_|end|last|final|epochs?$|until|limit|budget|stop|patience|best|start|warm|begin"
)
#: functions that only say yes or no: `allow_clip_gradients()`
QUESTION = Pattern(r"(?i)_*(allows?|should|can|is|has|needs?|wants?|supports?|uses?|get|set|skip|enable|disable)_")
#: what frameworks call float16 with a scaler, and no mixed precision at all
SCALED_PRECISION = frozenset({"fp16", "16-mixed", "16"})
FULL_PRECISION = Pattern(r"^(no|None|False|(32|64)(-true)?|(bf)?16-true)$")
#: mixed precision is on
AMP = Pattern(r"(?i)(^|_|\.)(use_?)?(native_?)?amp(?!l)|fp16|float16|half|mixed_?prec|scaler|autocast")
#: a helper that may clear, make or use gradients
TOUCHES_GRADIENTS = Pattern(
    r"(?i)zero|reset|clear|clip|backward|backprop|optimi[sz]e|update|train|learn|grad|fit|step|minimi[sz]e|optim"
)
#: a helper that hands gradients out, and one that writes the gradients that it is given
GETS_GRADIENTS = Pattern(
    r"(?i)^_*(get|collect|gather|extract|retrieve|save|store|copy|clone|flatten|cache|pack|record|keep|stash)"
    r"\w*grads?(ients?)?(_\w+)?$|^_*(grads?|gradients?)_?(to|2)_?(vec|vector|list|flat)|^_*flat_?grads?$"
)
SETS_GRADIENTS = Pattern(
    r"(?i)^_*(set|assign|put|write|restore|overwrite|replace|load|unflatten|unpack|(vec|vector|list)_?(to|2)_?)"
    r"\w*grads?(ients?)?(_\w+)?$|^\w*grads?_(to|2)_\w*grads?$"
)
NO_GRADIENTS = Pattern(
    r"(?i)requires|enabled|accum|sync|clip|norm|scal|checkpoint|zero|none|no_grad|stat|hist|fn|func|hook|step|mode(?!l)|bucket"
)
#: a helper that is given an optimizer but leaves gradients alone
HARMLESS = Pattern(
    r"(?i)(^|_)lr($|_)|learning_?rate|save|load|log|print|state|checkpoint|isinstance|^len$|^id$|^type$|^list$|"
    r"^hasattr|^getattr|^setattr|^dict$|repr|^str$|sched|warm|resume|restore|summary|prepare|adjust|init|meter|info|"
    r"write|report|^_?(get|is|has|num|count|find|make_param)|eval|valid|test|metric|callback|plot|count|tqdm|^zip$|^enumerate$|wrap|watch|compile|parallel|decay"
)
#: a helper that fills what it is given from a file, and may give it back
RESTORES = Pattern(r"(?i)load|resume|restore|checkpoint|ckpt|snapshot")
#: a model's own step, which is handed the optimizer by convention (mmcv's) and gives a loss
GIVES_LOSS = Pattern(r"(?i)^(train(ing)?|forward|val)_step$")
#: clips that measure a gradient against its weights
RELATIVE_CLIP = Pattern(r"(?i)adaptive|(^|_)agc(_|$)")
#: a helper that is given a model and may change its gradients, one that may clear them, and one that only looks
MAY_CHANGE_GRADIENTS = Pattern(r"(?i)grad|backprop|backward|clip|zero|clear|reset|reduce|average|sync")
CLEARS = Pattern(r"(?i)zero|clear|reset")
ONLY_READS = Pattern(
    r"(?i)norm|check|monitor|watch|inspect|nan|inf|stat|hist|record|track|measure|compute|calc|penalty|requires|"
    r"log|print|save|load|plot|eval|valid|test|^_?(get|is|has|num|count|find|set)_"
)
#: a helper that steps the optimizer it is given, and does nothing else that matters
OPTIMIZES = Pattern(r"(?i)^(optimi[sz]e|optimizer_step|step_optimizer)$")
COUNTER = Pattern(
    r"(?i)^(batch_?(idx|index|id|i)|b?idx|i|it|iter(ation)?s?|n_?iter|step|global_?step|itr|cur_?iter|nb_?batch|batch_nb|update)$"
)
#: counters that are zero-based wherever they come from
ZERO_BASED = Pattern(r"(?i)^batch_?(idx|index)$")
#: a number of ranks
RANKS = Pattern(r"(?i)world|rank|gpus|procs|processes|nodes|replica")


def touches_gradients(name: str) -> bool:
    """A helper of this name may clear, make or use gradients."""
    return bool(TOUCHES_GRADIENTS.search(name)) and not HARMLESS.search(name)


@functools.lru_cache(maxsize=4096)
def words(name: str) -> frozenset[str]:
    """`train`, `data` and `loader` of `train_dataLoader`."""
    return frozenset(word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name))


@functools.lru_cache(16384)
def last(key: str) -> str:
    """`self.args.steps` -> `steps`, `optimizers["gen"]` -> `optimizers`, `clip_grads(model).item` -> `item`."""
    name, depth = "", 0
    for char in key:
        depth += (char in "([") - (char in ")]")
        if not depth and char not in ")]":
            name = "" if char == "." else name + char
    return name


def speaks_of_gradients(name: str) -> bool:
    """`grads`, `master_gradients`, `p.grad`."""
    return not words(name).isdisjoint(("grad", "grads", "gradient", "gradients"))
