"""What tools/fuzz_models found, each as it was reduced.

Compiled for 1 to 4 ranks and compared with the unsharded model in f64, at the
sizes of the examples and at others; gradients where the model gives a loss.
"""

import pathlib
import sys
import tempfile
import warnings

import zoo

try:
    import torch
    from safetensors.torch import save_file
    from torch import nn
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

WIDTH = 20
SIZES = [(3, 7), (2, 5), (4, 9), (1, 1)]  # the first two are examples


class ExtremeWithGradient(nn.Module):
    """Every rank took the gradient of a minimum that only one of them held."""
    gradients = True

    def __init__(self):
        super().__init__()
        self.p = nn.Linear(WIDTH, 7)

    def forward(self, x):
        least = self.p(x).amin(dim=[-1, -2], keepdim=True)
        most = self.p(x).amax(dim=-1)
        return (least * least).mean() + (most * most * most).mean()


class EinsumEllipsis(nn.Module):
    """An einsum equation with an ellipsis was refused."""
    gradients = False

    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(torch.randn(21, WIDTH))

    def forward(self, x):
        y = torch.einsum("...d,kd->...k", x, self.p)
        return y, torch.einsum("...k,...k", y, y), torch.einsum(
            "b...k,kd->b...d", y, self.p)


class WriteThroughReshape(nn.Module):
    """Reading what a reshape of a contiguous tensor was written through was
    refused: whether it copies was not known."""
    gradients = False

    def __init__(self):
        super().__init__()
        self.p = nn.Linear(WIDTH, 12)

    def forward(self, x):
        y = torch.sin(self.p(x))
        y.reshape(-1, y.shape[2])[:, 1:].mul_(2)
        z = torch.tanh(y)
        z.flatten(0, 1).select(1, 3).zero_()
        return torch.flip(y, [-2]), z, z.contiguous().reshape(-1)


class CopyOfTransposed(nn.Module):
    """A tensor written in full keeps its strides. So this reshape copies at
    some sizes and at others does not, which stays refused."""
    gradients = False

    def __init__(self):
        super().__init__()
        self.p = nn.Linear(WIDTH, 12)

    def forward(self, x):
        t = self.p(x).transpose(0, 2)
        t.copy_(torch.sin(torch.ones_like(t, memory_format=torch.
                                          contiguous_format)))
        y = t + 1
        y.reshape(-1).mul_(2)
        return y


MODELS = [ExtremeWithGradient, EinsumEllipsis, WriteThroughReshape,
          CopyOfTransposed]
REFUSED = {CopyOfTransposed: "may or may not share memory"}


def check(cls, ranks, folder):
    torch.manual_seed(2)
    module = cls().eval()
    files = []
    for size in SIZES:
        x = torch.randn(*size, WIDTH)
        files.append(folder / f"{size[0]}.safetensors")
        save_file({"x": x}, files[-1])
        if size == SIZES[0]:
            traced = torch.jit.trace(module, x, check_trace=False)
    traced.save(str(folder / "model.pt"))
    train = ["--train"] if cls.gradients else []
    zoo.run(zoo.BIN / "tp-compile", folder / "model.pt", "-q", "--tp", ranks,
            "-o", folder / "package", "--inputs", files[0], "--inputs",
            files[1], *train)
    how = ["--grads"] if cls.gradients else ["--check-replicas"]
    for path in files:
        zoo.run(zoo.BIN / "tp-run", folder / "package", "--inputs", path,
                "--verify", folder / "model.pt", "--verify-dtype", "f64", *how)


def main():
    warnings.filterwarnings("ignore")
    failed = 0
    for cls in MODELS:
        for ranks in (1, 2, 3, 4):
            try:
                with tempfile.TemporaryDirectory() as scratch:
                    check(cls, ranks, pathlib.Path(scratch))
                if cls in REFUSED:
                    raise RuntimeError("is not refused")
                print(f"ok    {cls.__name__}, {ranks} ranks", flush=True)
            except RuntimeError as error:
                if cls in REFUSED and REFUSED[cls] in str(error):
                    print(f"ok    {cls.__name__} is refused", flush=True)
                    continue
                failed += 1
                print(f"FAIL  {cls.__name__}, {ranks} ranks: {error}",
                      flush=True)
    print(f"{failed} fail")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
