"""Meshes of several axes: outputs and gradients equal the unsharded model's.

In f64, at both sizes, of which some do not divide. Give names of models to
run only those.
"""

import pathlib
import sys
import tempfile

import zoo

MESHES = ["dp=2,tp=2", "tp=2,dp=3", "x=2,y=2", "a=2,b=2,dp=2"]
FORWARD = ["gpt2", "llama-odd", "bert", "t5"]
TRAIN = ["gpt2-loss", "flan-t5-loss", "convnet-loss"]


def compile_model(folder, name, mesh, package, *flags):
    zoo.run(zoo.BIN / "tp-compile", folder / f"{name}.pt", "--inputs",
            folder / f"{name}.inputs.safetensors", "--inputs",
            folder / f"{name}.alt.safetensors", "--mesh", mesh, "-q", "-o",
            package, *flags)


def check(folder, name, mesh, train):
    with tempfile.TemporaryDirectory() as scratch:
        package = pathlib.Path(scratch) / "package"
        flags = ["--train"] if train else []
        compile_model(folder, name, mesh, package, *flags)
        for kind in ("inputs", "alt"):
            zoo.run(zoo.BIN / "tp-run", package, "--inputs",
                    folder / f"{name}.{kind}.safetensors", "--verify",
                    folder / f"{name}.pt", "--verify-dtype", "f64",
                    *(["--grads"] if train else []))
        if name == "gpt2":
            # Every rank has its part of the weights: not all of them.
            whole = sum(path.stat().st_size
                        for path in package.glob("rank*.safetensors"))
            copies = 2 if mesh == "dp=2,tp=2" else None
            model = (folder / f"{name}.pt").stat().st_size
            if copies and whole > 1.15 * copies * model:
                raise RuntimeError(f"{whole} bytes of weights for {copies} "
                                   f"copies of a model of {model}")


def main():
    failed = count = 0
    for train, names in ((False, FORWARD), (True, TRAIN)):
        names = [n for n in names if len(sys.argv) < 2 or n in sys.argv[1:]]
        for label, folder, name in zoo.models(names):
            if label != "own":
                continue
            for mesh in MESHES[:2] if train else MESHES:
                count += 1
                try:
                    check(folder, name, mesh, train)
                    print(f"ok    {name}, {mesh}", flush=True)
                except RuntimeError as error:
                    failed += 1
                    print(f"FAIL  {name}, {mesh}: {error}", flush=True)
    print(f"{count - failed} of {count} cases pass")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
