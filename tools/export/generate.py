"""Models that generate text, as the entries tp-run generate calls.

A decoder becomes @prefill, which reads prompts, and @step, which reads one
token per row; an encoder-decoder becomes @encode, which reads the source and
the tokens that every target begins with, and @step. Each returns the logits of
the last position [batch, vocabulary] and then the caches.

The caches are what a layer keeps of past tokens, keys and values [batch, head,
position, width], in one of three forms:
    tuple    ((key, value), ...) per layer, one position longer after each step
    stacked  the same as one tensor [layer, 2, batch, head, position, width]
    static   ((key, value), ...) with room for all positions, written in place
Keys and values of an encoder's output do not change; @encode makes them once.
"""
import inspect
import json

import torch
from torch import nn
from torch.nn import functional as F

import huggingface
from export_job import Job

FORMS = ("tuple", "stacked", "static")
FORMAT_VERSION = 1


def _dynamic(config, pairs):
    """transformers' cache that holds (key, value) per layer."""
    from transformers import DynamicCache
    del config  # a cache that grows holds all positions, windows or not
    return DynamicCache(pairs) if pairs is not None else DynamicCache()


def _pairs(cache):
    return tuple((layer.keys, layer.values) for layer in cache.layers)


def _stack(pairs):
    return torch.stack([torch.stack(pair) for pair in pairs])


def _unstack(stacked):
    return tuple((pair[0], pair[1]) for pair in stacked)


def _to_length(pairs, length):
    """Caches with room for `length` positions."""
    return tuple(tuple(F.pad(t, (0, 0, 0, length - t.shape[2])) for t in pair)
                 for pair in pairs)


def _static(config, pairs, position):
    """transformers' cache of a fixed length, over tensors that it writes."""
    from transformers import StaticCache
    length = pairs[0][0].shape[2]
    cache = StaticCache(config=config, max_cache_len=int(length))
    for layer, (keys, values) in zip(cache.layers, pairs, strict=True):
        layer.keys, layer.values = keys, values
        layer.dtype, layer.device = keys.dtype, keys.device
        layer.cumulative_length = position.clone()
        layer.max_cache_len = int(length)
        layer.is_initialized = True
    return cache


def _positions(attention_mask):
    """Of each token in its row, not counting padding in front."""
    return (attention_mask.cumsum(-1) - 1).clamp(min=0)


class _Entry(nn.Module):
    def __init__(self, model, form, length):
        super().__init__()
        self.model = model
        self.form = form
        self.length = length


class Prefill(_Entry):
    """Reads prompts, padded in front."""

    def forward(self, input_ids, attention_mask):
        out = self.model(input_ids=input_ids, attention_mask=attention_mask,
                         past_key_values=_dynamic(self.model.config, None),
                         use_cache=True, **_position_ids(
                             self.model, _positions(attention_mask)))
        pairs = _pairs(out.past_key_values)
        if self.form == "static":
            pairs = _to_length(pairs, self.length)
        return (out.logits[:, -1],
                _stack(pairs) if self.form == "stacked" else pairs)


class Step(_Entry):
    """Reads one token per row; attention_mask covers it and all before."""

    def forward(self, input_ids, attention_mask, past):
        pairs = _unstack(past) if self.form == "stacked" else past
        position = attention_mask.sum(-1, keepdim=True) - 1
        out = self.model(input_ids=input_ids, attention_mask=attention_mask,
                         past_key_values=_dynamic(self.model.config, pairs),
                         use_cache=True, **_position_ids(self.model, position))
        pairs = _pairs(out.past_key_values)
        return (out.logits[:, -1],
                _stack(pairs) if self.form == "stacked" else pairs)


class StaticStep(_Entry):
    """The same for caches with room for all positions: it writes the one at
    `position`, and attention_mask is as long as they are."""

    def forward(self, input_ids, attention_mask, position, past):
        out = self.model(
            input_ids=input_ids, attention_mask=attention_mask,
            past_key_values=_static(self.model.config, past, position),
            use_cache=True, **_position_ids(
                self.model, attention_mask.sum(-1, keepdim=True) - 1))
        return out.logits[:, -1]


class Encode(_Entry):
    """Reads the source, padded behind, and the tokens a target begins with."""

    def forward(self, input_ids, attention_mask, decoder_input_ids):
        from transformers import EncoderDecoderCache
        cache = EncoderDecoderCache(_dynamic(None, None), _dynamic(None, None))
        out = self.model(input_ids=input_ids, attention_mask=attention_mask,
                         decoder_input_ids=decoder_input_ids,
                         past_key_values=cache, use_cache=True)
        own = _pairs(cache.self_attention_cache)
        source = _pairs(cache.cross_attention_cache)
        if self.form == "stacked":
            own, source = _stack(own), _stack(source)
        return out.logits[:, -1], own, source


class DecoderStep(_Entry):
    """Reads one token per row; attention_mask is the source's."""

    def forward(self, decoder_input_ids, attention_mask, past, source):
        from transformers import EncoderDecoderCache
        if self.form == "stacked":
            past, source = _unstack(past), _unstack(source)
        cache = EncoderDecoderCache(_dynamic(None, past),
                                    _dynamic(None, source))
        # The decoder looks at the shape of what the encoder gave, not at its
        # content: keys and values are in the cache.
        hidden = attention_mask.unsqueeze(-1).to(source[0][0].dtype)
        out = self.model(encoder_outputs=(hidden,),
                         attention_mask=attention_mask,
                         decoder_input_ids=decoder_input_ids,
                         past_key_values=cache, use_cache=True)
        own = _pairs(cache.self_attention_cache)
        return (out.logits[:, -1],
                _stack(own) if self.form == "stacked" else own)


def _position_ids(model, positions):
    """The argument for positions, of models that take one."""
    names = inspect.signature(type(model).forward).parameters
    return {"position_ids": positions} if "position_ids" in names else {}


def _left_padding(batch, length):
    """[batch, length] of 0 and 1: every row shorter by one, row 0 full."""
    return huggingface.padding_mask(batch, length).flip(1).contiguous()


def _ids(vocabulary, batch, length):
    low = min(3, vocabulary - 1)
    return torch.randint(low, vocabulary, (batch, length))


def _decoder_entries(model, form, length):
    vocabulary = model.config.vocab_size
    prefill = Prefill(model, form, length)

    def prompt(batch, size):
        return _ids(vocabulary, batch, size), _left_padding(batch, size)

    def after(batch, size):
        ids, mask = prompt(batch, size)
        past = prefill(ids, mask)[1]
        token = _ids(vocabulary, batch, 1)
        mask = torch.cat([mask, torch.ones_like(token)], 1)
        if form != "static":
            return token, mask, past
        mask = F.pad(mask, (0, length - mask.shape[1]))
        return token, mask, torch.tensor(size), past

    step = (StaticStep if form == "static" else Step)(model, form, length)
    return [("prefill", prefill, prompt), ("step", step, after)]


def _seq2seq_entries(model, form, start):
    vocabulary = model.config.vocab_size
    encode = Encode(model, form, None)

    def source(batch, size):
        begin = torch.tensor([start]).expand(batch, -1).contiguous()
        return (_ids(vocabulary, batch, size),
                huggingface.padding_mask(batch, size), begin)

    def after(batch, size):
        ids, mask, begin = source(batch, size)
        # Targets of another length than the source.
        begin = torch.cat([begin, _ids(vocabulary, batch, size // 2)], 1)
        _, own, cross = encode(ids, mask, begin)
        return _ids(vocabulary, batch, 1), mask, own, cross

    return [("encode", encode, source),
            ("step", DecoderStep(model, form, None), after)]


def _count(value):
    if isinstance(value, torch.Tensor):
        return 1
    return sum(_count(item) for item in value)


def _caches(entries):
    """Links from outputs to inputs of the next call."""
    (first, _, _), (step, module, make) = entries
    arguments = make(1, 4)
    names = []
    plain = all(isinstance(a, torch.Tensor) for a in arguments)
    formals = list(inspect.signature(module.forward).parameters)
    for argument, formal in zip(arguments, formals, strict=True):
        # Parts of a nested argument have no name of their own.
        names += [formal if plain else f"input_{len(names) + i}"
                  for i in range(_count(argument))]
    before = sum(_count(a) for a in arguments
                 if isinstance(a, torch.Tensor) and a.dim() < 3)
    links = []
    # What @step returns: the target's caches, or none where it writes them.
    with_step = _count(module(*arguments)) - 1
    for i, name in enumerate(names[before:]):
        target = f"{step}.{name}"
        links.append(f"{first}.output_{i + 1}={target}")
        if i < with_step:
            links.append(f"{step}.output_{i + 1}={target}")
    return links


def _list(value):
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _token(model, name):
    value = getattr(model.generation_config, name, None)
    return getattr(model.config, name, None) if value is None else value


def build(source, overrides, attention, form, length, experts):
    """[(entry, Job)] and what generate.json says besides files.

    length: of static caches; others end where the model's positions do.
    """
    model, config, trained = huggingface.load(source, overrides, attention,
                                               experts)
    if not hasattr(model, "generate") or not model.can_generate():
        raise ValueError(f"{config.model_type} models do not generate text")
    model.eval()
    seq2seq = bool(getattr(config, "is_encoder_decoder", False))
    limit = getattr(config, "max_position_embeddings", None) or getattr(
        config, "n_positions", None)
    if config.model_type in ("t5", "mt5", "umt5"):
        limit = None  # relative positions have no end
    start = []
    if form == "static":
        if seq2seq:
            raise ValueError("--cache-form static is for decoders")
        limit = length or limit
        if limit is None:
            raise ValueError("--cache-form static needs --max-length")
    if seq2seq:
        names = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
        first = next((value for value in (_token(model, name) for name in names)
                      if value is not None), None)
        if first is None:
            raise ValueError(f"the config of {config.model_type} has no "
                             "decoder_start_token_id: give it by --set")
        start = _list(first) + _list(_token(model, "forced_bos_token_id"))
        entries = _seq2seq_entries(model, form, start)
    else:
        entries = _decoder_entries(model, form, limit)
    with torch.no_grad():
        links = _caches(entries)
    info = {"tp_generate": FORMAT_VERSION, "caches": links,
            "eos": _list(_token(model, "eos_token_id")),
            "decoder_start": start}
    for field, value in (("bos", _token(model, "bos_token_id")),
                         ("pad", _token(model, "pad_token_id")),
                         ("max_length", limit)):
        if value is not None:
            info[field] = value
    jobs = [(name, Job(module=module, make_inputs=make, trained=trained))
            for name, module, make in entries]
    return jobs, info


def write(info, name, files, out):
    """Writes generate.json: files are [(entry, [TorchScript, inputs...])]."""
    info = {"model": name, "entries": [
        {"name": entry, "file": paths[0].name,
         "inputs": [path.name for path in paths[1:]]}
        for entry, paths in files], **info}
    path = out / f"{name}.generate.json"
    path.write_text(json.dumps(info, indent=2) + "\n")
    return path
