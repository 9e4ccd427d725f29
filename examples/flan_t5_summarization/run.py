#!/usr/bin/env python3
"""Fine-tunes a small FLAN-T5 on made-up dialogues over several ranks.

    tools/build && examples/flan_t5_summarization/run.py [--ranks 2] [--steps 300]

Exports the model with its loss, compiles it with --train, trains in batches
of 4 with 2 micro-batches per step, Adafactor and a linear schedule with
warmup, saves a checkpoint and writes the trained weights by their original
names. The evaluation loss is printed before, during and after.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import dialogues

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The shape of FLAN-T5 (gated GELU, head not tied), made small.
CONFIG = {
    "model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 128,
    "num_layers": 2, "num_heads": 4, "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False, "pad_token_id": dialogues.PAD,
    "eos_token_id": dialogues.END, "dropout_rate": 0.0,
}


def run(*command):
    words = [str(word) for word in command]
    print("+ " + " ".join(words), flush=True)
    if subprocess.run(words, check=False).returncode != 0:
        sys.exit(f"{words[0]} failed")


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lr", default="1e-2",
                        help="1e-5 fine-tunes a trained model; this one "
                        "starts from random weights")
    parser.add_argument("--dtype", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--out", type=pathlib.Path,
                        default=ROOT / "build" / "flan_t5_summarization")
    parser.add_argument("--bin", type=pathlib.Path,
                        default=ROOT / "build" / "bin")
    return parser.parse_args()


def main():
    options = parse_arguments()
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    size = len(dialogues.vocabulary()) + 2
    config = out / "config.json"
    config.write_text(json.dumps({**CONFIG, "vocab_size": size}))
    dialogues.write(out / "train.jsonl", 2000, seed=1)
    dialogues.write(out / "eval.jsonl", 64, seed=2)
    run(sys.executable, ROOT / "tools" / "export" / "tp_export.py", "--hf",
        config, "--loss", "--named", "--name", "model", "--dtype",
        options.dtype, "--sizes", "4x24", "--alt", "3x16", "--out", out)
    run(options.bin / "tp-compile", out / "model.pt", "--train", "--tp",
        options.ranks, "-o", out / "package", "--inputs",
        out / "model.inputs.safetensors", "--inputs",
        out / "model.alt.safetensors")
    run(options.bin / "tp-run", "train", out / "package", "--data",
        out / "train.jsonl", "--eval-data", out / "eval.jsonl",
        "--eval-every", max(1, options.steps // 4), "--batch-size", 4,
        "--accumulate", 2, "--steps", options.steps, "--optimizer",
        "adafactor", "--lr", options.lr, "--schedule", "linear", "--warmup",
        options.steps // 4, "--log-every", max(1, options.steps // 20),
        "--metrics", out / "metrics.jsonl", "--save", out / "checkpoint",
        "--export", out / "trained.safetensors",
        *(["--master-weights"] if options.dtype == "bf16" else []))
    print(f"trained weights: {out / 'trained.safetensors'}")


if __name__ == "__main__":
    main()
