"""A training that stops and goes on equals one that never stopped, bit for bit.

Stopped by reaching its steps, by Ctrl-C and by being killed in a step; with
Adafactor and AdamW, dropout in the model, shuffled data. A checkpoint that
was edited is refused by the name of the file, and one of another number of
ranks goes on too.
"""

import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings

import zoo

try:
    import torch
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

STEPS = 8


class Model(torch.nn.Module):
    """Words, dropout, running statistics and a loss."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(50, 24)
        self.up = torch.nn.Linear(24, 40)
        self.norm = torch.nn.LayerNorm(24)
        self.down = torch.nn.Linear(40, 24)
        self.statistics = torch.nn.BatchNorm1d(24)

    def forward(self, input_ids, labels):
        x = self.embed(input_ids)
        h = torch.nn.functional.dropout(torch.relu(self.up(x)), 0.3, True)
        x = self.norm(x + self.down(h))
        x = self.statistics(x.mT).mT
        logits = x @ self.embed.weight.t()
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1),
                                                 labels.flatten())


def export(folder, change=lambda model: model):
    torch.manual_seed(0)
    warnings.filterwarnings("ignore")
    example = torch.randint(0, 50, (3, 7)), torch.randint(0, 50, (3, 7))
    other = torch.randint(0, 50, (2, 5)), torch.randint(0, 50, (2, 5))
    traced = torch.jit.trace(change(Model()).train(), example, check_trace=False)
    traced.save(str(folder / "model.pt"))
    for name, (ids, labels) in (("a", example), ("b", other)):
        save_file({"input_ids": ids, "labels": labels},
                  folder / f"{name}.safetensors")
    with open(folder / "data.jsonl", "w", encoding="utf-8") as file:
        for i in range(30):
            ids = torch.randint(1, 50, (3 + i * 7 % 9,)).tolist()
            print(json.dumps({"input_ids": ids, "labels": ids[::-1]}),
                  file=file)


def package(folder, ranks, zero3="off"):
    target = folder / f"package{ranks}{zero3}"
    if not target.exists():
        zoo.run(zoo.BIN / "tp-compile", folder / "model.pt", "--train",
                "--zero3", zero3, "--inputs", folder / "a.safetensors",
                "--inputs", folder / "b.safetensors", "--tp", ranks, "-q",
                "-o", target)
    return target


def command(folder, ranks, steps, optimizer, *flags, zero3="off"):
    return [str(part) for part in (
        zoo.BIN / "tp-run", "train", package(folder, ranks, zero3), "--data",
        folder / "data.jsonl", "--batch-size", 3, "--accumulate", 2,
        "--optimizer", optimizer, "--lr", 0.01, "--schedule", "cosine",
        "--warmup", 2, "--schedule-steps", STEPS, "--steps", steps, *flags)]


def weights(folder, ranks, optimizer, resume):
    """Whole weights after all steps, going on from `resume` if given."""
    out = folder / "out.safetensors"
    flags = ["--resume", resume] if resume else []
    zoo.run(*command(folder, ranks, STEPS, optimizer, "--export", out, *flags))
    return load_file(out)


def same(got, want):
    return got.keys() == want.keys() and all(
        torch.equal(got[name], want[name]) for name in want)


def expect(what, good):
    print(f"{'ok   ' if good else 'FAIL '} {what}", flush=True)
    return good


def stop_by(folder, action):
    """Starts a long training that saves every step, and ends it in one."""
    save = folder / "stopped"
    shutil.rmtree(save, ignore_errors=True)
    started = subprocess.Popen(
        command(folder, 2, 3, "adamw", "--save", save, "--save-every", 1),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in started.stdout:
        if "saved" in line:
            break
    started.send_signal(action)
    started.wait(10)
    return save, started.returncode


def main():
    checks = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        export(folder)
        for ranks, optimizer in ((1, "adamw"), (2, "adafactor"), (3, "adamw"),
                                 (2, "sgd")):
            want = weights(folder, ranks, optimizer, None)
            save = folder / f"save{ranks}{optimizer}"
            zoo.run(*command(folder, ranks, 3, optimizer, "--save", save))
            checks.append(expect(
                f"{optimizer}, {ranks} ranks: goes on as if never stopped",
                same(weights(folder, ranks, optimizer, save), want)))
            checks.append(expect("a longer training is another one", not same(
                weights(folder, ranks, optimizer, None),
                {k: v + 1 for k, v in want.items()})))
        want = weights(folder, 2, "adamw", None)
        for action in (signal.SIGINT, signal.SIGKILL):
            save, code = stop_by(folder, action)
            checks.append(expect(
                f"{action.name} (exit code {code}), then on: as if never "
                "stopped", same(weights(folder, 2, "adamw", save), want)))
        # Two ranks' checkpoint on three ranks, and back.
        save2, save3 = folder / "two", folder / "three"
        zoo.run(*command(folder, 2, 3, "adamw", "--save", save2))
        zoo.run(*command(folder, 3, 3, "adamw", "--save", save3, "--resume",
                         save2, zero3="on"))
        checks.append(expect(
            "2 to 3 ranks with ZeRO-3 and back: as if never stopped",
            same(weights(folder, 2, "adamw", save3), want)))
        victim = next(save2.glob("step-*/rank1.safetensors"))
        data = bytearray(victim.read_bytes())
        data[-1] ^= 1
        victim.write_bytes(data)
        try:
            weights(folder, 2, "adamw", save2)
            checks.append(expect("an edited file is refused", False))
        except RuntimeError as error:
            checks.append(expect("an edited file is refused by its name",
                                 "rank1.safetensors" in str(error)
                                 and "exit code 3" in str(error)))
    print(f"{sum(checks)} of {len(checks)} checks pass")
    sys.exit(0 if checks and all(checks) else 1)


if __name__ == "__main__":
    main()
