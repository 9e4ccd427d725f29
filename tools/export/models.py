"""The test models: small, random weights from a fixed seed, odd sizes.

Batch, length, head count, head size, widths and vocabulary differ within a
model, so that no number can pass for another in a plan or a program.
"""
import torch
from torch import nn

import huggingface
from export_job import Job

BATCH, LENGTH = 5, 13
ALT_BATCH, ALT_LENGTH = 2, 24

_IDS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)


class Mlp(nn.Module):
    """Two linear layers around a GELU, with a norm and a residual inside."""

    def __init__(self, width=32, hidden=48, out=16):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wi = nn.Linear(width, hidden)
        self.act = nn.GELU()
        self.wo = nn.Linear(hidden, out)

    def forward(self, x):
        return self.wo(self.act(self.wi(self.norm(x))))


def _mlp(script):
    return Job(
        module=Mlp(),
        make_inputs=lambda batch, length: (torch.randn(batch, length, 32),),
        script=script,
    )


class MlpLoss(nn.Module):
    """How far an MLP is from a target."""

    def __init__(self):
        super().__init__()
        self.body = Mlp()

    def forward(self, x, target):
        return nn.functional.mse_loss(self.body(x), target)


def _mlp_loss():
    return Job(module=MlpLoss(),
               make_inputs=lambda batch, length: (
                   torch.randn(batch, length, 32),
                   torch.randn(batch, length, 16)))


class ConvnetLoss(nn.Module):
    """Classes of images, through norms that use the batch's statistics."""

    def __init__(self):
        super().__init__()
        # A bias before such a norm has no gradient but rounding.
        self.stem = nn.Sequential(nn.Conv2d(3, 14, 3, stride=2, bias=False),
                                  nn.BatchNorm2d(14), nn.ReLU())
        self.deep = nn.Conv2d(14, 14, 3, padding=1, groups=7, bias=False)
        self.norm = nn.BatchNorm2d(14, momentum=0.3)
        self.up = nn.ConvTranspose2d(14, 10, 2, stride=2)
        self.head = nn.Linear(10, 9)

    def forward(self, x, labels):
        h = self.stem(x)
        h = h + nn.functional.hardswish(self.norm(self.deep(h)))
        h = nn.functional.max_pool2d(self.up(h), 3)
        return nn.functional.cross_entropy(self.head(h.mean((2, 3))), labels)


def _convnet_loss():
    return Job(module=ConvnetLoss(), training=True,
               make_inputs=lambda batch, length: (
                   torch.randn(batch, 3, length + 4, 19),
                   torch.randint(0, 9, (batch,))))


# name: (model_type, config overrides)
_CONFIGS = {
    "gpt2": ("gpt2", dict(n_embd=88, n_layer=2, n_head=8, vocab_size=263,
                          n_positions=64, **_IDS)),
    "llama": ("llama", dict(hidden_size=112, num_hidden_layers=2,
                            num_attention_heads=8, num_key_value_heads=4,
                            intermediate_size=184, vocab_size=264,
                            max_position_embeddings=64, **_IDS)),
    # Nothing divides: 3 key-value heads, 6 heads, 251 words, width 171; tied.
    "llama-odd": ("llama", dict(hidden_size=48, num_hidden_layers=2,
                                num_attention_heads=6, num_key_value_heads=3,
                                intermediate_size=171, vocab_size=251,
                                max_position_embeddings=64,
                                tie_word_embeddings=True, **_IDS)),
    # The window is shorter than the example, so the mask matters.
    "mistral": ("mistral", dict(hidden_size=96, num_hidden_layers=2,
                                num_attention_heads=12, num_key_value_heads=4,
                                intermediate_size=172, vocab_size=260,
                                max_position_embeddings=64, sliding_window=7,
                                **_IDS)),
    # Two key-value heads: fewer than ranks from three ranks on.
    "qwen2": ("qwen2", dict(hidden_size=100, num_hidden_layers=2,
                            num_attention_heads=10, num_key_value_heads=2,
                            intermediate_size=180, vocab_size=268,
                            max_position_embeddings=64, **_IDS)),
    "gpt_neox": ("gpt_neox", dict(hidden_size=96, num_hidden_layers=2,
                                  num_attention_heads=6, intermediate_size=140,
                                  vocab_size=256, max_position_embeddings=64,
                                  **_IDS)),
    "bert": ("bert", dict(hidden_size=90, num_hidden_layers=2,
                          num_attention_heads=6, intermediate_size=132,
                          vocab_size=258, max_position_embeddings=64)),
    "t5": ("t5", dict(d_model=44, d_kv=14, d_ff=124, num_layers=2, num_heads=8,
                      vocab_size=256, feed_forward_proj="relu",
                      pad_token_id=0, eos_token_id=1)),
    "flan-t5": ("t5", dict(d_model=52, d_kv=18, d_ff=128, num_layers=2,
                           num_heads=6, vocab_size=260,
                           feed_forward_proj="gated-gelu",
                           tie_word_embeddings=False,
                           pad_token_id=0, eos_token_id=1)),
    "vit": ("vit", dict(hidden_size=60, num_hidden_layers=2,
                        num_attention_heads=4, intermediate_size=104,
                        image_size=28, patch_size=7, num_labels=11)),
}


def _untie_head(job):
    """Gives flan-t5 its own head, which transformers 5 ties regardless."""
    net = job.module.model
    net.lm_head.weight = nn.Parameter(net.lm_head.weight.detach().clone())


def names():
    """Every test model."""
    eager = ["gpt2-eager", "llama-eager", "bert-eager", "flan-t5-eager"]
    losses = ["mlp-loss", "convnet-loss", "gpt2-loss", "llama-loss", "flan-t5-loss"]
    return ["mlp", "mlp-script", *_CONFIGS, *eager, "minilm", *losses]


def build(name):
    """The Job of one test model. Raises KeyError for an unknown name."""
    if name in ("mlp", "mlp-script"):
        return _mlp(script=name == "mlp-script")
    if name == "minilm":
        return huggingface.build("minilm")
    if name == "mlp-loss":
        return _mlp_loss()
    if name == "convnet-loss":
        return _convnet_loss()
    whole, name = name, name.removesuffix("-loss")
    base, _, attention = name.partition("-eager")
    if whole not in names() or attention:
        raise KeyError(whole)
    model_type, overrides = _CONFIGS[base]
    job = huggingface.build(model_type, overrides=overrides,
                            attention="eager" if base != name else "sdpa",
                            loss=whole != name)
    if base == "flan-t5":
        _untie_head(job)
    return job
