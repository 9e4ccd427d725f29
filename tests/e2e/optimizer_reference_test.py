"""The optimizers on one device are those of PyTorch and transformers.

The same parameters and gradients go through tests/e2e/optimizer_steps.cc and
through the Python classes, step by step; so do schedules and clipping. Then
options that differ must show.
"""

import itertools
import pathlib
import subprocess
import sys
import tempfile
import warnings

import zoo

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    from transformers.optimization import Adafactor
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

STEPS, LR = 12, 0.02
# "large" is more than one piece of those an update goes through.
SIZES = {"large": (401, 403), "norm": (7,), "scalar": (), "bias": (5,),
         "weight": (12, 9), "experts": (3, 4, 5), "conv": (6, 4, 3, 2),
         "column": (6, 1)}
# Of the largest number of a parameter. bf16 ones are rounded in every step, so
# numbers that are nearly equal before may end up two spacings apart.
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-13, torch.bfloat16: 2**-6}
TOOL = zoo.BIN.parent / "tests" / "optimizer_steps"


def tensors(dtype):
    generator = torch.Generator().manual_seed(11)

    def draw(sizes):
        return torch.randn(sizes, generator=generator,
                           dtype=torch.float64).to(dtype)

    parameters = {name: draw(sizes) for name, sizes in SIZES.items()}
    # Elements of very different sizes.
    gradients = [{name: draw(sizes) * draw(sizes).abs().exp()
                  for name, sizes in SIZES.items()} for _ in range(STEPS)]
    return parameters, gradients


def tool(*arguments):
    done = subprocess.run([str(TOOL), *map(str, arguments)],
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stderr}")
    return done.stdout


def ours(scratch, dtype, name, flags):
    parameters, gradients = tensors(dtype)
    file = {f"p.{key}": value for key, value in parameters.items()}
    for step, one in enumerate(gradients):
        file.update({f"g.{step + 1}.{key}": value
                     for key, value in one.items()})
    save_file(file, scratch / "in.safetensors")
    tool("train", scratch / "in.safetensors", scratch / "out.safetensors", LR,
         name, *(f"{key}={value}" for key, value in flags.items()))
    return load_file(scratch / "out.safetensors")


def theirs(dtype, make):
    """`make` gets groups with and without weight decay."""
    parameters, gradients = tensors(dtype)
    parameters = {key: torch.nn.Parameter(value)
                  for key, value in parameters.items()}
    plain = {"norm", "bias"}
    optimizer = make([value for key, value in parameters.items()
                      if key not in plain],
                     [parameters[key] for key in sorted(plain)])
    for one in gradients:
        for key, value in one.items():
            parameters[key].grad = value
        optimizer.step()
    return {key: value.detach() for key, value in parameters.items()}


def groups(decayed, plain, decay):
    return [{"params": decayed, "weight_decay": decay},
            {"params": plain, "weight_decay": 0.0}]


def sgd(**options):
    decay = options.pop("weight_decay", 0.0)
    return lambda a, b: torch.optim.SGD(groups(a, b, decay), lr=LR, **options)


def adamw(**options):
    decay = options.pop("weight_decay", 0.01)
    return lambda a, b: torch.optim.AdamW(groups(a, b, decay), lr=LR,
                                          **options)


def adafactor(**options):
    decay = options.pop("weight_decay", 0.0)
    return lambda a, b: Adafactor(
        groups(a, b, decay), lr=LR, scale_parameter=False,
        relative_step=False, warmup_init=False, **options)


# name, flags of ours, theirs, whether equal
CASES = [
    ("sgd", {}, sgd(), True),
    ("sgd", {"momentum": 0.9}, sgd(momentum=0.9), True),
    ("sgd", {"momentum": 0.9, "nesterov": 1, "weight_decay": 0.1},
     sgd(momentum=0.9, nesterov=True, weight_decay=0.1), True),
    ("adamw", {}, adamw(), True),
    ("adamw", {"beta1": 0.8, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.3},
     adamw(betas=(0.8, 0.95), eps=1e-6, weight_decay=0.3), True),
    ("adafactor", {}, adafactor(), True),
    ("adafactor", {"weight_decay": 0.2, "clip_threshold": 0.5,
                   "decay_rate": -0.6},
     adafactor(weight_decay=0.2, clip_threshold=0.5, decay_rate=-0.6), True),
    ("sgd", {"momentum": 0.9}, sgd(momentum=0.9, nesterov=True), False),
    ("adamw", {}, adamw(weight_decay=0.0), False),
    ("adafactor", {}, adafactor(clip_threshold=0.5), False),
    ("adafactor", {"weight_decay": 0.2}, adafactor(), False),
]


def difference(got, want):
    """The largest one, of the largest number of its tensor."""
    assert set(got) == set(want)
    return max(float((got[key].double() - want[key].double()).abs().max()
                     / want[key].double().abs().max()) for key in want)


def optimizer_cases(scratch):
    for (name, flags, make, equal), dtype in itertools.product(
            CASES, TOLERANCE):
        tolerance = TOLERANCE[dtype]
        if dtype == torch.bfloat16 and (name != "adafactor" or not equal):
            continue  # torch's other optimizers round their states to bf16
        error = difference(
            ours(scratch, dtype, name, {"no_decay": "norm|bias", **flags}),
            theirs(dtype, make))
        yield (f"{name} {flags} {dtype}, {'equal' if equal else 'different'}",
               error <= tolerance if equal else error > 100 * tolerance,
               f"{error:.1e}")


def schedule_cases():
    makers = {
        "linear": transformers.get_linear_schedule_with_warmup,
        "cosine": transformers.get_cosine_schedule_with_warmup,
        "constant": lambda optimizer, warmup, _:
            transformers.get_constant_schedule_with_warmup(optimizer, warmup),
    }
    for name, (warmup, total) in itertools.product(
            makers, ((0, 20), (5, 20), (20, 20), (250, 1000))):
        optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        schedule = makers[name](optimizer, warmup, total)
        want = []
        for _ in range(total + 3):
            want.append(schedule.get_last_lr()[0])
            optimizer.step()
            schedule.step()
        got = [float(line) for line in
               tool("schedule", name, warmup, total, total + 3).split()]
        error = max(abs(a - b) for a, b in zip(got, want))
        yield (f"schedule {name}, warmup {warmup} of {total}",
               len(got) == len(want) and error <= 1e-12, f"{error:.1e}")


def clip_cases(scratch):
    for bound in (0.5, 1e4):
        parameters, gradients = tensors(torch.float32)
        save_file({**{f"p.{key}": value for key, value in parameters.items()},
                   **{f"g.1.{key}": value
                      for key, value in gradients[0].items()}},
                  scratch / "in.safetensors")
        norm = float(tool("clip", scratch / "in.safetensors",
                          scratch / "out.safetensors", bound))
        # PyTorch adds up in the dtype of the gradients, tp-run in f64.
        parameters = {key: value.double() for key, value in parameters.items()}
        for key, value in parameters.items():
            value.grad = gradients[0][key].double()
        want = float(torch.nn.utils.clip_grad_norm_(parameters.values(),
                                                    bound))
        error = max(abs(norm - want) / want, difference(
            load_file(scratch / "out.safetensors"),
            {key: value.grad for key, value in parameters.items()}))
        yield f"clip to {bound} of {want:.1f}", error <= 1e-7, f"{error:.1e}"


def main():
    warnings.filterwarnings("ignore")
    failed = count = 0
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        for what, good, words in itertools.chain(
                optimizer_cases(scratch), schedule_cases(),
                clip_cases(scratch)):
            count += 1
            failed += not good
            print(f"{'ok   ' if good else 'FAIL '} {what}: {words}",
                  flush=True)
    print(f"{count - failed} of {count} cases pass")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
