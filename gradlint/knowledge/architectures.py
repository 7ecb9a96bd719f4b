"""What a layer, a class from elsewhere or a word in a loss says of the model that is trained."""

from __future__ import annotations

import enum

from gradlint.knowledge.pattern import Pattern


class Kind(enum.Enum):
    """What a part of a model is, as far as the length of its gradients goes."""

    RECURRENT = "a recurrent network"
    ATTENTION = "a Transformer"
    CONVOLUTION = "a convolutional network"
    BATCH_NORM = "batch normalisation"
    PLAIN = "a layer"


#: one unlucky batch can give these a gradient a thousand times longer than usual
RISKY = frozenset({Kind.RECURRENT, Kind.ATTENTION})

#: classes of torch.nn
LAYERS: dict[str, Kind] = {
    **dict.fromkeys(("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"), Kind.RECURRENT),
    **dict.fromkeys(
        (
            "Transformer", "TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer",
            "TransformerDecoderLayer", "MultiheadAttention",
        ),
        Kind.ATTENTION,
    ),
    **dict.fromkeys(
        (
            "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d",
            "LazyConv2d", "LazyConv3d",
        ),
        Kind.CONVOLUTION,
    ),
    **dict.fromkeys(
        ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "SyncBatchNorm"),
        Kind.BATCH_NORM,
    ),
}  # fmt: skip
CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict", "OrderedDict"})
#: the linear layers of an attention that is written by hand: one for all, or one for queries and one for keys
PROJECTION = Pattern(r"^(to_|w_?)?(qkv|c_attn|query_key_value)(_proj|_linear)?$")
QUERY = Pattern(r"^(to_|w_?)?(q|query|queries|q_lin|query_layer)(_proj|_linear)?$")
KEY = Pattern(r"^(to_|w_?)?(k|kv|key|keys|k_lin|key_layer)(_proj|_linear)?$")

#: models of Hugging Face's libraries, by their full names
PRETRAINED = Pattern(
    r"^((pytorch_)?transformers|pytorch_pretrained_bert|adapters|optimum)\.(\w+\.)*"
    r"(AutoModel(For(CausalLM|Seq2SeqLM|MaskedLM|SequenceClassification|TokenClassification|QuestionAnswering|"
    r"PreTraining|MultipleChoice|SpeechSeq2Seq|CTC|Vision2Seq|ImageTextToText)|WithLMHead)?|"
    r"\w+(LMHeadModel|DoubleHeadsModel|For(CausalLM|ConditionalGeneration|MaskedLM|PreTraining|SequenceClassification|"
    r"TokenClassification|QuestionAnswering|MultipleChoice|NextSentencePrediction|CTC|SpeechSeq2Seq))|"
    r"(Bert|Roberta|XLMRoberta|GPT2|GPTNeo|GPTNeoX|T5|Bart|Electra|Albert|DistilBert|Llama|Mistral|ViT|Deberta\w*)Model)$"
)
#: the same, in a fragment without its imports
PRETRAINED_BARE = Pattern(r"^AutoModelFor(CausalLM|Seq2SeqLM|MaskedLM|SequenceClassification|TokenClassification)$")
#: names of models that other files of a project define; a loss, a dataset or a configuration is named after them, too
TELLING_ATTENTION = Pattern(
    r"^(\w*Bert|\w*BERT|(nano|mini|Nano|Mini)?GPT\d?|(Vision|Text|Causal|Music|Image|Decoder|Encoder|Trajectory)?"
    r"Transformer|ViT|T5|Llama\d?|LLaMA)(Model|LM|LMHeadModel|Classifier|Seq2Seq|ForCausalLM|Encoder|Decoder|Wrapper)?$"
)
TELLING_RECURRENT = Pattern(
    r"^(\w*[a-z_])?(LSTM|GRU|RNN|BiLSTM|BiGRU)(_?(Model|Net|Network|Classifier|LM|Tagger|Encoder|Decoder|Attention|CRF))?$"
)
TELLING_CONVOLUTION = Pattern(
    r"^(resnet|resnext|wide_resnet|vgg|densenet|mobilenet|alexnet|squeezenet|shufflenet|googlenet|inception|mnasnet|"
    r"efficientnet|ResNet|VGG|DenseNet|MobileNet|PreActResNet|WideResNet|ResNeXt|AlexNet|LeNet)(_?[vV]?\d+\w*|_bn)?$"
)
#: `timm.create_model("vit_base_patch16_224")`, `torchvision.models.vit_b_16`
NAMED_ATTENTION = Pattern(r"^(vit|deit|swin|swinv2|beit|beitv2|eva|eva02|cait|xcit|pvt|maxvit|mvit|coat)(_|\d|$)")
#: homes of model factories that are called by a name, or given one
ZOOS = ("torchvision.models", "timm", "pretrainedmodels", "segmentation_models_pytorch")

#: these limit the length of an update themselves, or look for it along the gradient
SELF_LIMITING = Pattern(r"(?i)adafactor|lamb|bertadam|lion|sophia|muon|rprop|lbfgs|signsgd|lars")
#: a word that says that gradients are clipped somewhere
CLIPS = Pattern(
    r"(?i)clip\w*(grad|norm)|(grad|norm)\w*clip|max_?grad\w*_?norm|percentile_clip|(grad|norm)_?(max|limit|thresh)|"
    r"rescale_?grad|normali[sz]e_?grad"
)

#: the logarithm of a policy's probability (not the old one, which is data), and the returns it is weighted with
LOG_PROB = Pattern(r"(?i)^(?!.*old)(.*_)?(log_?probs?|log_?pis?|logps?)(_|\d|$)")
RETURNS = Pattern(
    r"(?i)(^|_)adv(antage)?s?(_|$)|(^|_)returns?$|(^|_)rewards?(_|$)|(^|_)gaes?(_|$)|^ratio$|discounted|^R$|td_?error"
)
