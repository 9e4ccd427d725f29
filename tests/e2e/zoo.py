"""Compiles models, runs the packages and compares with the references.

The models are those the project exports itself ($TP_ZOO) and, where a folder
of the same layout lies beside the checkout (../shared/zoo/models), those too:
NAME.pt, NAME.inputs/.outputs/.alt.safetensors; .alt holds other sizes.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

NAMES = [
    "mlp", "mlp-script", "gpt2", "gpt2-eager", "llama", "llama-eager",
    "llama-odd", "mistral", "qwen2", "gpt_neox", "bert", "bert-eager",
    "minilm", "t5", "flan-t5", "flan-t5-eager", "vit",
]
F32_TOLERANCE = 1e-4  # of the largest output
F64_TOLERANCE = 1e-9
BALANCE = 1.15  # largest rank over total / ranks

BIN = pathlib.Path(os.environ.get("TP_BIN", "build/bin"))


def folders():
    """Folders with models, each with a word for messages."""
    found = []
    if "TP_ZOO" in os.environ:
        found.append(("own", pathlib.Path(os.environ["TP_ZOO"])))
    source = pathlib.Path(
        os.environ.get("TP_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
    shared = source.parent / "shared" / "zoo" / "models"
    if shared.is_dir():
        found.append(("shared", shared))
    else:
        print(f"note: no {shared.name} beside the checkout, own models only")
    return found


def models(names=NAMES):
    """(label, folder, name) of every model there is; missing ones are said."""
    for label, folder in folders():
        for name in names:
            if (folder / f"{name}.pt").exists():
                yield label, folder, name
            else:
                print(f"note: {label} folder has no {name}")


def run(*command):
    """Runs a tool of the project; returns its standard output."""
    done = subprocess.run([str(part) for part in command], check=False,
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(str(part) for part in command)}\nexit code "
            f"{done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def compile_model(folder, name, ranks, package, *flags):
    """Compiles with both sizes as examples; returns the plan summary."""
    command = [BIN / "tp-compile", folder / f"{name}.pt"]
    for kind in ("inputs", "alt"):
        command += ["--inputs", folder / f"{name}.{kind}.safetensors"]
    return json.loads(run(*command, "--tp", ranks, "-o", package, "--json",
                          "-q", *flags))


def largest_error(outputs, expected):
    """Largest difference over the largest expected value, over all outputs."""
    names = sorted(key for key in expected if key.startswith("output_"))
    assert names, "the reference holds no outputs"
    worst = 0.0
    for name in names:
        got, want = outputs[name], expected[name]
        if got.shape != want.shape:
            raise RuntimeError(f"{name} is {got.shape}, not {want.shape}")
        if not np.isfinite(got.astype(np.float64)).all() and np.isfinite(
                want.astype(np.float64)).all():
            raise RuntimeError(f"{name} is not finite")
        scale = max(float(np.abs(want).max(initial=0)), 1e-30)
        worst = max(worst, float(np.abs(got - want).max(initial=0)) / scale)
    return worst


def check_outputs(folder, name, kind, package, scratch):
    """Runs the package on one inputs file; returns the error."""
    inputs = folder / f"{name}.{kind}.safetensors"
    outputs = pathlib.Path(scratch) / "outputs.safetensors"
    run(BIN / "tp-run", package, "--inputs", inputs, "--outputs", outputs,
        "--check-replicas")
    expected = inputs if kind == "alt" else folder / f"{name}.outputs.safetensors"
    return largest_error(load_file(outputs), load_file(expected))


def check_f64(folder, name, inputs, package):
    """Both sides in double precision; raises if over the tolerance."""
    run(BIN / "tp-run", package, "--inputs", inputs, "--verify",
        folder / f"{name}.pt", "--verify-dtype", "f64")


def smallest_inputs(folder, name, scratch):
    """A third size that no example had: 1 in every dim that varies."""
    first = load_file(folder / f"{name}.inputs.safetensors")
    other = load_file(folder / f"{name}.alt.safetensors")
    path = pathlib.Path(scratch) / "smallest.safetensors"
    save_file(
        {key: np.ascontiguousarray(value[tuple(
            slice(0, 1) if size != other[key].shape[dim] else slice(None)
            for dim, size in enumerate(value.shape))])
         for key, value in first.items()}, path)
    return path


def balance(plan):
    """Weights of the largest rank over an even part, and who is to blame."""
    total = sum(weight["bytes"] for weight in plan["weights"])
    ranks = len(plan["memory"])
    largest = max(rank["weights"] for rank in plan["memory"])
    named = [f"{weight['name']}: {weight['imbalance']}"
             for weight in plan["weights"] if "imbalance" in weight]
    return largest * ranks / total, named


def check_model(folder, name, ranks):
    """Everything about one model at one number of ranks; returns a row."""
    with tempfile.TemporaryDirectory() as scratch:
        package = pathlib.Path(scratch) / "package"
        plan = compile_model(folder, name, ranks, package)
        worst = 0.0
        for kind in ("inputs", "alt"):
            error = check_outputs(folder, name, kind, package, scratch)
            worst = max(worst, error)
            if error > F32_TOLERANCE:
                raise RuntimeError(
                    f"{kind}: error {error:.2e} is over {F32_TOLERANCE:.0e}")
            check_f64(folder, name, folder / f"{name}.{kind}.safetensors",
                      package)
        check_f64(folder, name, smallest_inputs(folder, name, scratch),
                  package)
        ratio, named = balance(plan)
        if ratio > BALANCE and not named:
            raise RuntimeError(
                f"the largest rank holds {ratio:.2f} of an even part, and the "
                "plan names no reason")
        return worst, ratio, len(plan["collectives"]), named


def main(ranks, names=NAMES):
    """Checks every model at one number of ranks; prints a table."""
    failed = 0
    count = 0
    for label, folder, name in models(names):
        count += 1
        try:
            worst, ratio, collectives, named = check_model(folder, name, ranks)
        except (RuntimeError, AssertionError, OSError) as error:
            failed += 1
            print(f"FAIL  {label:6} {name:14} {error}")
            continue
        print(f"ok    {label:6} {name:14} ranks {ranks}  error {worst:.1e}  "
              f"largest rank {ratio:.2f}  collectives {collectives}"
              + (f"  [{'; '.join(named[:2])}]" if ratio > BALANCE else ""))
    print(f"{count - failed} of {count} models pass at {ranks} ranks")
    if count == 0:
        print("no models found: set TP_ZOO")
    sys.exit(1 if failed or count == 0 else 0)
