"""Training on meshes of several axes equals training on one device.

A model in f64 with dropout and running statistics, so that only what is wrong
differs: every optimizer with clipping, resumed from a checkpoint in the middle
(bit for bit), and from the checkpoint of another mesh.
"""

import pathlib
import sys
import tempfile
import warnings

import zoo

try:
    import torch
    from safetensors.torch import load_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import train_resume_test

MESHES = ["dp=2,tp=2", "tp=2,dp=2", "x=2,y=3"]
OPTIMIZERS = {
    "sgd": ["--momentum", 0.9, "--lr", 0.05],
    "adamw": ["--lr", 0.01, "--weight-decay", 0.1, "--no-decay", "bias"],
    "adafactor": ["--lr", 0.01],
}
STEPS, STOP = 6, 3
# The norm is above this in some steps and below it in others.
MAX_NORM = 1.2
TOLERANCE = 1e-9  # of the largest weight


def without_lost_bias(model):
    """In f64, and no bias before the batch statistics, which take it out again:
    its gradient is rounding alone."""
    model.norm = torch.nn.LayerNorm(24, bias=False)
    return model.to(torch.float64)


def package(folder, mesh, zero3="auto"):
    target = folder / f"package-{mesh}-{zero3}"
    if not target.exists():
        zoo.run(zoo.BIN / "tp-compile", folder / "model.pt", "--train",
                "--zero3", zero3, "--inputs", folder / "a.safetensors",
                "--inputs", folder / "b.safetensors", "--mesh", mesh, "-q",
                "-o", target)
    return target


def train(folder, mesh, optimizer, steps, *flags, zero3="auto"):
    """Whole weights after so many steps."""
    out = folder / "out.safetensors"
    zoo.run(zoo.BIN / "tp-run", "train", package(folder, mesh, zero3),
            "--data", folder / "data.jsonl", "--batch-size", 4, "--accumulate",
            2, "--optimizer", optimizer, *OPTIMIZERS[optimizer], "--steps",
            steps, "--max-grad-norm", MAX_NORM, "--export", out, *flags)
    return load_file(out)


def difference(got, want):
    """The largest one, relative to each tensor's largest number."""
    if got.keys() != want.keys():
        return float("inf")
    return max(float((got[name] - tensor).abs().max() /
                     tensor.abs().max().clamp_min(1e-30))
               for name, tensor in want.items())


def same(got, want):
    return all(torch.equal(got[name], want[name]) for name in want)


def expect(what, good):
    print(f"{'ok   ' if good else 'FAIL '} {what}", flush=True)
    return good


def main():
    warnings.filterwarnings("ignore")
    checks = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        train_resume_test.export(folder, without_lost_bias)
        for i, optimizer in enumerate(OPTIMIZERS):
            one = train(folder, "tp=1", optimizer, STEPS)
            no_clip = train(folder, "tp=1", optimizer, STEPS,
                            "--max-grad-norm", 0)
            checks.append(expect(f"{optimizer}: clipping matters",
                                 difference(no_clip, one) > 1e-4))
            for mesh in MESHES:
                zero3 = "off" if (i + MESHES.index(mesh)) % 2 else "on"
                what = f"{optimizer}, {mesh}, zero3 {zero3}"
                got = train(folder, mesh, optimizer, STEPS, zero3=zero3)
                error = difference(got, one)
                checks.append(expect(f"{what}: off one device by {error:.1e}",
                                     error <= TOLERANCE))
                save = folder / f"save-{optimizer}-{mesh}"
                train(folder, mesh, optimizer, STOP, "--save", save,
                      zero3=zero3)
                checks.append(expect(
                    f"{what}: goes on from a checkpoint bit for bit",
                    same(train(folder, mesh, optimizer, STEPS, "--resume",
                               save, zero3=zero3), got)))
                # On another mesh, by itself and by tp-ckpt.
                resharded = folder / f"resharded-{optimizer}-{mesh}"
                zoo.run(zoo.BIN / "tp-ckpt", "reshard", save, "--to",
                        package(folder, "tp=2"), "-o", resharded)
                for source in (save, resharded):
                    error = difference(train(folder, "tp=2", optimizer, STEPS,
                                             "--resume", source), one)
                    checks.append(expect(
                        f"{what}: then on tp=2 from {source.name}, off by "
                        f"{error:.1e}", error <= TOLERANCE))
    print(f"{sum(checks)} of {len(checks)} checks pass")
    sys.exit(0 if checks and all(checks) else 1)


if __name__ == "__main__":
    main()
