"""Accumulation over micro-batches of different lengths equals PyTorch's.

By batch, each counts the same; by label, a step is the mean over all labels
of its micro-batches, whatever their lengths, and one without labels counts
nothing. In f64 at 1 to 3 ranks; evaluation follows the same rule.
"""

import json
import pathlib
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

LR, ACCUMULATE = 0.5, 3
TOLERANCE = 1e-12


class Model(torch.nn.Module):
    """Predicts the label at the same position, or at the next one."""

    def __init__(self, shift):
        super().__init__()
        self.shift = shift
        self.embed = torch.nn.Embedding(80, 20)
        self.up = torch.nn.Linear(20, 32)
        self.head = torch.nn.Linear(32, 80)

    def forward(self, input_ids, labels):
        logits = self.head(torch.tanh(self.up(self.embed(input_ids))))
        if self.shift:
            logits, labels = logits[:, :-1], labels[:, 1:]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1),
                                                 labels.flatten())


def batches():
    generator = torch.Generator().manual_seed(2)
    made = []
    for i, (rows, length, ignored) in enumerate(
            [(2, 9, 4), (3, 4, 0), (1, 12, 10), (2, 5, 1), (4, 7, 3),
             (2, 6, 6)]):
        ids = torch.randint(0, 80, (rows, length), generator=generator)
        labels = torch.randint(0, 80, (rows, length), generator=generator)
        labels[:, length - ignored:] = -100
        made.append({"input_ids": ids, "labels": labels})
    return made


def counts_of(data, by, shift):
    """What the micro-batches of a step count."""
    if by == "batch":
        return [1.0] * len(data)
    return [float((batch["labels"][:, shift:] != -100).sum())
            for batch in data]


def reference(model, data, by, shift):
    """Losses and the weights after the steps, by PyTorch."""
    model = torch.jit.load(model)
    losses = []
    for at in range(0, len(data), ACCUMULATE):
        step = data[at:at + ACCUMULATE]
        counts = counts_of(step, by, shift)
        total = sum(share * model(**batch) / sum(counts)
                    for share, batch in zip(counts, step) if share)
        losses.append(float(total.detach()))
        gradients = torch.autograd.grad(total, list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients):
                parameter -= LR * gradient
    with torch.no_grad():
        counts = counts_of(data, by, shift)
        evaluated = sum(share * float(model(**batch)) / sum(counts)
                        for share, batch in zip(counts, data) if share)
    return losses, evaluated, dict(model.named_parameters())


def train(package, data, scratch, by, shift):
    metrics, out = scratch / "metrics.jsonl", scratch / "out.safetensors"
    zoo.run(zoo.BIN / "tp-run", "train", package, "--data", data,
            "--no-shuffle", "--optimizer", "sgd", "--lr", LR, "--accumulate",
            ACCUMULATE, "--max-grad-norm", 0, "--metrics", metrics,
            "--eval-data", data, "--export", out, "--accumulate-by", by,
            *(["--shift", shift] if by == "label" else []))
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return ([row["loss"] for row in rows if "loss" in row],
            [row["eval_loss"] for row in rows if "eval_loss" in row][0],
            load_file(out))


def mismatch(got, want):
    """Words for a difference, "" if there is none."""
    for what, ours, theirs in (("loss", got[0], want[0]),
                               ("evaluation", [got[1]], [want[1]])):
        if len(ours) != len(theirs):
            return f"{len(ours)} of {what}, not {len(theirs)}"
        for a, b in zip(ours, theirs):
            if not abs(a - b) <= 1e-8 * abs(b):  # as many digits are printed
                return f"{what} {a}, not {b}"
    for name, tensor in want[2].items():
        error = float((got[2][name] - tensor).abs().max() / tensor.abs().max())
        if not error <= TOLERANCE:
            return f"{name} is off by {error:.1e}"
    return ""


def main():
    warnings.filterwarnings("ignore")
    failed = count = 0
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        all_data = batches()
        # Without labels a mean is no number: only label counts leave it out.
        data = {"batch": all_data[:3], "label": all_data}
        for by, made in data.items():
            (scratch / by).mkdir()
            for i, batch in enumerate(made):
                save_file(batch, scratch / by / f"{i}.safetensors")
        for shift in (0, 1):
            torch.manual_seed(0)
            path = str(scratch / "model.pt")
            example = tuple(all_data[0].values())
            torch.jit.trace(Model(shift).double(), example).save(path)
            for ranks in (1, 2, 3):
                package = scratch / "package"
                zoo.run(zoo.BIN / "tp-compile", path, "--train", "-q", "--tp",
                        ranks, "--inputs", scratch / "label/0.safetensors",
                        "--inputs", scratch / "label/1.safetensors", "-o",
                        package)
                results = {by: train(package, scratch / by, scratch, by, shift)
                           for by in data}
                for by, other in (("batch", "label"), ("label", "batch")):
                    words = mismatch(results[by],
                                     reference(path, data[by], by, shift))
                    # Weighed the other way, it is another training.
                    wrong = mismatch(results[by], reference(
                        path, data[by][:3], other, shift))
                    good = words == "" and wrong != ""
                    count += 1
                    failed += not good
                    print(f"{'ok   ' if good else 'FAIL '} shift {shift}, "
                          f"{ranks} ranks, by {by}: {words or 'equal'}",
                          flush=True)
    print(f"{count - failed} of {count} cases pass")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
