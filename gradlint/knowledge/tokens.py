"""What says that a loss is taken over tokens, and that batches have unequal numbers of them."""

from __future__ import annotations

from gradlint.knowledge.pattern import Pattern

#: losses of one item per token
TOKEN_LOSSES = Pattern(r"(?i)^(\w*cross_?entropy(_?loss)?|nll_?loss|\w*lm_loss)$")
#: a loss of another kind beside them, or in place of what the model computes itself
OTHER_LOSS = Pattern(r"(?i)^\w*(mse|l1|bce|kl_?div|triplet|contrastive|cosine_embedding|margin)\w*$")
#: the heads of Hugging Face's models whose loss is a mean over tokens; others take it over examples
TOKEN_HEADS = Pattern(
    r"(CausalLM|LMHeadModel|Seq2SeqLM|MaskedLM|ConditionalGeneration|TokenClassification|WithLMHead)$"
)
#: sequences are filled up to a common length
PADS = Pattern(
    r"(?i)^(pad_sequence|attention_mask|(\w+_)?padding_mask|pad_token(_id)?|pad_(id|idx|index)|label_pad_token_id|"
    r"pad_to_max_length|DataCollator(ForSeq2Seq|WithPadding|ForTokenClassification|ForLanguageModeling)|"
    r"\w*padded_collate\w*|pad_right|collate_pad\w*|pad_across_processes)$"
)
#: sequences are cut out of one long text, all of one length
PACKS = Pattern(r"(?i)^(packing|packed|pack_\w+|group_texts|ConstantLengthDataset|sample_packing)$")
#: tokens are counted on the way to the loss
COUNTS = Pattern(
    r"(?i)num_items|n(um)?_?(\w+_)?tok(en)?s?$|(^|_)tok(en)?s?_?(count|num)|(total|global|valid|target)_tok(en)?s|ntok"
)
#: one entry for each token
TOKEN_MASK = Pattern(
    r"(?i)^(loss|labels?|token|attention|pad|padding|seq|sequence|response|completion|target)_?masks?$"
)
