"""Random models, by seed."""

import random

import torch

from fuzz import operations
from fuzz.model import Case, Members, State, make_inputs, SHOWN, OTHER

ATTEMPTS = 6  # for a statement that fits


def generate(seed):
    """The case of a seed, or None where that seed gives nothing of use."""
    rng = random.Random(seed)
    torch.manual_seed(seed % 2**31)
    script, train = rng.random() < 0.4, rng.random() < 0.3
    state = State(rng, script, train)
    functions, weights = zip(*operations.WEIGHTS.items())
    for _ in range(rng.choice([3, 5, 8, 12, 18])):
        for _ in range(ATTEMPTS):
            if rng.choices(functions, weights)[0](state):
                break
    if not state.statements:
        return None
    return Case(state.inputs, state.statements, _outputs(rng, state),
                rng.choice(["tuple", "tuple", "list", "dict", "single"]),
                script, train, state.smooth)


def _outputs(rng, state):
    """The last variable and some others: inputs, views, written ones."""
    known = [var for var in state.vars
             if var.is_float or not state.train]
    outputs = [known[-1].name]
    made = {name for statement in state.statements
            for name in statement.defines}
    for var in rng.sample(known, min(len(known), rng.choice([0, 1, 1, 2, 3]))):
        if var.name not in outputs and (var.name in made or not state.train):
            outputs.append(var.name)
    return outputs


def run_eager(model, case, size):
    """Outputs of the model as a list of tensors."""
    inputs = make_inputs(case, size)
    with torch.no_grad():
        result = model(*inputs.values())
    if isinstance(result, dict):
        result = list(result.values())
    return [result] if isinstance(result, torch.Tensor) else list(result)


def is_useful(model, case):
    """Whether the model runs at every size, on numbers that mean something."""
    try:
        for size in SHOWN + [OTHER]:
            for output in run_eager(model, case, size):
                if output.numel() and not (output.float().abs().max() < 1e5):
                    return False
    except Exception:  # pylint: disable=broad-except
        return False
    if not case.train:
        return True
    try:
        inputs = make_inputs(case, SHOWN[0])
        loss = model(*inputs.values())
        loss.backward()
    except Exception:  # pylint: disable=broad-except
        return False
    return any(p.grad is not None and p.grad.abs().max() > 0
               for p in model.parameters())


__all__ = ["generate", "is_useful", "run_eager", "Members"]
