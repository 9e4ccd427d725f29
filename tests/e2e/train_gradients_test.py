"""Gradients of every loss model equal the unsharded model's.

At 2 and 3 ranks (tests/full has 1 and 4), with ZeRO-3 off and on, in f32 and
in f64, at both sizes; and equal the gradients that PyTorch wrote beside the model, where it did. Give
names of models to run only those.
"""

import pathlib
import re
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file

import zoo

NAMES = ["mlp-loss", "convnet-loss", "gpt2-loss", "llama-loss", "flan-t5-loss",
         "flan-t5-loss-eager", "bloom-loss-eager", "mixtral-batched_mm-loss"]
RANKS = [2, 3]
# Of each tensor's largest gradient. Coarse: files tell names and ties; tp-run
# --verify is exact.
FILE_TOLERANCE = 1e-4


def compare_with_file(grads, expected):
    """Raises if gradients differ from those that PyTorch wrote.

    They were written on another machine, whose kernels round otherwise.
    """
    got, want = load_file(grads), load_file(expected)
    if sorted(got) != sorted(want):
        raise RuntimeError(f"gradients of {sorted(set(got) ^ set(want))} are "
                           "on one side only")
    for name, tensor in want.items():
        scale = max(float(np.abs(tensor).max(initial=0)), 1e-30)
        error = float(np.abs(got[name] - tensor).max(initial=0)) / scale
        if not error <= FILE_TOLERANCE:
            raise RuntimeError(f"{name}: gradient off by {error:.1e}")


def check(folder, name, ranks, zero3):
    """Raises if a gradient is wrong; the largest errors in f32 and in f64."""
    errors = {"model": 0.0, "f64": 0.0}
    with tempfile.TemporaryDirectory() as scratch:
        package = pathlib.Path(scratch) / "package"
        zoo.compile_model(folder, name, ranks, package, "--train", "--zero3",
                          zero3)
        for kind in ("inputs", "alt"):
            inputs = folder / f"{name}.{kind}.safetensors"
            for dtype in ("model", "f64"):
                said = zoo.run(zoo.BIN / "tp-run", package, "--inputs", inputs,
                               "--verify", folder / f"{name}.pt",
                               "--verify-dtype", dtype, "--grads")
                error = float(re.search(r"max rel error ([\d.e+-]+)",
                                        said).group(1))
                errors[dtype] = max(errors[dtype], error)
        expected = folder / f"{name}.grads.safetensors"
        if expected.exists():
            grads = pathlib.Path(scratch) / "grads.safetensors"
            zoo.run(zoo.BIN / "tp-run", package, "--inputs",
                    folder / f"{name}.inputs.safetensors", "--grads", grads)
            compare_with_file(grads, expected)
    return errors


def main(all_ranks=RANKS):
    names = sys.argv[1:] or NAMES
    failed = count = 0
    for label, folder, name in zoo.models(names):
        for ranks in all_ranks:
            for zero3 in ("off", "on"):
                count += 1
                what = f"{label} {name}, {ranks} ranks, zero3 {zero3}"
                try:
                    errors = check(folder, name, ranks, zero3)
                    print(f"ok    {what}: {errors['model']:.1e} in f32, "
                          f"{errors['f64']:.1e} in f64", flush=True)
                except RuntimeError as error:
                    failed += 1
                    print(f"FAIL  {what}: {error}", flush=True)
    print(f"{count - failed} of {count} cases pass")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
