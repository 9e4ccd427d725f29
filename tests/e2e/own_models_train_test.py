"""Gradients of small tricky modules equal the unsharded model's.

Each module of own_models gets a loss around it, a fixed weighting of all its
outputs, and is compiled with --train: as planned, with ZeRO-3, and under
random rules nobody would want. Compared in f64 at two sizes. Give names of
models to run only those.
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
from own_models_test import flat, inputs_file, random_rules

SIZES = [(3, 7), (2, 5)]
RANKS = [2, 3, 4]


class Loss(torch.nn.Module):
    """A number that depends on every element of every output."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *arguments):
        loss = torch.zeros(())
        for output in flat(self.model(*arguments)):
            if output.is_floating_point():
                places = torch.arange(output.numel()).reshape(output.shape)
                loss = loss + (output * torch.cos(places * 0.7)).sum()
        return loss


def export(name, folder):
    """Writes the loss and its inputs; says why if it has no gradient."""
    make_module, make_inputs, _ = own_models.MODELS[name]
    torch.manual_seed(5)
    model = Loss(make_module().eval())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.4)
    loss = model(*make_inputs(*SIZES[0]))
    if not loss.requires_grad:
        return "no gradient"
    try:
        loss.backward()
    except RuntimeError:  # it writes over what its own backward pass needs
        return "PyTorch cannot differentiate it"
    exported = torch.jit.trace(model, make_inputs(*SIZES[0]),
                               check_trace=False)
    exported.save(str(folder / "model.pt"))
    for size in SIZES:
        save_file({f"input_{i}": tensor.contiguous().clone()
                   for i, tensor in enumerate(flat(make_inputs(*size)))},
                  inputs_file(folder, size))
    return ""


def check(name, ranks):
    """Raises if a gradient is wrong; a word if there is none to check."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        if reason := export(name, folder):
            return f"skipped ({reason})"
        package = folder / "package"
        command = [zoo.BIN / "tp-compile", folder / "model.pt", "-q", "--json",
                   "--train", "--tp", ranks, "-o", package]
        for size in SIZES:
            command += ["--inputs", inputs_file(folder, size)]
        plan = json.loads(zoo.run(*command, "--zero3", "off"))
        verify(folder, package, "as planned")
        zoo.run(*command, "--zero3", "on")
        verify(folder, package, "with ZeRO-3")
        for seed in range(3):
            rules = random_rules(plan["weights"],
                                 random.Random(f"{name} {seed}"))
            if not rules:
                continue
            if seed % 2:
                rules = rules.replace("state: replicate", "state: zero3")
            config = folder / "rules.yaml"
            config.write_text(rules)
            zoo.run(*command, "--zero3", "off", "--config", config)
            verify(folder, package, rules)
        return "ok"


def verify(folder, package, what):
    for size in SIZES:
        try:
            zoo.run(zoo.BIN / "tp-run", package, "--inputs",
                    inputs_file(folder, size), "--verify",
                    folder / "model.pt", "--verify-dtype", "f64", "--grads")
        except RuntimeError as error:
            raise RuntimeError(f"at {size}, {what}: {error}") from error


def main():
    warnings.filterwarnings("ignore")
    names = sys.argv[1:] or list(own_models.MODELS)
    failed = checked = 0
    for i, name in enumerate(names):
        ranks = RANKS[i % len(RANKS)]
        try:
            word = check(name, ranks)
            checked += word == "ok"
            print(f"{word:5} {name}, {ranks} ranks", flush=True)
        except RuntimeError as error:
            failed += 1
            print(f"FAIL  {name}, {ranks} ranks: {error}", flush=True)
    print(f"{checked} of {checked + failed} models with gradients pass")
    sys.exit(1 if failed or not checked else 0)


if __name__ == "__main__":
    main()
