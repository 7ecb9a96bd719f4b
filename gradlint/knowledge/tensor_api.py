"""What tensor functions do to a number: data for following numerics to the loss."""

from __future__ import annotations

from gradlint.knowledge.pattern import Pattern

#: the same numbers in another shape, order, place or type
SAME = frozenset({
    "view", "reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "t", "contiguous", "to", "float",
    "double", "half", "bfloat16", "cuda", "cpu", "type", "expand", "repeat", "clone", "view_as", "expand_as", "type_as",
    "swapaxes", "movedim", "ravel", "unflatten", "requires_grad_", "roll", "flip", "repeat_interleave", "reshape_as",
    "unsqueeze_", "squeeze_", "rearrange", "broadcast_to", "adjoint", "mT", "tile", "atleast_1d", "atleast_2d",
})  # fmt: skip
#: some of the numbers
SELECT = frozenset({
    "gather", "index_select", "masked_select", "take_along_dim", "take", "narrow", "select", "diagonal", "diag",
    "unbind", "chunk", "split", "topk", "sort", "unique", "cat", "stack", "concat", "hstack", "vstack", "triu", "tril",
})  # fmt: skip
#: several tensors become one
JOINS = frozenset({"cat", "stack", "concat", "hstack", "vstack"})
#: no gradient goes through
CUT = frozenset({
    "detach", "item", "detach_", "tolist", "numpy", "argmax", "argmin", "eq", "ne", "lt", "gt", "le", "ge", "bool",
    "long", "int", "size", "dim", "numel", "argsort", "isnan", "isinf", "isfinite", "any", "all", "nonzero", "data_ptr",
    "count_nonzero", "multinomial", "stop_gradient", "byte",
})  # fmt: skip
#: torch functions that make data
DATA = frozenset({
    "tensor", "arange", "linspace", "logspace", "zeros", "ones", "full", "eye", "rand", "randn", "randint", "randperm",
    "empty", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "from_numpy", "as_tensor", "Tensor",
    "FloatTensor", "LongTensor", "one_hot", "finfo", "new_zeros", "new_ones", "new_full", "new_tensor", "bincount",
    "histc", "hann_window", "empty_like", "randint_like", "bernoulli", "normal", "load",
})  # fmt: skip
#: of these, the ones without a zero
POSITIVE_DATA = frozenset({"ones", "ones_like", "new_ones"})
#: large values become small
CAPPED = frozenset({
    "tanh", "cos", "sin", "erf", "cosine_similarity", "normalize", "hardtanh", "atan", "arctan", "sign", "softsign",
    "relu6", "hardsigmoid", "angle",
})  # fmt: skip
NEVER_NEGATIVE = frozenset({
    "abs", "relu", "relu_", "square", "abs_", "absolute", "norm", "vector_norm", "matrix_norm", "cdist",
    "pairwise_distance", "var", "std", "dist", "hypot", "square_",
})  # fmt: skip
#: never negative, and rooting or dividing by them is what goes wrong at zero
NORMS = frozenset({"norm", "vector_norm", "matrix_norm", "std", "var", "cdist", "pairwise_distance", "dist"})
POSITIVE = frozenset({"exp", "softplus", "cosh", "exp2", "exp_"})
#: losses that are a mean of squared errors, or another distance that reaches zero with a perfect fit
DISTANCES = frozenset({"mse_loss", "MSELoss", "mean_squared_error"})
#: whoever writes these has thought about the special cases
GUARDS = frozenset({
    "where", "masked_fill", "masked_fill_", "nan_to_num", "masked_scatter", "nan_to_num_", "masked_scatter_",
    "index_put", "index_put_", "index_fill", "index_fill_", "index_add", "index_add_", "heaviside", "xlogy",
    "threshold",
})  # fmt: skip
LOGS = frozenset({"log", "log2", "log10"})
ROOTS = frozenset({"sqrt", "sqrt_"})
#: they take nothing but the tensor
OF_ONE = LOGS | ROOTS | {"log1p"}
EXPS = frozenset({"exp", "exp_", "exp2"})
SOFTMAXES = frozenset({"softmax", "softmax2d", "Softmax", "Softmax2d", "gumbel_softmax"})
SIGMOIDS = frozenset({"sigmoid", "sigmoid_", "expit", "Sigmoid"})
LOG_PROBS = frozenset({"log_softmax", "logsigmoid", "LogSoftmax", "LogSigmoid"})
#: layers that leave the numbers as they are, or nearly
SAME_LAYERS = frozenset({"Flatten", "Unflatten", "Identity", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d"})
#: layers whose outputs are any numbers
LINEAR_LAYERS = frozenset({
    "Linear", "LazyLinear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "LazyConv2d", "Embedding",
})  # fmt: skip
ACTIVATIONS = {"ReLU": "relu", "Softplus": "softplus", "Tanh": "tanh", "ReLU6": "relu6", "Hardtanh": "hardtanh"}
CROSS_ENTROPY = frozenset({"cross_entropy", "CrossEntropyLoss"})
NLL = frozenset({"nll_loss", "NLLLoss", "NLLLoss2d"})
BCE = frozenset({"binary_cross_entropy", "BCELoss"})

TORCH_PREFIXES = ("torch.nn.functional.", "torch.special.", "torch.linalg.", "torch.nn.", "torch.Tensor.", "torch.")

#: a small number that keeps something away from zero
EPS = Pattern(
    r"(?i)(^|_|\d)eps(?![a-z])|epsilon|tiny|small|(^|_)delta$|smooth|finfo|(^|_)stab|fuzz|jitter|min_(val|prob|log)"
)
#: a function whose result is a loss
LOSS_FUNCTION = Pattern(
    r"(?i)loss(?!less)|criterion|objective|(^|_)nll|likelihood|divergence|(^|_)kl(_|$|d|div)|cross_?entropy|(^|_)bce|penalty|"
    r"^training_step$"
)
#: classes whose forward gives a loss
LOSS_CLASS = Pattern(r"(?i)loss|criterion|objective|divergence|cross_?entropy|penalty|nll$|^kl")
#: a network that tells real from made up, and what it is trained on
ADVERSARIAL = Pattern(r"(?i)discr|critic|adversar|gan($|_)|real|fake|^(net_?)?d(_?net|is)?(_?[a-z0-9])?$")
#: a variable that holds a loss
LOSS_NAME = Pattern(r"(?i)(^|_)loss(es)?($|_|\d)|[a-z]Loss(es)?($|_|\d)|^(loss|cost|objective)\w?$|loss(es)?$")
NO_LOSS_NAME = Pattern(
    r"(?i)_(fn|func|function|weights?|scale|type|name|coef\w*|lambda|mask|config|cfg|history|class)$"
)
#: what a model says, or a probability
PREDICTION = Pattern(
    r"(?i)(^|_)(y_?)?(preds?|predictions?|predicted|probs?|probabilit(y|ies)|outputs?|y_?hat|hat|recons?|reconstruct\w*|softmax|"
    r"sigmoid)($|_|\d)|^(p|q)(_?t|_?hat)?$|^(pt|p_t)$|^(dis|disc|d)_(real|fake)|^D_(real|fake|G|x)"
)
#: names of numbers that are positive by what they are, or are no prediction: the beginning of a word of the name, a
#: whole word, or its end (`melspec`). Never its middle: pre-dict-ions, i-mag-e, gene-rate-d
NO_PREDICTION = Pattern(
    r"(?i)(^|_|\d)(sigma|scale|depth|width|height|length|count|num|mask|target|label|weight|freq|time|denom|total|temp|alpha|"
    r"beta|gamma|log|index|energ|power|noise|channel|feature|hidden|varian|spectr|magnitude)|"
    r"(^|_|\d)(rates?|gt|true|lr|idx|ids?|dicts?)($|_|\d)|"
    r"(std|var|sum|mel|spec|mag|len|dim|size|scale|sigma|weight|mask|count)s?($|_|\d)"
)
TARGET = Pattern(
    r"(?i)(^|_)(targets?|tgts?|one_?hot|labels?|gt|truth|y_true|masks?|weights?|gts)($|_|\d)|^y$|(?<!back)(?<!fore)ground"
)
LOGITS = Pattern(r"(?i)logits?\d*$")
TEMPERATURE = Pattern(r"(?i)(^|_)(temp|temperature|tau)($|_)")
SCORES = Pattern(r"(?i)logits?\d*$|scores?\d*$|energ(y|ies)$")
#: logarithms of positive numbers that a model predicts: exp() of them is meant
LOG_SCALE = Pattern(r"(?i)(?<!dia)(?<!cata)log|^(mu|kappa)$|_rate$|scale")
EVALUATION = Pattern(
    r"(?i)(^|_)(eval\w*|valid\w*|test\w*|infer\w*|predict\w*|metrics?|accuracy|score|generate|sample\w*|visuali\w*|plot\w*|demo)($|_)"
)
#: objects that hold settings, so that what they give is a plain number
CONFIG = Pattern(
    r"(?i)^_?(args?|cfg|conf|config\w*|opts?|options|hparams|hps?|flags|settings|model_args|training_args)$"
)
#: vectors that are normalised by convention, similarities and probabilities: exp() of them does not overflow
UNIT = Pattern(r"(?i)(^|_)(emb\w*|feats?|features?|proj\w*|sims?|similarit\w+|cos\w*|probs?|p)($|_|\d)|^z(_\w+|\d)?$")
#: code that checks other code
TEST = Pattern(r"^Test|TestCase$|Test$")
TEST_PACKAGES = ("pytest", "unittest")
#: the last layer of well-known models
HEADS = frozenset({"fc", "classifier", "head", "heads", "last_linear"})
#: names of numbers that are not negative, so that exp() of what is behind the minus is at most 1
NEVER_BELOW_ZERO = Pattern(r"(?i)entropy|dist(?!ill|rib)|loss|cost|norm(?!al)|(^|[._])err|err(or)?s?($|_)")
#: numbers that somebody sets
SETTING = Pattern(r"(?i)momentum|decay|^tau$|(^|_)ema($|_)|lambda|coef|^(alpha|beta|gamma)$|temperature|^temp$")
#: what an agent did, and what followed from it; by these a policy gradient is known
ACTION = Pattern(r"(?i)^(a|u|acts?)($|_|\d)|(^|_)actions?($|_|\d)|_(a|act|acts)$")
RETURN = Pattern(
    r"(?i)(^|_)adv(antage)?s?($|_)|(^|_)returns?($|_)|(^|_)rets?($|_)|(^|_)rewards?($|_)|(^|_)gaes?($|_)|discounted|^[RG]s?$|"
    r"(^|_)td_?(error|target)|^deltas?$|(^|_)q_?vals?(ues?)?($|_)"
)
#: the actions were taken with other weights: a memory is replayed, a ratio is corrected, a batch is used several times
REPLAY = Pattern(
    r"(?i)replay|memory|buffer|(^|_)old($|_)|ratio|(^|_)rhos?($|_)|importance|(^|_)mu($|_)|(^|_)k_?epochs?($|_)|"
    r"(^|_)ppo($|_)|behaviou?r|off_?policy"
)
