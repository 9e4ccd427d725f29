"""tp-ckpt on a real training: export, import, reshard; tp-compile --weights.

The model has a tied head, a frozen layer and a buffer.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import warnings

import zoo

try:
    import torch
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


class Model(torch.nn.Module):
    """Returns logits, or a loss when there are labels."""

    def __init__(self, with_loss):
        super().__init__()
        self.with_loss = with_loss
        self.embed = torch.nn.Embedding(50, 24)
        self.up = torch.nn.Linear(24, 40)
        self.frozen = torch.nn.Linear(40, 24)
        self.head = torch.nn.Linear(24, 50, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.full((24,), 0.5))
        for parameter in self.frozen.parameters():
            parameter.requires_grad_(False)

    def forward(self, input_ids, labels):
        x = self.embed(input_ids)
        logits = self.head(x * self.scale
                           + self.frozen(torch.relu(self.up(x))))
        if not self.with_loss:
            return logits + labels.unsqueeze(-1) * 0
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1),
                                                 labels.flatten())


def export(folder, name, with_loss, seed, dtype=torch.float32):
    torch.manual_seed(seed)
    model = Model(with_loss).to(dtype)
    # Casting parameters one by one unties them.
    model.head.weight = model.embed.weight
    example = torch.randint(0, 50, (3, 7)), torch.randint(0, 50, (3, 7))
    other = torch.randint(0, 50, (2, 5)), torch.randint(0, 50, (2, 5))
    traced = torch.jit.trace(model, example, check_trace=False)
    traced.save(str(folder / f"{name}.pt"))
    for file, (ids, labels) in (("a", example), ("b", other)):
        save_file({"input_ids": ids, "labels": labels},
                  folder / f"{file}.safetensors")
    return model


def compile_model(folder, name, ranks, *flags):
    target = folder / f"{name}{ranks}{'w' if '--weights' in flags else ''}"
    zoo.run(zoo.BIN / "tp-compile", folder / f"{name}.pt", "--inputs",
            folder / "a.safetensors", "--inputs", folder / "b.safetensors",
            "--tp", ranks, "-q", "-o", target, *flags)
    return target


def train(folder, package, steps, *flags):
    zoo.run(zoo.BIN / "tp-run", "train", package, "--data",
            folder / "data.jsonl", "--batch-size", 3, "--optimizer",
            "adafactor", "--lr", 0.01, "--schedule-steps", 5, "--steps", steps,
            *flags)


def ckpt(*command):
    zoo.run(zoo.BIN / "tp-ckpt", *command)


def same(got, want):
    return got.keys() == want.keys() and all(
        got[name].dtype == want[name].dtype
        and torch.equal(got[name], want[name]) for name in want)


def refused(what, *words):
    """Whether `what` fails with exit code 3 and a message with the words."""
    try:
        what()
    except RuntimeError as error:
        return all(word in str(error) for word in (*words, "exit code 3"))
    return False


def files(folder):
    """The bytes of a checkpoint's rank files."""
    return {path.name: path.read_bytes()
            for path in folder.glob("step-*/rank*.safetensors")}


def check(folder):
    """Yields what is checked and whether it holds."""
    first = export(folder, "loss", True, 0)
    with open(folder / "data.jsonl", "w", encoding="utf-8") as file:
        for i in range(20):
            ids = torch.randint(1, 50, (3 + i * 7 % 9,)).tolist()
            print(json.dumps({"input_ids": ids, "labels": ids[::-1]}),
                  file=file)
    two = compile_model(folder, "loss", 2, "--train")
    three = compile_model(folder, "loss", 3, "--train")
    train(folder, two, 3, "--save", folder / "two", "--export",
          folder / "trained.safetensors")
    trained = load_file(folder / "trained.safetensors")

    # A checkpoint on other ranks, and back.
    ckpt("reshard", folder / "two", "--to", three, "-o", folder / "three")
    ckpt("reshard", folder / "three", "--to", two, "-o", folder / "back")
    yield "2 to 3 ranks changes files", (
        files(folder / "two") != files(folder / "three"))
    yield "2 to 3 to 2 ranks, bit for bit", (
        files(folder / "two") == files(folder / "back"))
    ends = []
    for start in ("two", "back"):
        train(folder, two, 5, "--resume", folder / start, "--export",
              folder / "end.safetensors")
        ends.append(load_file(folder / "end.safetensors"))
    yield "the resharded one goes on as the first", same(*ends)

    # One ordinary file.
    whole = folder / "whole.safetensors"
    ckpt("export", folder / "three", "--package", two, "-o", whole)
    exported = load_file(whole)
    state = first.state_dict()
    yield "export has the names of state_dict", exported.keys() == state.keys()
    yield "trained weights are those of the run", all(
        torch.equal(exported[name], value) for name, value in trained.items())
    yield "a tied weight under each name", torch.equal(
        exported["embed.weight"], exported["head.weight"])
    yield "what is frozen is the original", all(
        torch.equal(exported[name], state[name])
        for name in ("frozen.weight", "frozen.bias", "scale"))
    yield "training moved what it trains", not torch.equal(
        exported["embed.weight"], state["embed.weight"])
    ckpt("import", whole, "--package", three, "-o", folder / "in")
    ckpt("export", folder / "in", "-o", folder / "again.safetensors")
    yield "import and export, bit for bit", same(
        load_file(folder / "again.safetensors"), exported)

    # Trained weights in a package of another model with the same names.
    second = export(folder, "logits", False, 1)
    shards = folder / "shards"
    shards.mkdir()
    names = sorted(exported)
    names.remove("head.weight")  # as HuggingFace saves tied weights
    index = {}
    for number, part in enumerate((names[:2], names[2:])):
        file = f"model-{number}.safetensors"
        save_file({name: exported[name].contiguous() for name in part},
                  shards / file)
        index.update({name: file for name in part})
    with open(shards / "model.safetensors.index.json", "w",
              encoding="utf-8") as file:
        json.dump({"metadata": {}, "weight_map": index}, file)
    for given in (whole, shards):
        package = compile_model(folder, "logits", 2, "--weights", given)
        zoo.run(zoo.BIN / "tp-run", package, "--inputs",
                folder / "a.safetensors", "--outputs",
                folder / "out.safetensors")
        second.load_state_dict(exported)
        inputs = load_file(folder / "a.safetensors")
        want = second(**inputs).detach()
        got = load_file(folder / "out.safetensors")["output_0"]
        yield f"--weights {given.name}", (
            (got - want).abs().max() <= 1e-5 * want.abs().max())
        # The same in a package that was made with other weights.
        plain = compile_model(folder, "logits", 3)
        zoo.run(zoo.BIN / "tp-run", plain, "--weights", given, "--inputs",
                folder / "a.safetensors", "--outputs",
                folder / "out.safetensors")
        got = load_file(folder / "out.safetensors")["output_0"]
        yield f"tp-run --weights {given.name}", (
            (got - want).abs().max() <= 1e-5 * want.abs().max())
    package = compile_model(folder, "loss", 2, "--train")
    train(folder, package, 2, "--weights", whole, "--lr", 0, "--export",
          folder / "still.safetensors")
    still = load_file(folder / "still.safetensors")
    yield "tp-run train --weights starts from them", still and all(
        torch.equal(still[name], exported[name]) for name in still)
    bad = {name: exported[name] for name in names if name != "up.bias"}
    bad["up.weight"] = bad["up.weight"][:, :3].contiguous()
    bad["stranger"] = torch.zeros(1)
    save_file(bad, folder / "bad.safetensors")
    yield "weights that do not fit are refused", refused(
        lambda: compile_model(folder, "logits", 2, "--weights",
                              folder / "bad.safetensors"),
        "1 missing: up.bias", "stranger", "up.weight is f32[40,3]")
    yield "tp-run refuses them too", refused(
        lambda: zoo.run(zoo.BIN / "tp-run", plain, "--weights",
                        folder / "bad.safetensors", "--inputs",
                        folder / "a.safetensors"),
        "1 missing: up.bias", "stranger", "up.weight is f32[40,3]")

    # f32 copies of 16-bit weights follow imported weights.
    export(folder, "half", True, 2, torch.bfloat16)
    half = compile_model(folder, "half", 2, "--train")
    torch.manual_seed(3)
    fresh = Model(True).to(torch.bfloat16).state_dict()
    del fresh["head.weight"]
    save_file(fresh, folder / "half.safetensors")
    ckpt("import", folder / "half.safetensors", "--package", half, "-o",
         folder / "half")
    train(folder, half, 1, "--resume", folder / "half", "--lr", 0,
          "--master-weights", "--export", folder / "end.safetensors")
    moved = load_file(folder / "end.safetensors")
    yield "a step at rate 0 leaves imported weights", moved and all(
        torch.equal(moved[name], fresh[name]) for name in moved)

    # Damage.
    torn = folder / "torn"
    shutil.copytree(folder / "two", torn)
    victim = next(torn.glob("step-*/rank0.safetensors"))
    os.truncate(victim, 100)
    yield "a torn checkpoint is refused by name", refused(
        lambda: ckpt("info", torn), str(victim))
    ckpt("info", folder / "two", "--tensors")


def main():
    warnings.filterwarnings("ignore")
    checks = []
    with tempfile.TemporaryDirectory() as name:
        for what, good in check(pathlib.Path(name)):
            print(f"{'ok   ' if good else 'FAIL '} {what}", flush=True)
            checks.append(bool(good))
    print(f"{sum(checks)} of {len(checks)} checks pass")
    sys.exit(0 if checks and all(checks) else 1)


if __name__ == "__main__":
    main()
