"""Statements that a random model is made of.

Each function adds one statement to a State and returns what State.add does:
None where nothing in the model fits. WEIGHTS says how often each is drawn.
"""

import torch

from fuzz.model import VOCAB

UNARY = [
    "torch.relu({0})", "F.gelu({0})", "torch.tanh({0})", "torch.sigmoid({0})",
    "F.silu({0})", "torch.exp(-{0}.abs())", "{0}.abs()", "-{0}", "{0} * 0.5",
    "{0} + 1.5", "1 - {0}", "({0}.abs() + 1).sqrt()", "F.softplus({0})",
    "F.leaky_relu({0}, 0.1)", "F.hardtanh({0}, -0.7, 0.9)", "F.elu({0})",
    "torch.log1p({0}.abs())", "torch.sin({0})", "{0}.cos()", "torch.erf({0})",
    "{0} ** 2", "{0}.square()", "{0}.clamp(-1, 0.8)", "{0}.clamp(min=0.1)",
    "{0} / 3", "2 / ({0}.abs() + 1)", "torch.rsqrt({0}.abs() + 0.5)",
    "F.mish({0})", "F.logsigmoid({0})", "F.gelu({0}, approximate='tanh')",
    "{0}.reciprocal().clamp(-2, 2)", "torch.addcmul({0}, {0}, {0}, value=0.3)",
    "F.relu6({0})", "F.hardswish({0})", "F.selu({0})", "F.tanhshrink({0})",
    "F.softsign({0})", "{0}.clone()", "{0}.contiguous()", "{0} + {0}",
    "torch.nan_to_num({0})", "torch.rsub({0}, 2.0, alpha=0.5)",
    "F.threshold({0}, 0.1, 0.0)", "F.celu({0}, 0.7)", "F.hardsigmoid({0})",
]
BINARY = [
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / ({1}.abs() + 1)",
    "torch.maximum({0}, {1})", "torch.minimum({0}, {1})",
    "torch.where({1} > 0, {0}, {1})", "torch.lerp({0}, {1}, 0.3)",
    "torch.atan2({0}, {1}.abs() + 0.5)", "torch.add({0}, {1}, alpha=2)",
    "torch.where({0} > {1}, {0} * 2, {1})", "torch.hypot({0}, {1} + 3)",
    "torch.sub({0}, {1}, alpha=0.5)", "torch.logaddexp({0}, {1})",
    "torch.addcdiv({0}, {1}, {1}.abs() + 1, value=0.5)",
]
JUMPS = [
    "torch.sign({0})", "{0}.floor()", "{0}.ceil()", "{0}.round()",
    "({0} > 0.1).float()", "torch.frac({0})", "{0}.trunc()",
    "F.one_hot(({0}.abs() * 3).long().clamp(0, 4), 5).to({0}.dtype)",
]
REDUCE = ["sum", "mean", "amax", "amin", "var", "std", "logsumexp", "norm",
          "prod"]


def unary(s):
    x = s.pick()
    return x and s.add("{} = " + s.rng.choice(UNARY).format(x.name), [x])


def jump(s):
    x = s.pick()
    if x is None or s.train:
        return None
    s.smooth = False
    return s.add("{} = " + s.rng.choice(JUMPS).format(x.name), [x])


def _broadcasts(x, y):
    return all(m == n or 1 in (m, n)
               for m, n in zip(reversed(x.dims), reversed(y.dims)))


def binary(s):
    x = s.pick()
    y = x and s.pick(lambda v: v is not x and _broadcasts(x, v))
    if y is None:
        return None
    s.smooth = s.smooth and y.is_float
    return s.add("{} = " + s.rng.choice(BINARY).format(x.name, y.name), [x, y])


def with_parameter(s):
    """A pointwise op with a vector or a scalar of the model."""
    x = s.pick(lambda v: v.dims and v.dims[-1])
    if x is None:
        return None
    sizes = s.rng.choice([[x.dims[-1]], [1], [1, x.dims[-1]]])
    parameter = s.parameter(*sizes, scale=1.0)
    op = s.rng.choice(["{0} * {1}", "{0} + {1}", "{1} - {0}",
                       "torch.addcmul({1}, {0}, {1})", "F.prelu({0}, {1}[:1])",
                       "{0}.mul({1}.exp())"])
    return s.add("{} = " + op.replace("{1}[:1]", f"{parameter}.flatten()[:1]")
                 .format(x.name, parameter), [x])


def _matrix(s, width, out):
    """A matrix [out, width], sometimes one that is there already."""
    for name, tensor in s.parameters():
        if tuple(tensor.shape) == (out, width) and s.rng.random() < 0.7:
            return name, True
        if tuple(tensor.shape) == (width, out) and s.rng.random() < 0.7:
            return f"{name}.t()", False
    return s.parameter(out, width), True


def linear(s):
    x = s.pick(lambda v: v.ndim >= 1 and v.dims[-1] and v.dims[-1] <= 200)
    if x is None:
        return None
    width = x.dims[-1]
    out = s.rng.choice([20, 20, 21, 35, 12, 24, 7, VOCAB, width, 16])
    matrix, _ = _matrix(s, width, out)
    style = s.rng.random()
    if style < 0.35:
        return s.add("{} = " + f"F.linear({x.name}, {matrix})", [x])
    if style < 0.6:
        bias = s.parameter(out, scale=0.5)
        return s.add("{} = " + f"F.linear({x.name}, {matrix}, {bias})", [x])
    if style < 0.7:
        member = s.member(f"nn.Linear({width}, {out})")
        return s.add("{} = " + f"self.{member}({x.name})", [x])
    if style < 0.8:
        return s.add("{} = " + f"torch.matmul({x.name}, {matrix}.t())", [x])
    if style < 0.9:
        return s.add("{} = " + f"torch.einsum('...d,kd->...k', {x.name}, "
                     f"{matrix})", [x])
    if x.ndim == 2:
        bias = s.parameter(out, scale=0.5)
        return s.add("{} = " + f"torch.addmm({bias}, {x.name}, {matrix}.t())",
                     [x])
    return s.add("{} = " + f"{x.name} @ {matrix}.transpose(0, 1)", [x])


def mlp(s):
    """Two products around an activation: what gets split."""
    x = s.pick(lambda v: v.ndim >= 2 and v.dims[-1])
    if x is None:
        return None
    width, hidden = x.dims[-1], s.rng.choice([24, 35, 40, 16, 6])
    up = s.parameter(hidden, width)
    down = s.parameter(s.rng.choice([width, 20]), hidden)
    act = s.rng.choice(["F.gelu", "torch.relu", "torch.tanh", "F.silu"])
    inner = f"{act}(F.linear({x.name}, {up}))"
    if s.rng.random() < 0.3:
        gate = s.parameter(hidden, width)
        inner += f" * F.linear({x.name}, {gate})"
    return s.add("{} = " + f"F.linear({inner}, {down})", [x])


def attention(s):
    x = s.pick(lambda v: v.ndim == 3 and v.dims[-1] and v.dims[-1] <= 64)
    if x is None:
        return None
    width = x.dims[-1]
    heads, size = s.rng.choice([(4, 5), (2, 7), (5, 4), (3, 6), (1, 8), (6, 2)])
    groups = s.rng.choice([g for g in (1, 2, 3, heads) if heads % g == 0])
    q = s.parameter(heads * size, width)
    kv = s.parameter(2 * groups * size, width)
    out = s.parameter(width, heads * size)
    n = s.name()
    form = s.rng.choice(["b {0}, l {0}", "size"])
    b, l = f"{x.name}.size(0)", f"{x.name}.size(1)"
    del form
    lines = [
        f"{n}q = F.linear({x.name}, {q}).view({b}, {l}, {heads}, {size})"
        f".transpose(1, 2)",
        f"{n}k, {n}v = F.linear({x.name}, {kv}).chunk(2, dim=-1)",
        f"{n}k = {n}k.view({b}, {l}, {groups}, {size}).transpose(1, 2)",
        f"{n}v = {n}v.view({b}, {l}, {groups}, {size}).transpose(1, 2)",
    ]
    if groups != heads:
        lines += [f"{n}{t} = {n}{t}.repeat_interleave({heads // groups}, "
                  f"dim=1)" for t in "kv"]
    causal = s.rng.random() < 0.5
    if s.rng.random() < 0.5:
        lines.append(f"{n}o = F.scaled_dot_product_attention({n}q, {n}k, {n}v, "
                     f"is_causal={causal})")
    else:
        lines.append(f"{n}s = {n}q @ {n}k.transpose(-2, -1) / {size ** 0.5}")
        if causal:
            lines.append(f"{n}s = {n}s.masked_fill(torch.ones({l}, {l}, "
                         f"dtype=torch.bool).triu(1), -1e9)")
        lines.append(f"{n}o = torch.softmax({n}s, -1) @ {n}v")
    lines.append("{} = " + f"F.linear({n}o.transpose(1, 2).reshape({b}, {l}, "
                 f"{heads * size}), {out})")
    return s.add("\n".join(lines), [x])


def batched_product(s):
    x = s.pick(lambda v: v.ndim >= 2)
    if x is None:
        return None
    y = s.pick(lambda v: v.ndim == x.ndim and v.dims[:-2] == x.dims[:-2])
    op = s.rng.choice(["{0} @ {1}", "{0} @ {1}.transpose(-1, -2)",
                       "{0}.transpose(-1, -2) @ {1}", "torch.bmm({0}, {1})",
                       "torch.einsum('bij,bkj->bik', {0}, {1})",
                       "torch.einsum('bij,bij->bi', {0}, {1})",
                       "torch.baddbmm({0} @ {1}, {0}, {1})"])
    return y and s.add("{} = " + op.format(x.name, y.name) + " * 0.2", [x, y])


def norm(s):
    x = s.pick(lambda v: v.ndim >= 2 and v.dims[-1] and v.dims[-1] > 1)
    if x is None:
        return None
    width = x.dims[-1]
    kind = s.rng.randrange(7)
    if kind == 0:
        return s.add("{} = " + f"F.layer_norm({x.name}, ({width},))", [x])
    if kind == 1:
        member = s.member(f"nn.LayerNorm({width})")
        return s.add("{} = " + f"self.{member}({x.name})", [x])
    if kind == 2:
        weight = s.parameter(width, scale=1.0)
        return s.add("{} = " + f"{x.name} * torch.rsqrt({x.name}.pow(2)"
                     f".mean(-1, keepdim=True) + 1e-5) * {weight}", [x])
    if kind == 3:
        return s.add("{} = " + f"F.normalize({x.name}, dim="
                     f"{s.rng.randrange(-x.ndim, x.ndim)}, eps=0.1)", [x])
    if kind == 4:
        return s.add("{} = " + f"torch.softmax({x.name}, "
                     f"{s.rng.randrange(-x.ndim, x.ndim)})", [x])
    if kind == 5:
        return s.add("{} = " + f"F.log_softmax({x.name}, "
                     f"{s.rng.randrange(-x.ndim, x.ndim)})", [x])
    weight = s.parameter(width, scale=1.0)
    return s.add("{} = " + f"F.rms_norm({x.name}, ({width},), {weight}, 1e-5)",
                 [x])


def channel_norm(s):
    x = s.pick(lambda v: v.ndim >= 2 and v.dims[1] and v.dims[1] > 1)
    if x is None:
        return None
    channels = x.dims[1]
    groups = [g for g in (1, 2, 3, channels) if channels % g == 0]
    if s.rng.random() < 0.5:
        weight, bias = (s.parameter(channels, scale=1.0) for _ in range(2))
        return s.add("{} = " + f"F.group_norm({x.name}, "
                     f"{s.rng.choice(groups)}, {weight}, {bias}, 1e-3)", [x])
    mean, weight = (s.parameter(channels, scale=1.0) for _ in range(2))
    return s.add("{} = " + f"F.batch_norm({x.name}, {mean}.detach(), "
                 f"{weight}.detach() ** 2 + 0.5, {weight}, None, False, 0.1, "
                 "1e-3)", [x])


def reduce(s):
    x = s.pick(lambda v: v.ndim >= 1)
    if x is None:
        return None
    op = s.rng.choice(REDUCE)
    dims = s.rng.sample(range(x.ndim), s.rng.randint(1, min(2, x.ndim)))
    dims = [d - x.ndim if s.rng.random() < 0.5 else d for d in dims]
    keep = s.rng.random() < 0.5
    if op == "prod":
        return s.add("{} = " + f"{x.name}.clamp(-1.2, 1.2).prod({dims[0]}, "
                     f"keepdim={keep})", [x])
    if op == "norm":
        return s.add("{} = " + f"({x.name} + 0.3).norm(dim={dims[0]}, "
                     f"keepdim={keep})", [x])
    if op == "std":
        return s.add("{} = " + f"({x.name}.var(dim={dims}, keepdim={keep}, "
                     "unbiased=False) + 0.1).sqrt()", [x])
    if s.rng.random() < 0.1 and op in ("sum", "mean"):
        return s.add("{} = " + f"{x.name}.{op}()", [x])
    return s.add("{} = " + f"{x.name}.{op}(dim={dims}, keepdim={keep})", [x])


def scan(s):
    x = s.pick(lambda v: v.ndim >= 1)
    if x is None:
        return None
    dim = s.rng.randrange(-x.ndim, x.ndim)
    op = s.rng.choice(["cumsum({0}, {1})", "flip({0}, [{1}])",
                       "roll({0}, 2, {1})", "cummax({0}, {1})[0]",
                       "sort({0}, dim={1})[0]", "sort({0}, dim={1}, "
                       "descending=True)[0]", "max({0}, dim={1})[0]",
                       "min({0}, {1}, keepdim=True)[0]",
                       "topk({0}, 2, dim={1})[0]", "diff({0}, dim={1})",
                       "cumsum({0}, {1}) - {0}",
                       "logcumsumexp({0}, {1})"])
    return s.add("{} = torch." + op.format(x.name, dim), [x])


def integers(s):
    """An int tensor, from ids or by sorting."""
    x = s.pick(lambda v: v.ndim >= 1)
    if x is None or s.train:
        return None
    s.smooth = False
    dim = s.rng.randrange(-x.ndim, x.ndim)
    op = s.rng.choice(["{0}.argmax({1})", "{0}.argsort({1})",
                       "({0} > 0).sum({1})", "torch.topk({0}, 1, {1})[1]",
                       "({0} * 4).round().long().clamp(0, 5)",
                       "torch.arange({0}.size({1}))",
                       "torch.full_like({0}, 2, dtype=torch.long)"])
    return s.add("{} = " + op.format(x.name, dim), [x])


def of_integers(s):
    x = s.pick(lambda v: not v.is_float and v.ndim >= 1, floats=False)
    if x is None:
        return None
    if x.dtype == torch.bool:
        y = s.pick(lambda v: _broadcasts(v, x) and v.ndim >= x.ndim)
        op = s.rng.choice(["{1}.masked_fill({0}, 0.5)", "{1} * {0}",
                           "torch.where({0}, {1}, {1} * 2)", "{1} + ~{0}",
                           "{1}.masked_fill(~{0}, -2.0)"])
        return y and s.add("{} = " + op.format(x.name, y.name), [x, y])
    size = s.rng.choice([VOCAB, 40])
    kind = s.rng.randrange(4)
    ids = f"{x.name}.remainder({size})"
    if kind == 0:
        return s.add("{} = " + f"F.one_hot({ids}, {size}).float()", [x])
    if kind == 1:
        return s.add("{} = " + f"{x.name}.float() * 0.1", [x])
    table = next((name for name, tensor in s.parameters()
                  if tensor.dim() == 2 and tensor.shape[0] >= size and
                  s.rng.random() < 0.6), None)
    table = table or s.parameter(size, s.rng.choice([20, 20, 14]), scale=0.7)
    return s.add("{} = " + s.rng.choice(["F.embedding({0}, {1})",
                                         "{1}[{0}]"]).format(ids, table), [x])


def indexed(s):
    x = s.pick(lambda v: v.ndim >= 1)
    if x is None:
        return None
    dim = s.rng.randrange(x.ndim)
    size = min(t.shape[dim] for t in x.tensors)
    if size < 1:
        return None
    picks = [s.rng.randrange(size) for _ in range(s.rng.randint(1, 4))]
    tensor = f"torch.tensor({picks})"
    op = s.rng.choice(["index_select({0}, {1}, {2})",
                       "{0}.index_add({1}, {2}, {0}.index_select({1}, {2}))",
                       "gather({0}, {1}, torch.zeros_like({0}, "
                       "dtype=torch.long))"])
    text = op.format(x.name, dim, tensor)
    return s.add("{} = " + (text if text.startswith(x.name)
                            else "torch." + text), [x])


def _size(s, x, dim):
    """A fixed size as a number or as a question."""
    if x.dims[dim] is not None and s.rng.random() < 0.7:
        return str(x.dims[dim])
    return s.rng.choice(["{}.size({})", "{}.shape[{}]"]).format(x.name, dim)


def _factors(n):
    return [f for f in range(2, n) if n % f == 0]


def split_dim(s):
    x = s.pick(lambda v: any(d and _factors(d) for d in v.dims))
    if x is None:
        return None
    dims = [i for i, d in enumerate(x.dims) if d and _factors(d)]
    dim = s.rng.choice(dims)
    factor = s.rng.choice(_factors(x.dims[dim]))
    sizes = [_size(s, x, i) for i in range(x.ndim)]
    sizes[dim:dim + 1] = [str(factor), str(x.dims[dim] // factor)]
    if s.rng.random() < 0.4:
        sizes[s.rng.randrange(len(sizes))] = "-1"
    op = s.rng.choice(["reshape", "reshape", "view"])
    if s.rng.random() < 0.2:
        return s.add("{} = " + f"{x.name}.unflatten({dim}, [{factor}, "
                     f"{x.dims[dim] // factor}])", [x])
    return s.add("{} = " + f"{x.name}.{op}({', '.join(sizes)})", [x])


def merge_dims(s):
    x = s.pick(lambda v: v.ndim >= 2)
    if x is None:
        return None
    dim = s.rng.randrange(x.ndim - 1)
    kind = s.rng.random()
    if kind < 0.3:
        return s.add("{} = " + f"{x.name}.flatten({dim}, {dim + 1})", [x])
    sizes = [_size(s, x, i) for i in range(x.ndim)]
    sizes[dim:dim + 2] = [s.rng.choice(
        ["-1", f"{sizes[dim]} * {sizes[dim + 1]}"])]
    return s.add("{} = " + f"{x.name}.reshape({', '.join(sizes)})", [x])


def rearrange(s):
    x = s.pick(lambda v: v.ndim >= 1)
    if x is None:
        return None
    n, d, e = x.ndim, s.rng.randrange(x.ndim), s.rng.randrange(-x.ndim, x.ndim)
    order = list(range(n))
    s.rng.shuffle(order)
    op = s.rng.choice([
        f".transpose({d}, {e})", f".permute({order})", f".unsqueeze({e})",
        ".squeeze()", f".movedim({d}, {e})", f".unsqueeze({d}).squeeze({d})",
        ".mT" if n >= 2 else ".clone()", f".swapaxes({d}, {e})"])
    return s.add("{} = " + x.name + op, [x])


def grow(s):
    x = s.pick(lambda v: v.ndim >= 1 and v.tensors[0].numel() < 3000)
    if x is None:
        return None
    n, d = x.ndim, s.rng.randrange(x.ndim)
    ones = ["-1"] * n
    repeats = [str(s.rng.choice([1, 1, 2])) for _ in range(n)]
    op = s.rng.choice([
        f".unsqueeze({d}).expand({', '.join(ones[:d] + ['3'] + ones[d:])})",
        f".repeat({', '.join(repeats)})", f".repeat_interleave(2, dim={d})",
        f".tile([{', '.join(repeats)}])"])
    if s.rng.random() < 0.3:
        pads = [s.rng.choice([-1, 0, 1, 2]) for _ in range(2)]
        return s.add("{} = " + f"F.pad({x.name}, {pads}, value=0.5)", [x])
    return s.add("{} = " + x.name + op, [x])


def pieces(s):
    x = s.pick(lambda v: v.ndim >= 1)
    if x is None:
        return None
    d = s.rng.randrange(x.ndim)
    size = x.dims[d]
    if size is None or size < 2:
        return None
    kind = s.rng.randrange(4)
    dim = s.rng.choice([d, d - x.ndim])
    if kind == 0:
        count = s.rng.randint(2, min(3, size))
        step = -(-size // count)
        count = -(-size // step)
        return s.add("{} = " + f"{x.name}.chunk({count}, dim={dim})", [x],
                     count)
    if kind == 1:
        cut = s.rng.randint(1, size - 1)
        return s.add("{} = " + f"torch.split({x.name}, [{cut}, {size - cut}], "
                     f"dim={dim})", [x], 2)
    if kind == 2 and size <= 4:
        return s.add("{} = " + f"{x.name}.unbind({dim})", [x], size)
    step = s.rng.randint(1, size)
    return s.add("{} = " + f"{x.name}.split({step}, dim={dim})", [x],
                 -(-size // step))


def window(s):
    x = s.pick(lambda v: v.ndim >= 1)
    if x is None:
        return None
    d = s.rng.randrange(x.ndim)
    colons = ":, " * d
    size = min(t.shape[d] for t in x.tensors)
    if size < 1:
        return None
    k = s.rng.randrange(size)
    piece = s.rng.choice([f"{k}:", f":{k + 1}", f"::{s.rng.randint(1, 3)}",
                          f"{-k - 1}:", f"{k}", f"{-k - 1}", f"{k}:{k + 1}",
                          "None", f"1:-1" if size > 2 else ":"])
    if s.rng.random() < 0.15:
        return s.add("{} = " + f"{x.name}.narrow({d}, {k}, "
                     f"{s.rng.randint(1, size - k)})", [x])
    if s.rng.random() < 0.1:
        return s.add("{} = " + f"{x.name}.select({d - x.ndim}, {k})", [x])
    if s.rng.random() < 0.1 and size >= 2:
        return s.add("{} = " + f"{x.name}.unfold({d}, 2, 1)", [x])
    return s.add("{} = " + f"{x.name}[{colons}{piece}]", [x])


def join(s):
    x = s.pick(lambda v: v.ndim >= 1)
    if x is None:
        return None
    d = s.rng.randrange(x.ndim)
    if s.rng.random() < 0.3:
        y = s.pick(lambda v: v.dims == x.dims)
        return s.add("{} = " + f"torch.stack([{x.name}, {y.name}], dim="
                     f"{s.rng.randrange(-x.ndim - 1, x.ndim + 1)})", [x, y])
    y = s.pick(lambda v: v.ndim == x.ndim and all(
        m == n for i, (m, n) in enumerate(zip(v.dims, x.dims)) if i != d))
    return y and s.add("{} = " + f"torch.cat([{x.name}, {y.name}], dim="
                       f"{s.rng.choice([d, d - x.ndim])})", [x, y])


def conv(s):
    x = s.pick(lambda v: v.ndim in (3, 4) and v.dims[1] and v.dims[1] <= 40)
    if x is None:
        return None
    channels, n = x.dims[1], x.ndim - 2
    groups = s.rng.choice([g for g in (1, 1, 2, 3, channels)
                           if channels % g == 0])
    out = groups * s.rng.choice([1, 2, 3, 4])
    kernel = [s.rng.choice([1, 2, 3]) for _ in range(n)]
    padding = s.rng.choice([0, 1])
    if s.rng.random() < 0.25:
        weight = s.parameter(channels, out // groups, *kernel, scale=0.3)
        return s.add("{} = " + f"F.conv_transpose{n}d({x.name}, {weight}, "
                     f"None, stride=2, groups={groups})", [x])
    weight = s.parameter(out, channels // groups, *kernel, scale=0.3)
    bias = s.parameter(out) if s.rng.random() < 0.5 else "None"
    stride = s.rng.choice([1, 1, 2])
    return s.add("{} = " + f"F.conv{n}d({x.name}, {weight}, {bias}, "
                 f"stride={stride}, padding={padding}, groups={groups})", [x])


def pool(s):
    x = s.pick(lambda v: v.ndim in (3, 4) and v.dims[1])
    if x is None:
        return None
    n = x.ndim - 2
    op = s.rng.choice([f"F.max_pool{n}d({{0}}, 2, stride=1)",
                       f"F.avg_pool{n}d({{0}}, 2, stride=1)",
                       f"F.adaptive_avg_pool{n}d({{0}}, 1)",
                       "F.interpolate({0}, scale_factor=2.0, mode='nearest')",
                       f"F.max_pool{n}d({{0}}, 3, stride=2, padding=1)"])
    return s.add("{} = " + op.format(x.name), [x])


def triangle(s):
    x = s.pick(lambda v: v.ndim >= 2)
    op = s.rng.choice(["tril({})", "triu({}, 1)", "tril({}, -1)",
                       "diagonal({}, 0, -2, -1)"])
    return x and s.add("{} = torch." + op.format(x.name), [x])


def made(s):
    """A fresh tensor with the sizes of another."""
    x = s.pick(lambda v: v.ndim >= 1)
    op = s.rng.choice(["torch.zeros_like({0})", "torch.ones_like({0})",
                       "torch.full_like({0}, 0.3)", "{0}.new_zeros({0}.shape)",
                       "torch.zeros({0}.size(0), 20)",
                       "torch.arange({0}.size(-1), dtype={0}.dtype) * 0.1",
                       "torch.full([{0}.size(0), 1], 0.7)",
                       "torch.eye({0}.size(-1))"])
    return x and s.add("{} = " + op.format(x.name) + " + 0", [x])


def _share_memory(x, y):
    return any(a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
               for a, b in zip(x.tensors, y.tensors))


def write(s):
    """An in-place op on a variable that is no input, weight or view of one."""
    x = s.pick(lambda v: v.ndim >= 1 and s.may_write(v))
    if x is None:
        return None
    d = s.rng.randrange(x.ndim)
    size = min(t.shape[d] for t in x.tensors)
    if size < 1:
        return None
    at = ":, " * d + s.rng.choice([f"{s.rng.randrange(size)}",
                                   f":{s.rng.randrange(1, size + 1)}",
                                   f"-{s.rng.randrange(1, size + 1)}:", "::2"])
    # What PyTorch gives when it reads what it is writing is anyone's guess.
    y = s.pick(lambda v: v is not x and _broadcasts(x, v) and
               v.ndim <= x.ndim and not _share_memory(x, v))
    kinds = ["{}.add_(0.5)", "{}.mul_(0.7)", "{}.clamp_(-1, 1)", "{}.tanh_()",
             f"{{}}[{at}] = 0.25", f"{{}}[{at}] *= 2", f"{{}}[{at}].add_(1)",
             "{}.sub_(0.1).mul_(2)", f"{{}}.select({d}, 0).zero_()",
             f"{{}}.narrow({d}, 0, 1).fill_(0.4)", "{}.relu_()",
             "{} += 0.3", f"{{}}[{at}] = {{}}[{at}] * 0.5"]
    if s.rng.random() < 0.3 and not s.train:
        return s.write("{}.masked_fill_({} > 0.5, 0.1)", x)
    if y is not None and s.rng.random() < 0.5:
        return s.write(s.rng.choice([
            "{}.add_(%s)", "{}.mul_(%s)", "{}.copy_(%s)", "{} -= %s",
            "{}.addcmul_(%s, %s, value=0.2)".replace("%s, %s", "{0}, {0}")
            .replace("{0}", y.name) + "  # %s"]) % y.name, x, [y])
    return s.write(s.rng.choice(kinds), x)


def branch(s):
    """A condition on a size; scripted models keep both ways."""
    x = s.pick(lambda v: v.ndim >= 1)
    if x is None:
        return None
    if not s.script:
        return None
    d = s.rng.randrange(x.ndim)
    first, second = s.rng.choice(
        [("torch.relu({0})", "{0} * 2"), ("{0} + 1", "{0}"),
         ("{0}.tanh()", "{0}.abs()")])
    relation = s.rng.choice([f"{x.name}.size({d}) > 1", f"{x.name}.dim() == 3",
                             f"{x.name}.shape[{d}] % 2 == 7",
                             f"{x.name}.size({d}) >= {x.name}.size(0)"])
    name = s.name()
    return s.add(f"if {relation}:\n    {name} = {first.format(x.name)}\n"
                 f"else:\n    {name} = {second.format(x.name)}", [x],
                 names=[name])


def loop(s):
    x = s.pick(lambda v: v.dims and v.dims[-1] and v.dims[-1] <= 40)
    if x is None:
        return None
    matrix = s.parameter(x.dims[-1], x.dims[-1])
    name, i = s.name(), f"i{s.rng.randrange(1000)}"
    body = s.rng.choice([f"{name} = torch.tanh({name} @ {matrix})",
                         f"{name} = {name} + 0.1 * {name}.flip(-1)",
                         f"{name} = {name} * 0.5 + {x.name} * {i}"])
    return s.add(f"{name} = {x.name}\nfor {i} in range("
                 f"{s.rng.randint(1, 3)}):\n    {body}", [x], names=[name])


def cast(s):
    x = s.pick()
    op = s.rng.choice(["{0}.double().float()", "{0}.to(torch.float32)",
                       "{0}.type_as({0})", "{0}.float()",
                       "{0}.to({0}.dtype)", "{0}.detach()"])
    if s.train and "detach" in op and s.rng.random() < 0.7:
        return None
    return x and s.add("{} = " + op.format(x.name), [x])


WEIGHTS = {
    unary: 8, jump: 1, binary: 7, with_parameter: 4, linear: 9, mlp: 4,
    attention: 3, batched_product: 3, norm: 5, channel_norm: 1, reduce: 4,
    scan: 3, integers: 2, of_integers: 5, indexed: 2, split_dim: 4,
    merge_dims: 4, rearrange: 5, grow: 3, pieces: 4, window: 4, join: 4,
    conv: 3, pool: 1, triangle: 1, made: 2, write: 5, branch: 3, loop: 2,
    cast: 1,
}
