"""Presets and configs of the tensor_parallel library run and are right.

Every preset is recognised by the names of a model's weights, runs, and equals
the model, in f64 where PyTorch can. A searched plan is never predicted to be slower than the
preset, unless it holds less on the fullest rank.
"""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import zoo

# Exported here, small: none of these is in the zoo.
SMALL = {
    "bloom": ["--attn", "eager", "--set", "n_layer=2", "--set",
              "hidden_size=48", "--set", "n_head=4"],
    "codegen": ["--attn", "eager", "--set", "n_layer=2", "--set", "n_embd=64",
                "--set", "n_head=16", "--set", "rotary_dim=4"],
    "falcon": ["--set", "num_hidden_layers=2", "--set", "hidden_size=64",
               "--set", "num_attention_heads=4", "--set", "num_kv_heads=2",
               "--set", "new_decoder_architecture=True"],
    "mixtral": ["--set", "num_hidden_layers=2", "--set", "hidden_size=64",
                "--set", "intermediate_size=96", "--set",
                "num_attention_heads=4", "--set", "num_key_value_heads=2",
                "--set", "num_local_experts=4"],
}
ZOO = {"bert": "bert", "gpt2": "gpt2", "gpt_neox": "gpt_neox",
       "llama": "llama", "llama-odd": "llama", "mistral": "llama", "t5": "t5",
       "flan-t5": "t5"}

# gpt2 as the library's own config has it, and its other forms.
LIBRARY = {
    "state_rules": {
        r"attn\.c_attn\.weight$": "split 1", r"attn\.c_attn\.bias$": "split 0",
        r"mlp\.c_fc\.weight$": "split 1", r"mlp\.c_fc\.bias$": "split 0",
        r"c_proj\.weight$": "split 0", r"c_proj\.bias$": "scale",
        r"w[tp]e\.weight$": "split 1", "nothing_has_this_name": "split 0",
    },
    "input_rules": {"lm_head$": {"0": "split -1", "input": "gather"}},
    "output_rules": {r"\.c_proj$": {"0": "sum"}, "w[tp]e$": {"0": "gather -1"},
                     "lm_head$": {"0": "sum"}},
    "attr_rules": {"attn$": {"num_heads": "divide"}},
}
LIBRARY_WRONG = [
    ({"state_rules": {"wte": "scale_int"}}, "near names"),
    ({"state_rules": {"wte": {"split": 1}}}, "is no action"),
    ({"output_rules": {"wte": "sum"}}, "positions and actions"),
    ({"stat_rules": {}}, "\"state_rules\""),
    ([], "expected an object"),
]


def command(folder, name, ranks, *flags):
    line = [zoo.BIN / "tp-compile", folder / f"{name}.pt", "--tp", ranks]
    for kind in ("inputs", "alt"):
        path = folder / f"{name}.{kind}.safetensors"
        line += ["--inputs", path] if path.exists() else []
    return [str(part) for part in line + list(flags)]


def compile_model(folder, name, ranks, package, *flags):
    done = subprocess.run(
        command(folder, name, ranks, "--json", "-o", package, *flags),
        check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout), done.stderr


def verify(folder, name, package):
    # PyTorch has no _grouped_mm in f64.
    precise = [] if name == "mixtral" else ["--verify-dtype", "f64"]
    zoo.run(zoo.BIN / "tp-run", package, "--inputs",
            folder / f"{name}.inputs.safetensors", "--verify",
            folder / f"{name}.pt", *precise)


def check_preset(folder, name, preset, ranks, scratch):
    package = scratch / "package"
    searched, _ = compile_model(folder, name, ranks, package)
    plan, notes = compile_model(folder, name, ranks, package, "--preset",
                                "auto")
    if f"the preset is {preset}\n" not in notes:
        raise RuntimeError(f"not taken for a {preset}: {notes}")
    verify(folder, name, package)
    split = sum(weight["bytes"] for weight in plan["weights"]
                if max(weight["local_bytes"]) < weight["bytes"])
    total = sum(weight["bytes"] for weight in plan["weights"])
    if split < 0.7 * total:
        raise RuntimeError(f"{split} of {total} bytes are split")
    times = [p["predicted"]["step_us"] for p in (searched, plan)]
    held = [max(rank["weights"] for rank in p["memory"])
            for p in (searched, plan)]
    if times[0] > times[1] * (1 + 1e-9) and held[0] >= held[1]:
        raise RuntimeError(f"the search's plan takes {times[0]:.1f} us and "
                           f"{held[0]} bytes, the preset {times[1]:.1f} us "
                           f"and {held[1]} bytes")
    return f"{times[0]:.0f} us {held[0]} B, preset {times[1]:.0f} us {held[1]} B"


def check_library(folder, scratch):
    config = scratch / "library.json"
    config.write_text(json.dumps(LIBRARY))
    plan, notes = compile_model(folder, "gpt2", 2, scratch / "package",
                                "--from-tensor-parallel", config)
    verify(folder, "gpt2", scratch / "package")
    for words in ("scale is dropped", "\"input\" is left out",
                  "attr_rules are not needed"):
        if words not in notes:
            raise RuntimeError(f"no note that {words}: {notes}")
    placed = {weight["name"]: weight["placement"]
              for weight in plan["weights"]}
    for ending, wanted in (("h.0.mlp.c_fc.weight", "<S(1)>"),
                           ("h.1.mlp.c_proj.weight", "<S(0)>"),
                           ("h.1.mlp.c_proj.bias", "<R>"),
                           ("wpe.weight", "<S(1)>")):
        found = [p for name, p in placed.items() if name.endswith(ending)]
        if found != [wanted]:
            raise RuntimeError(f"{ending} is {found}, not {wanted}")
    for text, words in LIBRARY_WRONG:
        config.write_text(json.dumps(text))
        done = subprocess.run(
            command(folder, "gpt2", 2, "--plan-only", "--from-tensor-parallel",
                    config), check=False, capture_output=True, text=True)
        if done.returncode != 3 or words not in done.stderr:
            raise RuntimeError(f"{text}: exit code {done.returncode}, "
                               f"{done.stderr}")
    return f"and {len(LIBRARY_WRONG)} errors"


def check_unknown(folder):
    for flags, words in ((["--preset", "gpt3"], "near names: \"gpt2\""),
                         (["--preset", "auto"], "names of no preset")):
        done = subprocess.run(
            command(folder, "vit", 2, "--plan-only", *flags), check=False,
            capture_output=True, text=True)
        if done.returncode != 3 or words not in done.stderr:
            raise RuntimeError(f"{flags}: exit code {done.returncode}, "
                               f"{done.stderr}")
    return ""


def export_small(folder):
    """In one process, away from folders that are called like models."""
    source = pathlib.Path(__file__).resolve().parents[2]
    sys.path.insert(0, str(source / "tools" / "export"))
    # pylint: disable=import-outside-toplevel
    import tp_export
    from transformers.models.bloom import modeling_bloom
    # TorchScript holds no autograd function of Python.
    modeling_bloom.BloomGelu.forward = (
        lambda self, x: modeling_bloom.bloom_gelu_forward(x))
    here = os.getcwd()
    os.chdir(folder)
    try:
        for name, flags in SMALL.items():
            with contextlib.redirect_stdout(io.StringIO()):
                tp_export.main(["--hf", name, "--set", "vocab_size=128",
                                *flags, "--out", str(folder)])
    finally:
        os.chdir(here)


def main():
    own = next(folder for label, folder, _ in zoo.models(["gpt2"])
               if label == "own")
    failed = count = 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        export_small(scratch)
        cases = [("library config", check_library, (own, scratch)),
                 ("unknown presets", check_unknown, (own,))]
        cases += [(f"{name} at {ranks} ranks", check_preset,
                   (folder, name, preset, ranks, scratch))
                  for folder, names in ((own, ZOO),
                                        (scratch, dict(zip(SMALL, SMALL))))
                  for name, preset in names.items()
                  for ranks in ((2, 3) if name == preset else (4,))]
        for what, check, arguments in cases:
            count += 1
            try:
                print(f"ok    {what}: {check(*arguments)}", flush=True)
            except RuntimeError as error:
                failed += 1
                print(f"FAIL  {what}: {error}", flush=True)
    print(f"{count - failed} of {count} cases pass")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
