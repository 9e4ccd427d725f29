"""Small tricky modules: split over ranks, they equal the unsharded model.

Each is exported here, compiled from two sizes and verified in f64 at both and
at two sizes never shown. Ranks and random user rules vary from model to model.
Give names of models to run only those.
"""

import json
import pathlib
import random
import sys
import tempfile
import warnings

import zoo

try:
    import torch
    from safetensors.torch import save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import own_models

SHOWN, OTHER = [(3, 7), (2, 5)], [(1, 1), (6, 11)]
RANKS = [2, 3, 5]
# Sizes that a guard has to refuse, with what the message says.
REFUSED = {("ScriptedLengthBranch", (1, 1)): "it assumes"}


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in flat(item)]


def inputs_file(folder, size):
    return folder / f"{size[0]}x{size[1]}.safetensors"


def export(name, folder):
    """Writes the model and its inputs at every size."""
    make_module, make_inputs, script = own_models.MODELS[name]
    torch.manual_seed(5)
    module = make_module().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.4)
    if script:
        exported = torch.jit.script(module)
    else:
        exported = torch.jit.trace(module, make_inputs(*SHOWN[0]),
                                   check_trace=False)
    exported.save(str(folder / "model.pt"))
    for size in SHOWN + OTHER:
        save_file({f"input_{i}": tensor.contiguous().clone()
                   for i, tensor in enumerate(flat(make_inputs(*size)))},
                  inputs_file(folder, size))


def random_rules(weights, rng):
    """Rules that are possible but that nobody would want."""
    lines = ["rules:"]
    for weight in weights:
        if not weight["shape"] or rng.random() < 0.3:
            continue
        dim = rng.randrange(len(weight["shape"]))
        size = weight["shape"][dim]
        chunks = [n for n in range(1, size + 1) if size % n == 0]
        state = rng.choice(["replicate", f"split {dim}",
                            f"split {dim} chunk={rng.choice(chunks)}"])
        lines += [f"  - name: {weight['name']}", f"    state: {state}"]
    return "\n".join(lines) + "\n" if len(lines) > 1 else ""


def check(name, ranks):
    """Raises if the model, split, is not the model."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        export(name, folder)
        package = folder / "package"
        command = [zoo.BIN / "tp-compile", folder / "model.pt", "-q",
                   "--json", "--tp", ranks, "-o", package]
        for size in SHOWN:
            command += ["--inputs", inputs_file(folder, size)]
        plan = json.loads(zoo.run(*command))
        verify(name, folder, package, SHOWN + OTHER)
        rules = random_rules(plan["weights"], random.Random(name))
        if rules:
            config = folder / "rules.yaml"
            config.write_text(rules)
            zoo.run(*command, "--config", config)
            verify(name, folder, package, SHOWN[:1], rules)


def verify(name, folder, package, sizes, rules=""):
    for size in sizes:
        refusal = REFUSED.get((name, size))
        try:
            zoo.run(zoo.BIN / "tp-run", package, "--check-replicas",
                    "--inputs", inputs_file(folder, size), "--verify",
                    folder / "model.pt", "--verify-dtype", "f64")
        except RuntimeError as error:
            if refusal is None or refusal not in str(error):
                raise RuntimeError(f"at {size}: {error}\n{rules}") from error
            continue
        if refusal is not None:
            raise RuntimeError(f"{size} is not refused")


def main():
    warnings.filterwarnings("ignore")
    names = sys.argv[1:] or list(own_models.MODELS)
    failed = 0
    for i, name in enumerate(names):
        ranks = RANKS[i % len(RANKS)]
        try:
            check(name, ranks)
            print(f"ok    {name}, {ranks} ranks", flush=True)
        except RuntimeError as error:
            failed += 1
            print(f"FAIL  {name}, {ranks} ranks: {error}", flush=True)
    print(f"{len(names) - failed} of {len(names)} models pass")
    sys.exit(1 if failed or not names else 0)


if __name__ == "__main__":
    main()
