#!/usr/bin/env python3
"""Times the tools on test models: compile, start to first output, forward.

Ratios are taken in one run, the contenders in turn; a value is the median of
the rounds, the smallest is in parentheses.
"""
import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parent.parent
TINY = ("mlp", "gpt2", "llama", "bert", "t5")
DEPTHS = (6, 12, 24)


def seconds(command):
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def show(values, unit="s", scale=1):
    return (f"{statistics.median(values) * scale:.2f} {unit} "
            f"({min(values) * scale:.2f})")


def compile_command(opts, archive, package):
    stem = archive.with_suffix("")
    return [opts.bin / "tp-compile", archive, "--inputs",
            f"{stem}.inputs.safetensors", "--tp", "2", "-q", "-o", package]


def forward_ratio(opts, archive, package):
    """tp-run --bench and the TorchScript model with 2 threads, in turn."""
    stem = archive.with_suffix("")
    inputs = load_file(f"{stem}.inputs.safetensors")
    arguments = [x for name, x in inputs.items()
                 if not name.startswith("output_")]
    model = torch.jit.load(str(archive)).eval()
    names = [a.name for a in model.forward.schema.arguments[1:]]
    if all(name in inputs for name in names):
        arguments = [inputs[name] for name in names]
    torch.set_num_threads(2)
    whole, split = [], []
    with torch.no_grad():
        for _ in range(3):
            model(*arguments)
        for _ in range(opts.rounds):
            start = time.perf_counter()
            model(*arguments)
            whole.append(time.perf_counter() - start)
            line = subprocess.run(
                [opts.bin / "tp-run", package, "--inputs",
                 f"{stem}.inputs.safetensors", "--threads", "1", "--bench",
                 "5"], check=True, capture_output=True, text=True).stdout
            split.append(float(line.split("median ")[1].split(" ms")[0]) / 1e3)
    return (f"{statistics.median(whole) / statistics.median(split):.2f}x "
            f"(TorchScript {show(whole, 'ms', 1e3)}, "
            f"tp-run {show(split, 'ms', 1e3)})")


def export_depth(opts, depth):
    archive = opts.work / "depth" / f"llama-{depth}.pt"
    if not archive.exists():
        subprocess.run(
            [sys.executable, ROOT / "tools/export/tp_export.py", "--hf",
             "llama", "--set", f"num_hidden_layers={depth}", "--set",
             "hidden_size=96", "--set", "intermediate_size=256", "--set",
             "num_attention_heads=8", "--set", "vocab_size=256", "--out",
             archive.parent, "--name", archive.stem],
            check=True, stdout=subprocess.DEVNULL)
    return archive


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--zoo", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    opts = parser.parse_args()
    packages = opts.work / "zoo-packages"
    packages.mkdir(parents=True, exist_ok=True)
    repeats = min(opts.rounds, 5)
    for name in TINY:
        archive, package = opts.zoo / f"{name}.pt", packages / name
        if not archive.exists():
            print(f"{name}: {archive} is not there, skipped")
            continue
        compiled = [seconds(compile_command(opts, archive, package))
                    for _ in range(repeats)]
        run = [opts.bin / "tp-run", package, "--inputs",
               archive.with_suffix(".inputs.safetensors"), "-q"]
        started = [seconds(run) for _ in range(repeats)]
        print(f"{name}: compile {show(compiled)}, start to first output "
              f"{show(started)}, forward "
              f"{forward_ratio(opts, archive, package)}", flush=True)
    times = {}
    for depth in DEPTHS:
        archive = export_depth(opts, depth)
        command = compile_command(opts, archive, packages / archive.stem)
        times[depth] = min(seconds(command) for _ in range(repeats))
    print("compile of llama by layers: " +
          ", ".join(f"{d}: {t:.2f} s" for d, t in times.items()))


if __name__ == "__main__":
    main()
