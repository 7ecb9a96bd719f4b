"""What says that somebody looks at the gradients, and how files write down what they see."""

from __future__ import annotations

from gradlint.knowledge.pattern import Pattern

#: a word that stands for a measure of gradients, a watcher or a hook; not a limit, and not the clip itself
LOOKS = Pattern(
    r"(?i)^(?!max|clip|.*clip)(\w*grad(ient)?s?_?(norm|flow|stat|hist|monitor|log|track|var|check|noise)\w*|"
    r"\w*(norm|log|plot|monitor|track|watch|inspect|check|print)s?_?(of_)?(the_)?grad(ient)?s?(_\w+)?|total_norm|"
    r"gnorm|watch|register_(full_)?backward_hook|register_hook|register_post_accumulate_grad_hook|error_if_nonfinite|"
    r"get_total_norm|_foreach_norm|\w*detect_anomaly)$"
)
#: methods that only put gradients away
PUTS_AWAY = frozenset({"zero_", "detach_", "requires_grad_"})
#: a loop whose bound is called so runs for long
MANY = Pattern(
    r"(?i)(^|_)(max|num|n|total|train(ing)?)?_?"
    r"(iter(ation)?s?|(train(ing)?_|update_|grad(ient)?_)?steps|timesteps|updates)$"
)
EPOCH = Pattern(r"(?i)epoch")
