"""Small modules, each around one thing that is easy to get wrong.

MODELS maps a name to (module, make_inputs); make_inputs(batch, length) gives
forward's arguments. Widths are odd or prime so that nothing divides by chance.
"""

from typing import List, Tuple

import torch
from torch import nn
from torch.nn import functional as F

VOCAB, WIDTH, HIDDEN = 37, 20, 35
MODELS = {}


def _floats(*dims):
    """Inputs of these dims; "b" and "l" are batch and length."""
    def make(batch, length):
        sizes = {"b": batch, "l": length}
        return (torch.randn([sizes.get(dim, dim) for dim in dims]),)
    return make


def _ids(batch, length):
    return (torch.randint(0, VOCAB, (batch, length)),)


HIDDENS = _floats("b", "l", WIDTH)
ROWS = _floats("b", WIDTH)


def model(make_inputs=HIDDENS, script=False):
    def add(cls):
        MODELS[cls.__name__] = (cls, make_inputs, script)
        return cls
    return add


# Tied weights and views of one weight.


@model(_ids)
class TiedEmbeddingFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)
        self.head.weight = self.emb.weight

    def forward(self, ids):
        return self.head(torch.tanh(self.emb(ids)))


@model(_ids)
class TiedLinearFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.a_head = nn.Linear(WIDTH, VOCAB, bias=False)
        self.emb = nn.Embedding(VOCAB, WIDTH)
        self.emb.weight = self.a_head.weight
        self.mix = nn.Linear(VOCAB, WIDTH)

    def forward(self, ids):
        x = torch.softmax(self.a_head(F.one_hot(ids, WIDTH + VOCAB)[
            ..., :WIDTH].to(torch.float32) + 0.5), -1)
        return self.a_head(self.emb(ids) * self.mix(x))


@model(_ids)
class TiedFunctional(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, WIDTH)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, ids):
        h = self.emb(ids) * self.scale
        logits = F.linear(h, self.emb.weight)
        return logits, logits @ self.emb.weight, h @ self.emb.weight.t()


@model()
class ViewsOfOneWeight(nn.Module):
    """Chunk, t(), columns and a view of one fused parameter."""

    def __init__(self):
        super().__init__()
        self.fused = nn.Parameter(torch.empty(3 * HIDDEN, WIDTH))
        self.bias = nn.Parameter(torch.empty(3 * HIDDEN))

    def forward(self, x):
        q, k, v = self.fused.chunk(3)
        bq, bk, bv = self.bias.chunk(3)
        y = F.linear(x, q, bq) * torch.sigmoid(F.linear(x, k, bk))
        y = y + x @ v.t() + bv
        z = F.linear(x[..., :7], self.fused[:, :7])
        w = self.fused.view(3, HIDDEN, WIDTH)[1]
        return y @ w, z.sum(-1), self.fused.view(-1)[5:11]


@model()
class FusedQkvInterleaved(nn.Module):
    """Per head [q|k|v], five heads, as GPT-NeoX; then [q|k|v] of heads."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(WIDTH, 3 * WIDTH)
        self.b = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.o = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        b, l, _ = x.shape
        q, k, v = self.a(x).view(b, l, 5, 12).transpose(1, 2).chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, l, WIDTH))
        q, k, v = self.b(x).view(b, l, 3, 5, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = torch.softmax(q @ k.mT * 0.5, -1) @ v
        return self.o(y.transpose(1, 2).flatten(2))


@model()
class GroupedQuery(nn.Module):
    """Ten query heads on five key-value heads, heads folded into the batch."""

    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, 10 * 6)
        self.k = nn.Linear(WIDTH, 5 * 6)
        self.v = nn.Linear(WIDTH, 5 * 6)
        self.o = nn.Linear(10 * 6, WIDTH, bias=False)

    def forward(self, x):
        b, l, _ = x.shape
        q = self.q(x).view(b, l, 10, 6).transpose(1, 2).reshape(b * 10, l, 6)
        k = self.k(x).view(b, l, 5, 6).transpose(1, 2)
        v = self.v(x).view(b, l, 5, 6).transpose(1, 2)
        k = k[:, :, None].expand(b, 5, 2, l, 6).reshape(b * 10, l, 6)
        v = v.repeat_interleave(2, 1).reshape(b * 10, l, 6)
        p = torch.bmm(q, k.transpose(1, 2)).div(6 ** 0.5).softmax(-1)
        y = torch.bmm(p, v).view(b, 10, l, 6).permute(0, 2, 1, 3)
        return self.o(y.reshape(b, l, 60))


@model()
class GatedUnits(nn.Module):
    """Both orders of the halves, glu, and a split of uneven parts."""

    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(WIDTH, 2 * HIDDEN)
        self.wo = nn.Linear(HIDDEN, WIDTH)
        self.wj = nn.Linear(WIDTH, HIDDEN + 7 + 3)
        self.w3 = nn.Linear(7, WIDTH)
        self.w4 = nn.Linear(3, WIDTH)

    def forward(self, x):
        a, b = self.wi(x).chunk(2, -1)
        x = x + self.wo(F.silu(a) * b)
        a, b = self.wi(x).chunk(2, -1)
        x = x + self.wo(F.gelu(b, approximate="tanh") * a)
        x = x + self.wo(F.glu(self.wi(x), -1))
        p, q, r = self.wj(x).split([HIDDEN, 7, 3], -1)
        return self.wo(p) + self.w3(q.relu()) * self.w4(r)


# Writes in place.


@model()
class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(WIDTH, HIDDEN)
        self.wo = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        h = self.wi(x)
        h[:, 1:] += h[:, :-1] * 0.5
        h.relu_()
        first, second = h[..., :12], h[..., 12:]
        first.mul_(2.0)
        second.masked_fill_(second > 1.0, 0.25)
        h[..., 3:20:2] = 1.5
        h.transpose(1, 2)[:, 4] -= 1.0
        kept = h.clone()
        h.view(-1, HIDDEN).add_(first.sum())
        y = self.wo(h)
        y[:, 0].zero_()
        y[..., -1:].copy_(y[..., :1])
        return y, kept.mean(-1), second


@model()
class InPlaceHeads(nn.Module):
    """Rotary-like writes through the view of heads of a split value."""

    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(WIDTH, 5 * 6)
        self.wo = nn.Linear(5 * 6, WIDTH)

    def forward(self, x):
        b, l, _ = x.shape
        h = self.wi(x)
        heads = h.view(b, l, 5, 6)
        half = heads[..., 3:].clone()
        heads[..., 3:] = heads[..., :3] * 2
        heads[..., :3].sub_(half)
        heads[:, :, 2] *= 0.5
        heads.select(2, 4).add_(1)
        return self.wo(h), heads.sum((2, 3))


# Norms and convolutions.


@model()
class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(WIDTH, 30)
        self.two = nn.LayerNorm((5, 6))
        self.scale = nn.Parameter(torch.empty(30))
        self.plain = nn.LayerNorm(30, elementwise_affine=False)
        self.rms = nn.RMSNorm(6)
        self.wo = nn.Linear(30, WIDTH)

    def forward(self, x):
        b, l, _ = x.shape
        h = self.wi(x)
        r = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        heads = r.view(b, l, 5, 6)
        n = self.two(heads) + self.rms(heads) + F.normalize(heads, dim=-1)
        return self.wo(self.plain(n.flatten(2))) + h.norm(dim=-1, keepdim=True)


@model(_floats("b", 3, 10, 11))
class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 10, 3, padding=1, stride=2)
        self.bn = nn.BatchNorm2d(10)
        self.c2 = nn.Conv2d(10, 10, 3, groups=5, bias=False)
        self.gn = nn.GroupNorm(5, 10)
        self.c3 = nn.Conv2d(10, 7, 1)
        self.head = nn.Linear(7 * 3 * 4, 13)

    def forward(self, x):
        x = self.bn(self.c1(x)).relu()
        x = self.gn(self.c2(x))
        x = F.silu(self.c3(x))
        return self.head(x.flatten(1)), x.amax((2, 3)), F.adaptive_avg_pool2d(
            x, 1).squeeze(-1).squeeze(-1)


@model(_floats("b", "l", 9))
class Convolution1d(nn.Module):
    """Causal and depthwise over a length that varies."""

    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(9, 2 * HIDDEN, bias=False)
        self.dw = nn.Conv1d(HIDDEN, HIDDEN, 4, groups=HIDDEN, padding=3)
        self.pw = nn.Conv1d(HIDDEN, 9, 1)

    def forward(self, x):
        l = x.shape[1]
        h, gate = self.wi(x).transpose(1, 2).chunk(2, 1)
        h = F.silu(self.dw(h)[..., :l])
        h = F.pad(h, (1, 0))[..., :-1]
        return self.pw(h * torch.sigmoid(gate)).transpose(1, 2)


# Along the dim that is split.


@model()
class AlongTheSplit(nn.Module):
    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(WIDTH, HIDDEN)
        self.wo = nn.Linear(HIDDEN, WIDTH)
        self.register_buffer("order", torch.randperm(HIDDEN))
        self.register_buffer("few", torch.tensor([1, 30, 30, 4]))

    def forward(self, x):
        h = self.wi(x)
        y = [h.softmax(-1), h.log_softmax(-1), h.cumsum(-1),
             h.index_select(-1, self.order), h[..., self.order],
             h.roll(3, -1), h.flip(-1), F.pad(h, (2, 1))[..., :HIDDEN],
             h.sort(-1)[0], F.pad(h, (-3, 3)),
             torch.gather(h, -1, self.order.expand_as(h)),
             torch.where(h > 0, h, h.roll(1, 2)),
             torch.cat([h[..., 30:], h[..., :30]], -1)]
        s = torch.stack(y, 2)
        t = s.unbind(2)
        return (self.wo(s.tanh()), t[3] - t[4], h.argmax(-1),
                h.index_select(-1, self.few), h.topk(3, -1)[0])


@model()
class Einsums(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.empty(WIDTH, 5, 7))
        self.o = nn.Parameter(torch.empty(5, 7, WIDTH))

    def forward(self, x):
        h = torch.einsum("bld,dhk->bhlk", x, self.w)
        a = torch.einsum("bhik,bhjk->bhij", h, h).softmax(-1)
        y = torch.einsum("bhij,bhjk->bihk", a, h)
        return x + torch.einsum("bihk,hkd->bid", y, self.o)


@model()
class Statistics(nn.Module):
    """Means, variances and scalars of a value that is split, or partial."""

    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(WIDTH, HIDDEN)
        self.wo = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        h = self.wi(x)
        y = self.wo(h.relu())
        return (h.mean(), h.var(-1), h.std((1, 2)), y.mean(-1), y.sum(),
                h.max(), y.abs().max(-1)[0], h.prod(-1), h.logsumexp(-1),
                torch.linalg.vector_norm(h), (h > 0).sum(-1), h.amin(),
                (h > 9).any(), y.var(unbiased=False), h.min(1)[1])


def _labelled(batch, length):
    return (*_ids(batch, length), torch.randint(0, VOCAB, (batch, length)))


@model(_labelled)
class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, WIDTH, padding_idx=0)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids, labels):
        logits = self.head(self.emb(ids))
        flat = logits.view(-1, VOCAB)
        labels = torch.where(labels < 3, -100, labels)
        loss = F.cross_entropy(flat, labels.view(-1), reduction="sum")
        each = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none",
                               label_smoothing=0.1)
        nll = F.nll_loss(flat.log_softmax(-1), labels.view(-1).clamp(min=0))
        return loss, each, nll, logits.argmax(-1)


# Inputs and outputs.


@model()
class Outputs(nn.Module):
    """Twice the same, an input, a weight, a view of one, nested, unused."""

    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(WIDTH, HIDDEN)
        self.unused = nn.Linear(4, 4)
        self.one = nn.Parameter(torch.empty(1, 1))
        self.register_buffer("halves", torch.ones(3).half())

    def forward(self, x):
        h = self.wi(x)
        return (h, (h, [x, self.wi.weight]), self.wi.weight.t(), self.halves,
                self.one, h.size(1) * h.mean(), h.transpose(0, 1))


def _mixed(batch, length):
    return (torch.randn(batch, length, WIDTH),
            torch.rand(batch, length) > 0.4,
            torch.randint(-3, 3, (length,), dtype=torch.int32),
            torch.randn(batch, dtype=torch.float64),
            torch.tensor(0.75), torch.randint(0, 250, (batch, 1)).byte())


@model(_mixed)
class Dtypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(WIDTH, HIDDEN)
        self.wo = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x, mask, offset, weight, scale, pixels):
        h = self.wi(x * mask[..., None]).masked_fill(~mask[..., None], -1.0)
        h = h + offset[None, :, None] * scale
        y = self.wo(h) * weight[:, None, None].float()
        return (y, mask & (y.sum(-1) > 0), (offset * 2).long(),
                weight * y.double().mean(), pixels / 255, pixels + pixels)


def _nested(batch, length):
    a = torch.randn(batch, length, WIDTH)
    return ((a, [a * 2, a + 1]),)


@model(_nested)
class NestedInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(WIDTH, HIDDEN)

    def forward(self, pair: Tuple[torch.Tensor, List[torch.Tensor]]):
        a, rest = pair
        return self.wi(a + rest[0]), (self.wi(rest[1]), [a])


# Scripted.


class _Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.wi = nn.Linear(WIDTH, HIDDEN)
        self.wo = nn.Linear(HIDDEN, WIDTH)
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        return x + self.drop(self.wo(F.dropout(
            F.gelu(self.wi(self.norm(x))), 0.5, self.training)))


@model(script=True)
class ScriptedLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([_Block() for _ in range(3)])
        self.scale = 0.5

    def forward(self, x, times: int = 2):
        states: List[torch.Tensor] = []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i % 2 == 0:
                states.append(x)
            if x.size(1) > 100:
                x = x * 2
        for _ in range(times):
            x = x * self.scale
        if x.dim() == 3 and x.shape[-1] == 20:
            x = x + 1
        assert x.size(0) > 0
        return x, torch.cat(states, dim=1)


@model(script=True)
class ScriptedLengthBranch(nn.Module):
    """A branch that the sizes decide: other sizes must be refused or right."""

    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(WIDTH, HIDDEN)

    def forward(self, x):
        h = self.wi(x)
        if x.size(1) > 4:
            h = h.tanh()
        else:
            h = h * 3
        return h


@model()
class TracedSizes(nn.Module):
    """Sizes reach values: positions, causal masks, counts, divisions."""

    def __init__(self):
        super().__init__()
        self.pos = nn.Embedding(64, WIDTH)
        self.wi = nn.Linear(WIDTH, HIDDEN)

    def forward(self, x):
        b, l, _ = x.shape
        x = x + self.pos(torch.arange(l))
        mask = torch.full((l, l), float("-inf")).triu(1)
        a = (x @ x.mT + mask).softmax(-1)
        h = self.wi(a @ x) / l
        keep = torch.ones(b, l).cumsum(1) - torch.zeros_like(x[..., 0])
        tail = h[:, l // 2:].mean(1) + h[:, -1] + h.new_zeros(b, 1)
        return h.reshape(b * l, HIDDEN)[:l], keep, tail, h.repeat(1, 2, 1)


@model(_floats("b", "l", 1))
class Ones(nn.Module):
    """Dims of size one everywhere."""

    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(1, HIDDEN)
        self.wo = nn.Linear(HIDDEN, 1)
        self.w1 = nn.Linear(1, 1)
        self.norm = nn.LayerNorm(1)
        self.scale = nn.Parameter(torch.empty(1, 1, 1))

    def forward(self, x):
        y = self.wo(self.wi(x).relu()) * self.scale
        return self.norm(self.w1(y)) + y, y.squeeze(-1), y.expand(-1, -1, 3)


class _Cast(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.block = _Block().to(dtype)
        self.emb = nn.Embedding(VOCAB, WIDTH).to(dtype)

    def forward(self, ids):
        h = self.block(self.emb(ids))
        return F.linear(h, self.emb.weight).float(), h


MODELS["InBf16"] = (lambda: _Cast(torch.bfloat16), _ids, False)
MODELS["InF64"] = (lambda: _Cast(torch.float64), _ids, False)


@model()
class Residuals(nn.Module):
    """Partial sums that meet: branches, scaled, reused, negated."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(WIDTH, HIDDEN)
        self.b = nn.Linear(HIDDEN, WIDTH)
        self.c = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.shared = nn.Parameter(torch.empty(WIDTH))

    def forward(self, x):
        h = self.a(x).relu()
        y = self.b(h) * 0.5 - self.c(h) / 3 + self.shared
        z = (y + x) @ self.a.weight.t() + 1
        u = torch.addmm(self.shared, z.flatten(0, 1), self.c.weight.t())
        u = u.unflatten(0, (x.size(0), x.size(1)))
        return u + y.abs() - (-y) * self.shared, torch.baddbmm(
            x, z, self.b.weight.t().expand(x.size(0), -1, -1), beta=0.5)


# Ops that hide others, and rarer ones.


@model()
class FusedEncoder(nn.Module):
    """What an encoder layer and its attention become without gradients."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 5, HIDDEN,
                                                batch_first=True)

    def run(self, x, gelu, norm_first, mask, mask_type):
        layer, attention = self.layer, self.layer.self_attn
        return torch._transformer_encoder_layer_fwd(
            x, WIDTH, 5, attention.in_proj_weight, attention.in_proj_bias,
            attention.out_proj.weight, attention.out_proj.bias, gelu,
            norm_first, layer.norm1.eps, layer.norm1.weight, layer.norm1.bias,
            layer.norm2.weight, layer.norm2.bias, layer.linear1.weight,
            layer.linear1.bias, layer.linear2.weight, layer.linear2.bias,
            mask, mask_type)

    def attend(self, query, key, *rest):
        attention = self.layer.self_attn
        return torch._native_multi_head_attention(
            query, key, key, WIDTH, 5, attention.in_proj_weight,
            attention.in_proj_bias, attention.out_proj.weight,
            attention.out_proj.bias, *rest)

    def forward(self, x):
        b, l, _ = x.shape
        causal = torch.ones(l, l, dtype=torch.bool).triu(1)
        padding = torch.arange(l).unsqueeze(0).expand(b, l) > 3
        x = self.run(x, False, False, None, None)
        x = self.run(x, True, True, causal, 0)
        x = self.run(x, True, False, padding, 1)
        y, mean = self.attend(x, x, None, True, True)
        z, each = self.attend(y, x, padding, True, False, 1)
        return z, mean, each


@model(_floats("b", 3, 8, 6))
class Pixels(nn.Module):
    """Convolution by a normed weight, groups, pixels and columns."""

    def __init__(self):
        super().__init__()
        self.v = nn.Parameter(torch.empty(24, 3, 3, 3))
        self.g = nn.Parameter(torch.empty(24, 1, 1, 1))
        self.norm = nn.GroupNorm(4, 24)
        self.each = nn.InstanceNorm2d(24, affine=True)
        self.mix = nn.Conv2d(24, 12, 1, padding="valid")

    def forward(self, x):
        weight = torch._weight_norm(self.v, self.g, 0)
        h = self.norm(F.conv2d(x, weight, padding="same"))
        h = self.each(F.pixel_shuffle(h, 2).repeat(1, 4, 1, 1))
        h = F.pixel_unshuffle(self.mix(h), 2)
        columns = F.unfold(h, (3, 2), padding=1, stride=2)
        return F.fold(columns, (8, 6), (3, 2), padding=1, stride=2), h.unfold(
            2, 4, 2)


@model(_ids)
class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.sums = nn.EmbeddingBag(VOCAB, WIDTH, mode="sum")
        self.means = nn.EmbeddingBag(VOCAB, WIDTH, mode="mean", padding_idx=2)
        self.largest = nn.EmbeddingBag(VOCAB, HIDDEN, mode="max")
        self.wo = nn.Linear(HIDDEN, WIDTH)

    def forward(self, ids):
        return self.sums(ids) * self.means(ids), self.wo(self.largest(ids))


@model()
class Distances(nn.Module):
    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(WIDTH, HIDDEN)
        self.centers = nn.Parameter(torch.empty(7, HIDDEN))
        self.core = nn.Parameter(torch.empty(HIDDEN, 3, WIDTH))

    def forward(self, x):
        h = self.wi(x)
        near = torch.cdist(h, self.centers)
        alike = F.cosine_similarity(h.unsqueeze(2), self.centers, dim=-1)
        core = torch.renorm(self.core, 2, 1, 1.5)
        y = torch.tensordot(h, core, dims=([2], [0]))
        slots = torch.zeros(x.size(0), 16, HIDDEN)
        slots[:, torch.arange(h.size(1)) + 2] = h * 2
        table = torch.zeros(9, HIDDEN).index_put(
            (torch.tensor([1, 4, 1]),), h[0, :1], accumulate=True)
        return near, alike, y, slots @ self.centers.t(), table, torch.dist(
            h, self.wi.bias), F.pairwise_distance(h, self.wi.bias)


@model()
class MeanLosses(nn.Module):
    """Means over the batch, which parts of it do not have."""

    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(WIDTH, HIDDEN)
        self.weight = nn.Parameter(torch.empty(HIDDEN))

    def forward(self, x):
        logits = self.wi(x).transpose(1, 2)
        labels = (x[..., 0] * 3).long().abs()
        # LibTorch has no derivative of its losses by this weight.
        weight, other = self.weight.detach().abs(), torch.softmax(x @ x.mT, -1)
        return (F.cross_entropy(logits, labels, ignore_index=2),
                F.cross_entropy(logits, labels, weight, ignore_index=3,
                                label_smoothing=0.2),
                F.cross_entropy(logits, logits.softmax(1), weight),
                F.nll_loss(logits.log_softmax(1), labels, weight),
                F.mse_loss(x, x * 0.5), F.smooth_l1_loss(other, x @ x.mT),
                F.binary_cross_entropy_with_logits(
                    logits, logits.sigmoid(), pos_weight=weight[:, None]))


@model()
class Cells(nn.Module):
    """Recurrent cells, unrolled by the tracer."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRUCell(WIDTH, HIDDEN)
        self.lstm = nn.LSTMCell(HIDDEN, WIDTH)

    def forward(self, x):
        first, last = x[:, 0], x[:, -1]
        h = self.gru(last, self.gru(first))
        y, state = self.lstm(h)
        y, state = self.lstm(h * 2, (y, state))
        return h, y, state


# State: what a call leaves for the next one.


@model(_floats("b", 6, 10))
class RunningStatistics(nn.Module):
    """Norms in training mode, between split convolutions."""

    def __init__(self):
        super().__init__()
        # A bias before such a norm has no gradient but rounding.
        self.c1 = nn.Conv1d(6, 10, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm1d(10, momentum=0.3)
        self.i1 = nn.InstanceNorm1d(10, affine=True, track_running_stats=True)
        self.c2 = nn.Conv1d(10, 7, 1, bias=False)
        self.b2 = nn.BatchNorm1d(7)

    def forward(self, x):
        for norm in (self.b1, self.i1, self.b2):
            norm.training = True
        h = self.i1(torch.relu(self.b1(self.c1(x))))
        return self.b2(self.c2(h)), h.mean(-1)


@model()
class Counters(nn.Module):
    """Buffers, an input and a tensor in a dict that are written in place."""

    def __init__(self):
        super().__init__()
        self.wi = nn.Linear(WIDTH, HIDDEN)
        self.wo = nn.Linear(HIDDEN, WIDTH)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("seen", torch.zeros(HIDDEN))
        self.register_buffer("last", torch.ones(2, HIDDEN))

    def forward(self, x):
        self.calls += 1
        h = self.wi(x)
        self.seen.mul_(0.5).add_(h.detach().mean((0, 1)))
        self.last[1].copy_(self.seen - self.last[0])
        y = self.wo(h * self.last[1] + self.calls)
        x[:, 0] = 2.0
        return y, self.seen + 1, x * 2
