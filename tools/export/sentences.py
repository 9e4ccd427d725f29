#!/usr/bin/env python3
"""Sentences in, similarity table out, around the packaged sentence encoder.

    sentences.py encode FILE.txt OUT.safetensors     token ids and masks, a row per line
    sentences.py table FILE.txt OUTPUTS.safetensors  cosine similarity of the rows
"""
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parent))

from huggingface import minilm_folder  # noqa: E402


def read_lines(path):
    lines = [line.strip() for line in Path(path).read_text().splitlines()]
    return [line for line in lines if line]


def encode(text_file, out):
    tokenizer = Tokenizer.from_file(str(minilm_folder() / "tokenizer.json"))
    # The file pads every text to one fixed length; the longest line is enough.
    tokenizer.enable_padding()
    rows = tokenizer.encode_batch(read_lines(text_file))
    save_file({"input_0": torch.tensor([row.ids for row in rows]),
               "input_1": torch.tensor([row.attention_mask for row in rows])},
              out)


def table(text_file, outputs):
    lines = read_lines(text_file)
    vectors = load_file(outputs)["output_0"].float()
    if len(lines) != len(vectors):
        raise ValueError(f"{outputs} has {len(vectors)} rows for "
                         f"{len(lines)} sentences")
    vectors = torch.nn.functional.normalize(vectors, dim=1)
    width = max(map(len, lines)) + 3
    print(" " * width + "".join(f"{i + 1:>7}" for i in range(len(lines))))
    for i, (line, row) in enumerate(zip(lines, vectors @ vectors.T)):
        label = f"{i + 1}  {line}"
        print(f"{label:{width}}" + "".join(f"{value:7.3f}" for value in row))


def main():
    commands = {"encode": encode, "table": table}
    if len(sys.argv) != 4 or sys.argv[1] not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        commands[sys.argv[1]](*sys.argv[2:])
    except (OSError, ValueError, KeyError) as error:
        print(f"sentences: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
