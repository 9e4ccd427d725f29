"""tp-run generate gives the tokens that transformers gives, in f64, for every
form of cache and number of ranks; caches are never gathered; what is drawn
does not depend on the number of ranks; wrong uses say what is wrong."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch

import zoo

SOURCE = pathlib.Path(
    os.environ.get("TP_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(SOURCE / "tools" / "export"))

import generate as export_generate  # noqa: E402
import tp_export  # noqa: E402

IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
# Heads, ranks and vocabularies do not divide; llama has fewer KV heads than
# the largest number of ranks.
LLAMA = dict(num_hidden_layers=2, hidden_size=96, num_attention_heads=8,
             num_key_value_heads=2, intermediate_size=157, vocab_size=263,
             max_position_embeddings=64, **IDS)
STATIC = "48"  # positions of caches of a fixed length
MODELS = {
    "llama": ("llama", LLAMA, ()),
    "llama-stacked": ("llama", LLAMA, ("--cache-form", "stacked")),
    "llama-static": ("llama", LLAMA,
                     ("--cache-form", "static", "--max-length", STATIC)),
    "gpt2": ("gpt2", dict(n_embd=88, n_layer=2, n_head=8, vocab_size=261,
                          n_positions=64, **IDS),
             ("--cache-form", "stacked")),
    "mixtral": ("mixtral", dict(hidden_size=96, num_hidden_layers=2,
                                num_attention_heads=8, num_key_value_heads=4,
                                intermediate_size=80, vocab_size=256,
                                num_local_experts=6, num_experts_per_tok=2,
                                max_position_embeddings=64, **IDS), ()),
    "t5": ("t5", dict(d_model=44, d_kv=14, d_ff=124, num_layers=2, num_heads=6,
                      vocab_size=256, feed_forward_proj="gated-gelu",
                      pad_token_id=0, eos_token_id=1), ()),
    "bart": ("bart", dict(d_model=48, encoder_layers=2, decoder_layers=2,
                          encoder_attention_heads=6, decoder_attention_heads=6,
                          encoder_ffn_dim=100, decoder_ffn_dim=100,
                          vocab_size=259, max_position_embeddings=64),
             ("--cache-form", "stacked")),
}
RANKS = (1, 2, 3)
PROMPTS = [[5, 7, 9, 11, 23], [8, 200], [17, 31, 4]]
NEW_TOKENS = 9
BEAMS = 3


def arguments_of(name, out):
    kind, overrides, more = MODELS[name]
    settings = [f"--set={key}={value}" for key, value in overrides.items()]
    return ["--hf", kind, *settings, "--generate", "--dtype", "fp64",
            "--name", name, "--out", str(out), *more]


class Reference:
    """The model that was exported, run by transformers."""

    def __init__(self, name, out):
        options = tp_export.parse_arguments(arguments_of(name, out))
        torch.manual_seed(options.seed)
        jobs, self.info = export_generate.build(
            options.hf, dict(options.set), options.attn,
            options.cache_form or "tuple", options.max_length, "batched_mm")
        tp_export.randomize(jobs[0][1].module, options.seed)
        self.model = jobs[0][1].module.to(torch.float64).eval().model

    def generate(self, prompts, beams=1, eos=None):
        encodes = self.model.config.is_encoder_decoder
        pad = self.info.get("pad", 0)
        longest = max(map(len, prompts))
        ids, mask = [], []
        for prompt in prompts:
            fill = longest - len(prompt)
            if encodes:
                ids.append(prompt + [pad] * fill)
                mask.append([1] * len(prompt) + [0] * fill)
            else:
                ids.append([pad] * fill + prompt)
                mask.append([0] * fill + [1] * len(prompt))
        more = {}
        start = self.info["decoder_start"]
        if encodes:
            more["decoder_start_token_id"] = start[0]
            more["decoder_input_ids"] = torch.tensor([start] * len(prompts))
            self.model.generation_config.forced_bos_token_id = None
        self.model.generation_config.forced_eos_token_id = None
        eos = self.info["eos"] if eos is None else eos
        with torch.no_grad():
            out = self.model.generate(
                torch.tensor(ids), attention_mask=torch.tensor(mask),
                max_new_tokens=NEW_TOKENS, do_sample=False, num_beams=beams,
                pad_token_id=pad, eos_token_id=eos or None, **more)
        before = len(start) if encodes else longest
        return [cut(row[before:].tolist(), eos) for row in out]


def cut(tokens, eos):
    """Up to the first token that ends a text."""
    for i, token in enumerate(tokens):
        if token in eos:
            return tokens[:i + 1]
    return tokens


def generate(package, prompts, *more):
    command = ["generate", package, "--max-new-tokens", NEW_TOKENS, "-q",
               "--json", *more]
    for prompt in prompts:
        command += ["--prompt-ids", ",".join(map(str, prompt))]
    lines = zoo.run(zoo.BIN / "tp-run", *command).splitlines()
    return [json.loads(line)["ids"] for line in lines]


def collectives_of(package, entry):
    """(name, operand) of every collective in an entry of the plan."""
    text = (package / "plan.tpir").read_text()
    body = text.split(f"func @{entry}(")[1].split("\n}")[0]
    return [line for line in body.splitlines() if "= tp." in line
            and "tp.slice" not in line and "tp.sym" not in line
            and "tp.embedding_shard" not in line]


def check_caches(name, ranks, package):
    """Caches are split by heads, and no collective brings one together."""
    problems = []
    plan = (package / "plan.tpir").read_text()
    fed = [line for line in plan.splitlines() if line.rstrip(",").endswith(
        " fed") or " fed," in line or " fed)" in line]
    if not fed:
        problems.append(f"{name}: no input is fed")
    for line in fed:
        dims = line.split(": ")[1].split("[")[1].split("]")[0].split(",")
        # With fewer heads than ranks, a whole cache is one way out.
        heads = int(dims[-3])
        if 1 < ranks <= heads and "<S(" not in line:
            problems.append(f"{name} on {ranks} ranks: a cache is whole: "
                            f"{line.strip()}")
    for line in collectives_of(package, "step"):
        dims = line.split(" : ")[1].split("[")[1].split("]")[0].split(",")
        # What has a dim for all positions is a cache or made of one.
        if len(dims) > 3 and any("step_s" in dim or dim == STATIC
                                 for dim in dims):
            problems.append(f"{name} on {ranks} ranks: {line.strip()}")
    return problems


def check_model(name, scratch):
    problems = []
    tp_export.main(arguments_of(name, scratch))
    reference = Reference(name, scratch)
    greedy = reference.generate(PROMPTS)
    # An end that the first text reaches after five tokens.
    ending = [greedy[0][4]]
    ended = reference.generate(PROMPTS, eos=ending)
    beams = reference.generate(PROMPTS, beams=BEAMS)
    drawn = set()
    for ranks in RANKS:
        package = scratch / f"{name}.tp{ranks}"
        zoo.run(zoo.BIN / "tp-compile", "--generate",
                scratch / f"{name}.generate.json", "--tp", ranks, "-o",
                package, "-q")
        problems += check_caches(name, ranks, package)
        where = f"{name} on {ranks} ranks"
        for what, got, want in (
                ("greedy", generate(package, PROMPTS), greedy),
                ("one prompt", generate(package, PROMPTS[1:2]),
                 reference.generate(PROMPTS[1:2])),
                ("with an end",
                 generate(package, PROMPTS, "--eos-token-id", ending[0]),
                 ended),
                ("beams", generate(package, PROMPTS, "--num-beams", BEAMS),
                 beams)):
            if got != want:
                problems.append(f"{where}, {what}: {got}, not {want}")
        sampled = generate(package, PROMPTS, "--temperature", 1.5, "--top-k",
                           50, "--top-p", 0.9, "--seed", 7)
        drawn.add(str(sampled))
        if sampled == greedy:
            problems.append(f"{where}: nothing is drawn")
        if sampled == generate(package, PROMPTS, "--temperature", 1.5,
                               "--seed", 8):
            problems.append(f"{where}: the seed does not matter")
    if len(drawn) != 1:
        problems.append(f"{name}: what is drawn depends on the ranks")
    return problems


def check_entries(scratch):
    """Each entry runs and verifies by itself, over weights stored once."""
    problems = []
    package = scratch / "llama.tp2"
    for entry in ("prefill", "step"):
        zoo.run(zoo.BIN / "tp-run", package, "--entry", entry, "--inputs",
                scratch / f"llama.{entry}.alt.safetensors", "--verify",
                scratch / f"llama.{entry}.pt", "-q")
    one = scratch / "llama.alone"
    zoo.run(zoo.BIN / "tp-compile", scratch / "llama.step.pt", "--inputs",
            scratch / "llama.step.inputs.safetensors", "--inputs",
            scratch / "llama.step.alt.safetensors", "--tp", 2, "-o", one, "-q",
            "--cache", "output_1=input_2")
    sizes = [(folder / "rank0.safetensors").stat().st_size
             for folder in (package, one)]
    if sizes[0] > 1.05 * sizes[1]:
        problems.append(f"weights of two entries take {sizes[0]} bytes, of "
                        f"one {sizes[1]}")
    return problems


def check_wrong(scratch):
    """(exit code, part of the message) of wrong uses."""
    package = scratch / "llama.tp2"
    step = scratch / "llama.step.pt"
    inputs = scratch / "llama.step.inputs.safetensors"
    two = [step, step, "--entry", "a,b", "-o", scratch / "wrong"]
    cases = [
        (2, "--prompt-ids", ["tp-run", "generate", package]),
        (2, "token ids", ["tp-run", "generate", package, "--prompt-ids", "1,x"]),
        (2, "temperature", ["tp-run", "generate", package, "--prompt-ids", 1,
                            "--temperature", -1]),
        (2, "--temperature", ["tp-run", "generate", package, "--prompt-ids", 1,
                              "--top-k", 5]),
        (2, "top-p", ["tp-run", "generate", package, "--prompt-ids", 1,
                      "--temperature", 1, "--top-p", 0]),
        (2, "give one of them", ["tp-run", "generate", package, "--prompt-ids",
                                 1, "--num-beams", 2, "--temperature", 1]),
        (3, "token id 263", ["tp-run", "generate", package, "--prompt-ids",
                             "1,263"]),
        (3, "do not fit", ["tp-run", "generate", package, "--prompt-ids", 1,
                           "--max-new-tokens", 100]),
        (3, "prefill and step", ["tp-run", "generate", scratch / "llama.alone",
                                 "--prompt-ids", 1]),
        (3, "no entry 'decode'", ["tp-run", package, "--entry", "decode",
                                  "--inputs", inputs]),
        (3, "choose one with --entry", ["tp-run", package, "--inputs", inputs]),
        (2, "--entry A,B", ["tp-compile", step, step, "-o", "x"]),
        (3, "begin with the entry", ["tp-compile", *two, "--inputs", inputs]),
        (3, "has no output_9", [
            "tp-compile", step, "--inputs", inputs, "-o", scratch / "wrong",
            "--cache", "output_9=input_2"]),
        (3, "no input 'past'", [
            "tp-compile", step, "--inputs", inputs, "-o", scratch / "wrong",
            "--cache", "output_1=past"]),
        (3, "two types", [
            "tp-compile", step, scratch / "llama-other.step.pt", "--entry",
            "a,b", "--inputs", f"a={inputs}", "--inputs",
            f"b={scratch / 'llama-other.step.inputs.safetensors'}", "-o",
            scratch / "wrong"]),
        (3, "two contents", [
            "tp-compile", step, scratch / "llama-seed.step.pt", "--entry",
            "a,b", "--inputs", f"a={inputs}", "--inputs", f"b={inputs}", "-o",
            scratch / "wrong"]),
    ]
    wide = arguments_of("llama", scratch) + ["--name", "llama-other",
                                             "--set", "vocab_size=99"]
    tp_export.main(wide)
    tp_export.main(arguments_of("llama", scratch)
                   + ["--name", "llama-seed", "--seed", "5"])
    problems = []
    for code, part, (tool, *arguments) in cases:
        done = subprocess.run(
            [str(zoo.BIN / tool), *map(str, arguments)], check=False,
            capture_output=True, text=True)
        if done.returncode != code or part not in done.stderr:
            problems.append(f"{tool} {' '.join(map(str, arguments))}: exit "
                            f"code {done.returncode}, not {code} with "
                            f"'{part}': {done.stderr.strip()}")
    return problems


def main():
    warnings.simplefilter("ignore")
    torch.backends.mha.set_fastpath_enabled(False)
    wanted = sys.argv[1:] or list(MODELS)
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        for name in wanted:
            try:
                found = check_model(name, scratch)
            except (RuntimeError, ValueError) as error:
                found = [f"{name}: {error}"]
            print(f"{name}: {len(found)} problems", flush=True)
            problems += found
        if "llama" in wanted:
            problems += check_entries(scratch) + check_wrong(scratch)
    for problem in problems:
        print("FAIL ", problem)
    print(f"{len(wanted)} models, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
