"""Models whose control flow depends on data, split, equal the unsharded model.

Each is scripted here, compiled from two inputs and verified in f64 on all its
inputs, which take every branch and other numbers of rounds, on several numbers
of ranks. Some raise on some inputs: then every rank has to end, with the
message. Give names of models to run only those.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import warnings
from typing import Dict, List, Optional, Tuple

import zoo

try:
    import torch
    from safetensors.torch import save_file
    from torch import Tensor, nn
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

D = 16


def rows(batch, scale=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, D, generator=generator) * scale


def number(value):
    return torch.tensor(value)


class IfInLoop(nn.Module):
    """A branch inside of a loop, both decided by data; a list that grows."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(D, D)
        self.b = nn.Linear(D, D)

    def forward(self, x: Tensor, n: Tensor) -> Tuple[Tensor, Tensor]:
        history: List[Tensor] = []
        for i in range(int(n.item())):
            if bool(x.sum() > 0):
                x = torch.tanh(self.a(x))
                history.append(x)
            else:
                x = torch.tanh(self.b(x)) * 2 + i
        history.append(x)
        return x, torch.stack(history).sum(0)

    INPUTS = [(rows(5), number(4)), (rows(2, seed=1), number(1)),
              (rows(3, seed=2), number(0)), (rows(1, seed=3), number(9))]


class WhileBreak(nn.Module):
    """while with a break on data and a counter that is returned."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tuple[Tensor, int]:
        steps = 0
        while True:
            x = self.w(x) * 3
            steps += 1
            if bool(x.abs().max() > 50.0) or steps >= 6:
                break
        return x, steps

    INPUTS = [(rows(4),), (rows(2, 10.0, 1),), (rows(3, 1e-3, 2),),
              (rows(1, 200.0, 3),)]


class LoopedMlp(nn.Module):
    """The weights of an MLP used in a loop are split all the same."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.wi = nn.Linear(D, 4 * D)
        self.wo = nn.Linear(4 * D, D)

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        for _ in range(int(n)):
            x = x + self.wo(torch.relu(self.wi(self.norm(x))))
        return x

    INPUTS = [(rows(5), number(3)), (rows(2, seed=1), number(7)),
              (rows(1, seed=2), number(0))]
    SPLIT = 0.95  # fraction of the weights


class OtherWeights(nn.Module):
    """Each branch has weights of its own."""

    def __init__(self):
        super().__init__()
        self.small = nn.Linear(D, D)
        self.wi = nn.Linear(D, 3 * D)
        self.wo = nn.Linear(3 * D, D)

    def forward(self, x: Tensor, wide: Tensor) -> Tensor:
        if bool(wide):
            y = self.wo(torch.relu(self.wi(x)))
        else:
            y = self.small(x)
        return y + x

    INPUTS = [(rows(5), number(True)), (rows(2, seed=1), number(False)),
              (rows(7, seed=2), number(False))]
    SPLIT = 0.95


class EarlyReturn(nn.Module):
    """return in a branch, and in a loop."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(D, D)
        self.b = nn.Linear(D, D)

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        if bool(x.mean() > 1.0):
            return self.a(x)
        for i in range(int(n)):
            x = self.b(x)
            if bool(x.abs().sum() > 20.0):
                return x * i
        return x - 1

    INPUTS = [(rows(3), number(3)), (rows(2) + 3, number(3)),
              (rows(2, 0.01), number(2)), (rows(1, 9.0, 1), number(5))]


class Raises(nn.Module):
    """An exception that depends on data."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(D, D)

    def forward(self, x: Tensor, limit: Tensor) -> Tensor:
        y = self.w(x)
        if bool(y.abs().max() > limit.item()):
            raise ValueError("the values left their range")
        return torch.relu(y)

    INPUTS = [(rows(3), number(100.0)), (rows(2, seed=1), number(50.0)),
              (rows(3), number(0.001))]
    RAISES = {2: "the values left their range"}


class InPlace(nn.Module):
    """Writes in place in a branch and in a loop's body."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(D, D)

    def forward(self, x: Tensor, n: Tensor) -> Tuple[Tensor, Tensor]:
        y = self.w(x).clone()
        view = y[:, 1:]
        if bool(y.sum() > 0):
            view += 1
        else:
            y[:, 0] = 7.0
        out = torch.zeros_like(y)
        for i in range(int(n)):
            out[:, i] = y[:, i] * 2 + i
            view *= 0.5
        return out, y

    INPUTS = [(rows(3), number(4)), (rows(2, seed=1), number(0)),
              (rows(4, seed=2), number(16)), (rows(5, seed=5), number(2))]


class Optionals(nn.Module):
    """Optional tensors, decided when compiling and in branches."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(D, D)
        self.g = nn.Linear(D, D)

    def scaled(self, x: Tensor, scale: Optional[Tensor]) -> Tensor:
        if scale is None:
            return x
        return x * scale

    def forward(self, x: Tensor) -> Tensor:
        y = self.scaled(self.w(x), None)
        if bool(y.sum() > 0):
            y = self.scaled(y, self.g(x))
        else:
            y = self.scaled(y, None) + 1
        return y

    INPUTS = [(rows(3),), (rows(2, seed=1),), (rows(5, seed=2),),
              (rows(4, seed=3),)]


class Arithmetic(nn.Module):
    """item() in arithmetic: as a number, an operand, an index, an output."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(D, D)

    def forward(self, x: Tensor, n: Tensor,
                s: Tensor) -> Tuple[Tensor, float, int, Tensor]:
        k = int(n.item())
        f = float(s)
        m = (k * 3 + 1) // 2 % 5
        ratio = k / 4 + f ** 2 - min(f, 1.0)
        y = self.w(x) * ratio + k - m
        y = torch.clamp(y, -f * 10, 100.0)
        y = y.masked_fill(y > f, m)
        return (y + x[:, m].unsqueeze(1), ratio, max(m, 2),
                torch.full([x.size(0), 2], f))

    INPUTS = [(rows(3), number(4), number(0.5)),
              (rows(2, seed=1), number(-3), number(2.25)),
              (rows(5, seed=2), number(0), number(1.0))]


class SizesAndData(nn.Module):
    """Conditions from sizes, from data, and from both."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(D, D)

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        y = self.w(x)
        k = int(n)
        if x.size(1) == 16 and k > 2:
            y = y * 2
        if k < x.size(0):
            y = y - k
        if k > 0 or bool(y.sum() > 0):
            y = torch.sigmoid(y)
        t = 0
        while t < x.size(1) and t < k:
            y = y + x[:, t].unsqueeze(1)
            t += 2
        return y

    INPUTS = [(rows(3), number(4)), (rows(6, seed=1), number(1)),
              (rows(2, seed=2), number(-1)), (rows(9, seed=3), number(30))]


class States(nn.Module):
    """A tuple, a list and a dict that a loop changes."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(D, 4 * D)

    def forward(self, x: Tensor, n: Tensor) -> Dict[str, Tensor]:
        state = (torch.zeros_like(x), torch.zeros_like(x))
        found = {"max": x, "last": x}
        scales = [1.0, 2.0]
        for t in range(int(n)):
            i, f, g, o = (self.w(x) + t).chunk(4, dim=1)
            c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c) * scales[0]
            state = (h, c)
            found["max"] = torch.maximum(found["max"], h)
            found["last"] = h
            scales[0] = scales[0] * 0.5
        found["c"] = state[1]
        return found

    INPUTS = [(rows(3), number(3)), (rows(2, seed=1), number(6)),
              (rows(5, seed=2), number(0))]


class NestedLoops(nn.Module):
    """A loop in a loop, both of a length that depends on data."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(D, D)
        self.v = nn.Linear(D, D)

    def forward(self, x: Tensor, n: Tensor) -> Tuple[Tensor, Tensor]:
        k = int(n)
        kept: List[Tensor] = []
        total = x.sum()
        for i in range(k):
            h = self.w(x)
            j = 0
            while j < i and bool(h.abs().max() < 8):
                h = self.v(h) + h
                j += 1
            kept.append(h.mean(dim=1))
            total = total + h.sum() * j
        if len(kept) == 0:
            kept.append(x[:, 0])
        return torch.stack(kept, 1).sum(1), total

    INPUTS = [(rows(3), number(3)), (rows(2, seed=1), number(5)),
              (rows(4, seed=2), number(0)), (rows(1, seed=3), number(1))]


class Sequences(nn.Module):
    """Lists that a loop lengthens: concatenated, counted, taken from."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(D, D)

    def forward(self, x: Tensor, n: Tensor) -> Tuple[Tensor, Tensor, int]:
        parts: List[Tensor] = [x]
        counts: List[int] = []
        for i in range(int(n)):
            parts.append(torch.tanh(self.w(parts[-1])))
            counts.append(i * i)
            counts.append(1)
        total = 0
        for i in range(len(counts)):
            total += counts[i]
        joined = torch.cat(parts, dim=-1)
        if len(parts) > 3:
            joined = joined * 2
        return joined, parts[0] - parts[-1], total

    INPUTS = [(rows(3), number(3)), (rows(2, seed=1), number(1)),
              (rows(5, seed=2), number(6))]


class Recorded(nn.Module):
    """Buffers that change in a branch, and are kept from call to call."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(D, D)
        self.register_buffer("seen", torch.zeros(D))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        y = self.w(x)
        if bool(y.sum() > 0):
            self.seen += y.detach().sum(0)
        else:
            self.calls.add_(1)
        return y + self.seen

    INPUTS = [(rows(3),), (rows(2, seed=1),), (rows(5, seed=2),),
              (rows(4, seed=3),)]


MODELS = [IfInLoop, WhileBreak, LoopedMlp, OtherWeights, EarlyReturn, Raises,
          InPlace, Optionals, Arithmetic, SizesAndData, States, NestedLoops,
          Sequences, Recorded]
RANKS = [1, 2, 3, 5]

class OtherKinds(nn.Module):
    """None or a tensor, as data decides."""

    def forward(self, x: Tensor) -> Tensor:
        y: Optional[Tensor] = None
        if bool(x.sum() > 0):
            y = x + 1
        if y is None:
            return x
        return y

    INPUTS = Optionals.INPUTS
    REFUSAL = "after an 'if' that depends on data"


class SizeOfData(nn.Module):
    """A number that depends on data as a size."""

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        return x[:, :int(n)]

    INPUTS = LoopedMlp.INPUTS
    REFUSAL = "depends on data"


REFUSED = [OtherKinds, SizeOfData]


def export(kind, folder):
    torch.manual_seed(3)
    module = kind().eval()
    torch.jit.script(module).save(str(folder / "model.pt"))
    for i, inputs in enumerate(kind.INPUTS):
        save_file({f"input_{k}": tensor.clone()
                   for k, tensor in enumerate(inputs)},
                  folder / f"{i}.safetensors")


def compile_model(folder, ranks, package, *flags):
    return zoo.run(zoo.BIN / "tp-compile", folder / "model.pt", "-q", "--json",
                   "--tp", ranks, "-o", package, "--inputs",
                   folder / "0.safetensors", "--inputs",
                   folder / "1.safetensors", *flags)


def expect_failure(code, message, *command):
    done = subprocess.run([str(part) for part in command], check=False,
                          capture_output=True, text=True, timeout=120)
    if done.returncode != code or message not in done.stderr:
        raise RuntimeError(f"not refused as it should be, exit code "
                           f"{done.returncode}: {done.stderr}")


def check(kind, ranks):
    """Raises if the model, split, is not the model."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        export(kind, folder)
        package = folder / "package"
        plan = json.loads(compile_model(folder, ranks, package))
        raises = getattr(kind, "RAISES", {})
        for i in range(len(kind.INPUTS)):
            inputs = ["--inputs", folder / f"{i}.safetensors"]
            if i in raises:
                expect_failure(1, raises[i], zoo.BIN / "tp-run", package,
                               *inputs, "--outputs", folder / "out")
                continue
            for dtype in ([], ["--verify-dtype", "f64"]):
                zoo.run(zoo.BIN / "tp-run", package, "--check-replicas",
                        *inputs, "--verify", folder / "model.pt", *dtype)
        check_split(kind, plan, ranks)


def check_split(kind, plan, ranks):
    wanted = getattr(kind, "SPLIT", 0)
    if ranks == 1 or wanted == 0:
        return
    total = sum(weight["bytes"] for weight in plan["weights"])
    split = sum(weight["bytes"] for weight in plan["weights"]
                if max(weight["local_bytes"]) < weight["bytes"])
    if split < wanted * total:
        raise RuntimeError(f"only {split} of {total} bytes are split")


def check_refused(kind):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        export(kind, folder)
        expect_failure(4, kind.REFUSAL, zoo.BIN / "tp-compile",
                       folder / "model.pt", "--tp", 2, "-o", folder / "package",
                       "--inputs", folder / "0.safetensors")


def check_training():
    """Gradients of control flow are refused, not wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        export(LoopedMlp, folder)
        expect_failure(4, "cannot be trained yet", zoo.BIN / "tp-compile",
                       folder / "model.pt", "--tp", 2, "-o", folder / "package",
                       "--train", "--inputs", folder / "0.safetensors")


def main():
    warnings.filterwarnings("ignore")
    jobs = [(f"{kind.__name__}, {ranks} ranks", lambda k=kind, r=ranks:
             check(k, r)) for kind in MODELS for ranks in RANKS]
    jobs += [(f"{kind.__name__} is refused", lambda k=kind: check_refused(k))
             for kind in REFUSED]
    jobs.append(("training is refused", check_training))
    names = sys.argv[1:]
    failed, done = 0, 0
    for label, job in jobs:
        if names and not any(label.startswith(name) for name in names):
            continue
        done += 1
        try:
            job()
            print(f"ok    {label}", flush=True)
        except RuntimeError as error:
            failed += 1
            print(f"FAIL  {label}: {error}", flush=True)
    print(f"{done - failed} of {done} pass")
    sys.exit(1 if failed or not done else 0)


if __name__ == "__main__":
    main()
