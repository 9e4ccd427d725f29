"""Rules on inputs, outputs and values; plans that come back; what is refused.

A plan that tp-compile wrote gives the same package, byte for byte. No rule
changes a result, and a wrong one is an error that helps.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import zoo

ROUND_TRIPS = [
    ("gpt2", ["--tp", "3"]), ("llama-odd", ["--tp", "3"]),
    ("bert", ["--tp", "2"]), ("t5", ["--tp", "4"]),
    ("gpt2", ["--mesh", "dp=2,tp=2"]), ("flan-t5", ["--mesh", "x=2,y=2"]),
    ("gpt2-loss", ["--tp", "2", "--train"]),
    ("flan-t5-loss", ["--tp", "3", "--train", "--zero3", "off"]),
]

# Of gpt2, which says "transformer." before its names in some exports.
RULES = r"""rules:
  - glob: '**h.*.mlp'
    of: output
    state: replicate
  - search: 'h\.1\.attn\.c_proj$'
    of: input
    position: 0
    state: split -1 chunk=4
  - search: 'h\.0\.mlp\.act:tanh$'
    of: value
    state: split 1
"""
BY_AXIS = r"""rules:
  - search: 'c_fc\.weight'
    state: {dp: split 0, tp: split 1}
  - glob: '**h.*.mlp'
    of: output
    state: {dp: split 0, tp: replicate}
"""

# Dims that the search splits on the other axis, and on both.
TAKEN = r"""rules:
  - search: 'decoder\.block\.0\.layer\.2\.DenseReluDense\.wo\.weight'
    state: split 1
"""
TAKEN_BY_VALUES = r"""rules:
  - search: 'encoder\.layer\.1\.attention\.output$'
    of: output
    state: split 0
  - search: 'layer\.1\.attention\.output\.LayerNorm:layer_norm'
    of: value
    state: split 1
"""

# Text of a config, and what the error must say.
WRONG = [
    ("rules:\n  - name: h.0.atn.c_attn.weight\n    state: replicate\n",
     ["names no weight", "h.0.attn.c_attn.weight"]),
    ("rules:\n  - name: h.0.mpl\n    of: output\n    state: replicate\n",
     ["names no module", "h.0.mlp"]),
    ("rules:\n  - name: h.0.mlp:gelo\n    of: value\n    state: replicate\n",
     ["names no value", "near names"]),
    ("rules:\n  - search: mlp$\n    of: output\n    position: 7\n"
     "    state: replicate\n", ["1 outputs", "no 7"]),
    ("rules:\n  - search: mlp$\n    of: output\n    state: replicate\n"
     "  - search: mlp.dropout$\n    of: output\n    optional: true\n"
     "    state: split 1\n"
     "  - search: mlp.c_proj$\n    of: output\n    state: split 1\n",
     ["same value"]),
    ("rules:\n  - search: c_fc\n    state: replicate\n"
     "  - search: c_fc.weight\n    state: split 1\n", ["never used"]),
    ("rules:\n  - search: c_fc.weight\n    state: {pp: split 0}\n",
     ["no axis \"pp\"", "\"tp\""]),
    ("rules:\n  - search: c_fc.weight\n    state: split 5\n", ["no dim 5"]),
    ("rules:\n  - search: c_fc.weight\n    state: split 0 chunk=1000\n",
     ["no multiple"]),
    ("rules:\n  - search: h.0.ln_1:layer_norm$\n    of: value\n"
     "    state: split -1 chunk=88\n", ["nothing to split"]),
    ("rules:\n  - search: 'c_fc('\n    state: replicate\n",
     ["not a regular expression"]),
]


def command(folder, name, *flags):
    line = [zoo.BIN / "tp-compile", folder / f"{name}.pt", "-q"]
    for kind in ("inputs", "alt"):
        line += ["--inputs", folder / f"{name}.{kind}.safetensors"]
    return line + list(flags)


def round_trip(folder, name, flags, scratch):
    first, again = scratch / "first", scratch / "again"
    zoo.run(*command(folder, name, *flags, "-o", first))
    zoo.run(*command(folder, name, *flags, "-o", again, "--config",
                     first / "plan.yaml"))
    files = sorted(path.name for path in first.iterdir())
    if files != sorted(path.name for path in again.iterdir()):
        raise RuntimeError("the packages hold other files")
    for file in files:
        if (first / file).read_bytes() != (again / file).read_bytes():
            raise RuntimeError(f"{file} differs when plan.yaml is fed back")


def obeyed(folder, name, rules, flags, scratch):
    """The rules' package: right, fed back the same, and other than without."""
    config = scratch / "rules.yaml"
    config.write_text(rules)
    free, package = scratch / "free", scratch / "package"
    zoo.run(*command(folder, name, *flags, "-o", free))
    zoo.run(*command(folder, name, *flags, "-o", package, "--config", config))
    if (free / "plan.tpir").read_bytes() == (package / "plan.tpir").read_bytes():
        raise RuntimeError("the rules change nothing")
    for kind in ("inputs", "alt"):
        zoo.run(zoo.BIN / "tp-run", package, "--inputs",
                folder / f"{name}.{kind}.safetensors", "--verify",
                folder / f"{name}.pt", "--verify-dtype", "f64",
                *(["--grads"] if "--train" in flags else []))
    round_trip(folder, name, [*flags, "--config", config], scratch)
    again = scratch / "fed"
    zoo.run(*command(folder, name, *flags, "-o", again, "--config",
                     package / "plan.yaml"))
    for file in package.iterdir():
        if file.read_bytes() != (again / file.name).read_bytes():
            raise RuntimeError(f"{file.name} differs when the plan of a "
                               "config is fed back")


def refused(line, code, *words):
    done = subprocess.run([str(part) for part in line], check=False,
                          capture_output=True, text=True)
    missing = [word for word in words if word not in done.stderr]
    if done.returncode != code or missing:
        raise RuntimeError(f"exit code {done.returncode}, no {missing} in: "
                           f"{done.stderr}")


def wrong(folder, text, words, scratch):
    config = scratch / "wrong.yaml"
    config.write_text(text)
    refused(command(folder, "gpt2", "--tp", "2", "--plan-only", "--config",
                    config), 3, "wrong.yaml", *words)


def tied(folder, scratch):
    """A rule on either name is for the one weight; two answers are none."""
    config, package = scratch / "tied.yaml", scratch / "package"
    for name in ("embed_tokens", "lm_head"):
        for dim in (0, 1):
            config.write_text(f"rules:\n  - search: '{name}'\n"
                              f"    state: split {dim}\n")
            plan = json.loads(zoo.run(*command(
                folder, "llama-odd", "--tp", "3", "--json", "-o", package,
                "--config", config)))
            found = [weight["placement"] for weight in plan["weights"]
                     if "embed_tokens" in weight["name"]]
            if found != [f"<S({dim})>"]:
                raise RuntimeError(f"{name}, split {dim}: {found}")
            zoo.check_f64(folder, "llama-odd",
                          folder / "llama-odd.inputs.safetensors", package)
    rules = ("rules:\n  - search: embed_tokens\n    state: split 1\n"
             "  - search: lm_head\n    state: split 0\n")
    config.write_text(rules)
    line = command(folder, "llama-odd", "--plan-only", "--config", config)
    refused(line, 3, "tied.yaml:4", "tied.yaml:2", "the same weight")
    config.write_text(rules + "    optional: true\n")
    zoo.run(*line)


def stale(folder, scratch):
    zoo.run(*command(folder, "gpt2", "--tp", "2", "-o", scratch / "package"))
    plan = scratch / "package" / "plan.yaml"
    flags = ["--plan-only", "--config", plan]
    refused(command(folder, "gpt2", "--tp", "3", *flags), 3,
            "made for something else", "[tp: 3]", "[tp: 2]")
    refused(command(folder, "llama", "--tp", "2", *flags), 3,
            "made for something else", "there is no weight")
    # An op cannot leave its result just anyhow.
    text = plan.read_text()
    line = next(line for line in text.splitlines() if "layer_norm" in line
                and "placement: \"<R>\"" in line)
    plan.write_text(text.replace(line, line.replace("<R>", "<S(2)>")))
    refused(command(folder, "gpt2", "--tp", "2", *flags), 3, "plan.yaml:",
            "cannot give")


def cases():
    found = [case for case in zoo.models(["gpt2", "gpt2-loss"])
             if case[0] == "own"]
    folder = found[0][1]
    for name, flags in ROUND_TRIPS:
        yield (f"round trip of {name} {' '.join(flags)}", round_trip,
               (folder, name, flags))
    yield "rules on values", obeyed, (folder, "gpt2", RULES, ["--tp", "2"])
    yield ("rules on values, gradients", obeyed,
           (folder, "gpt2-loss", RULES, ["--tp", "2", "--train"]))
    yield ("rules by axis", obeyed,
           (folder, "gpt2", BY_AXIS, ["--mesh", "dp=2,tp=2"]))
    yield ("a weight on another axis", obeyed,
           (folder, "t5", TAKEN, ["--mesh", "x=2,y=2"]))
    yield ("values on another axis", obeyed,
           (folder, "bert", TAKEN_BY_VALUES, ["--mesh", "dp=2,tp=2"]))
    for text, words in WRONG:
        yield f"error: {words[0]}", wrong, (folder, text, words)
    yield "tied weights", tied, (folder,)
    yield "stale plans", stale, (folder,)


def main():
    failed = count = 0
    for what, check, arguments in cases():
        count += 1
        with tempfile.TemporaryDirectory() as scratch:
            try:
                check(*arguments, pathlib.Path(scratch))
                print(f"ok    {what}", flush=True)
            except RuntimeError as error:
                failed += 1
                print(f"FAIL  {what}: {error}", flush=True)
    print(f"{count - failed} of {count} cases pass")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
