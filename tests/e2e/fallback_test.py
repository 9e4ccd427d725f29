"""Ops without a row: custom ones from a library, and ATen's.

They run whole on every rank, equal to the unsharded model, with a warning;
under --strict they are errors. What cannot run so is refused.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import zoo

try:
    import torch
    from safetensors.torch import load_file, save_file
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LIBRARY = zoo.BIN.parent / "tests" / "custom_ops.so"
SIZES = [(3, 7), (2, 6), (4, 9)]  # the last is not an example


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(12, 35)
        self.down = nn.Linear(35, 12)


class Custom(Base):
    def forward(self, x):
        y = torch.ops.tptest.squash(self.up(x), 0.7)
        return self.down(y), torch.ops.tptest.squash(x)


class CustomLists(Base):
    def forward(self, x):
        parts = torch.ops.tptest.halves(self.up(x), 2)
        stacked, sums, _ = torch.ops.tptest.stats([x, self.down(self.up(x))])
        return self.down(parts[0]), parts[1] * 2, stacked, sums[1] + 1


class CustomInPlace(Base):
    def forward(self, x):
        y = self.up(x)
        z = y[:, 1:]
        torch.ops.tptest.add_one_(z)
        return self.down(y)


class CustomLoss(Base):
    def forward(self, x):
        y = self.down(torch.ops.tptest.squash(self.up(x), 0.7))
        return (torch.ops.tptest.squash(y) * x).mean()


class AtenWithoutRow(Base):
    def forward(self, x):
        y = torch.cov(self.up(x).flatten(0, 1))
        return torch.trapezoid(self.down(self.up(x)), dim=-1), y


class Noise(Base):
    def forward(self, x):
        return torch.ops.tptest.noise(self.up(x))


class OnlyInPlace(Base):
    def forward(self, x):
        return torch.ops.tptest.only_in_place_(self.up(x))


class Positive(Base):
    def forward(self, x):
        return torch.ops.tptest.positive(self.up(x)).sum()


class Test:
    def __init__(self, folder):
        self.folder, self.failed = folder, 0

    def expect(self, what, holds, text=""):
        print(f"{'ok   ' if holds else 'FAIL '} {what}", flush=True)
        if not holds:
            self.failed += 1
            print(text)

    def run(self, *command):
        done = subprocess.run([str(part) for part in command], check=False,
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def export(self, cls, script=False):
        torch.manual_seed(3)
        module = cls().eval()
        inputs = [torch.randn(*size, 12) for size in SIZES]
        exported = (torch.jit.script(module) if script else
                    torch.jit.trace(module, inputs[0], check_trace=False))
        exported.save(str(self.folder / "model.pt"))
        for size, x in zip(SIZES, inputs):
            save_file({"x": x}, self.folder / f"{size[0]}.safetensors")

    def compile(self, ranks, *flags):
        return self.run(
            zoo.BIN / "tp-compile", self.folder / "model.pt", "--tp", ranks,
            "-o", self.folder / "package", *flags,
            *[flag for size in SIZES[:2] for flag in
              ("--inputs", self.folder / f"{size[0]}.safetensors")])

    def tp_run(self, size, *flags):
        return self.run(zoo.BIN / "tp-run", self.folder / "package",
                        "--inputs", self.folder / f"{size[0]}.safetensors",
                        *flags)


CUSTOM = ["--load-library", LIBRARY, "--allow-op", "tptest::*"]


def works(test, cls, ops, flags=(), run_flags=(), script=False, grads=False):
    test.export(cls, script)
    for ranks in (1, 2, 3):
        more = ["--train"] if grads else []
        code, text = test.compile(ranks, *flags, *more)
        test.expect(f"{cls.__name__} compiles for {ranks}", code == 0, text)
        for op in ops:
            test.expect(f"  warns of {op} once, with its line",
                        text.count(f"warning: {op} has no row") == 1 and
                        "fallback_test.py:" in text and " MB of arg" in text,
                        text)
        for size in SIZES:
            more = ["--grads"] if grads else ["--check-replicas"]
            code, text = test.tp_run(
                size, *run_flags, "--verify", test.folder / "model.pt",
                "--verify-dtype", "f64", *more)
            test.expect(f"  equals the model at {size}", code == 0, text)


def check_package(test):
    """What the last package says of its library."""
    manifest = json.loads((test.folder / "package/manifest.json").read_text())
    test.expect("the manifest names operators and library",
                manifest.get("libraries") == ["custom_ops.so"] and
                manifest.get("operators") == ["tptest::squash"],
                str(manifest.get("operators")))
    code, text = test.tp_run(SIZES[0])
    test.expect("tp-run without the library says so", code == 4 and
                "tptest::squash" in text and "--load-library" in text and
                "custom_ops.so" in text, f"{code}: {text}")
    code, text = test.tp_run(SIZES[0], "--load-library", "/nowhere/a.so")
    test.expect("a library that is not there", code == 3 and
                "no such file" in text, f"{code}: {text}")
    code, text = test.tp_run(SIZES[0], "--load-library",
                             test.folder / "package/manifest.json")
    test.expect("a library that is none", code == 3 and
                "shared library" in text, f"{code}: {text}")


def refused(test, cls, needle, flags=CUSTOM, code_wanted=4):
    test.export(cls)
    code, text = test.compile(2, *flags)
    test.expect(f"{cls.__name__} is refused: {needle}",
                code == code_wanted and needle in text and
                (code_wanted != 4 or "fallback_test.py:" in text or
                 "--allow-op" in text), f"{code}: {text}")


def main():
    warnings.filterwarnings("ignore")
    torch.ops.load_library(str(LIBRARY))
    with tempfile.TemporaryDirectory() as scratch:
        test = Test(pathlib.Path(scratch))
        loaded = ["--load-library", LIBRARY]
        works(test, AtenWithoutRow, ["aten.cov", "aten.trapezoid.dx"])
        works(test, CustomLists, ["tptest.halves", "tptest.stats"], CUSTOM,
              loaded, True)
        works(test, CustomInPlace, ["tptest.add_one"], CUSTOM, loaded, True)
        works(test, CustomLoss, ["tptest.squash"], CUSTOM, loaded, grads=True)
        works(test, Custom, ["tptest.squash"], CUSTOM, loaded)
        check_package(test)
        refused(test, Custom, "--allow-op", loaded)
        refused(test, Custom, "tptest.squash", CUSTOM + ["--strict"])
        refused(test, AtenWithoutRow, "aten.cov", ["--strict"])
        refused(test, Noise, "random")
        refused(test, OnlyInPlace, "only_in_place_ is not supported")
        refused(test, Positive, "depend on data")
    print("failed" if test.failed else "all pass")
    sys.exit(1 if test.failed else 0)


if __name__ == "__main__":
    main()
