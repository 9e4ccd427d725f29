"""ZeRO-3 by name: what a rule says about a weight comes before --zero3.

`zero3` shards a weight that the flag leaves whole, `replicate` keeps one
whole that the flag would shard; gradients stay those of the unsharded model,
and plan.yaml, fed back, gives the same package.
"""

import pathlib
import sys
import tempfile

import zoo

MODEL = "gpt2-loss"
RANKS = 3
RULES = """rules:
  - search: 'ln_1\\.weight'
    state: {norms}
  - search: 'mlp\\.c_fc\\.weight'
    state: {matrices}
"""


def placements(plan, ending):
    found = {weight["placement"] for weight in plan["weights"]
             if weight["name"].endswith(ending)}
    return sorted(found)


def check(folder, scratch):
    """Returns what is wrong, as a list of lines."""
    problems = []
    config = scratch / "rules.yaml"
    # flag, rules, then placements of the named norms, matrices, other norms
    cases = [("off", ("zero3", "zero3"), "<S(0)>", "<S(1)>", "<R>"),
             ("on", ("replicate", "zero3"), "<R>", "<S(1)>", "<S(0)>"),
             ("auto", ("replicate", "replicate"), "<R>", "<R>", "<S(0)>")]
    for flag, (norms, matrices), *wanted in cases:
        config.write_text(RULES.format(norms=norms, matrices=matrices))
        package = scratch / f"package-{flag}"
        command = (folder, MODEL, RANKS, package, "--train", "--zero3", flag)
        plan = zoo.compile_model(*command, "--config", config)
        for ending, want in zip(("ln_1.weight", "c_fc.weight", "ln_2.weight"),
                                wanted):
            got = placements(plan, ending)
            if got != [want]:
                problems.append(f"zero3 {flag}, {ending}: {got}, not {want}")
        for dtype in ("model", "f64"):
            zoo.run(zoo.BIN / "tp-run", package, "--inputs",
                    folder / f"{MODEL}.alt.safetensors", "--verify",
                    folder / f"{MODEL}.pt", "--verify-dtype", dtype, "--grads")
        again = scratch / "again"
        zoo.compile_model(folder, MODEL, RANKS, again, "--train", "--zero3",
                          "off", "--config", package / "plan.yaml")
        for name in ("plan.yaml", "plan.tpir", "rank0.tpir",
                     "rank2.safetensors"):
            if (package / name).read_bytes() != (again / name).read_bytes():
                problems.append(f"zero3 {flag}: {name} differs when plan.yaml "
                                "is fed back")
    config.write_text(RULES.format(norms="zero3", matrices="replicate"))
    try:
        zoo.compile_model(folder, MODEL, RANKS, scratch / "no", "--config",
                          config)
        problems.append("zero3 without --train is not refused")
    except RuntimeError as error:
        if "exit code 3" not in str(error) or "rules.yaml:2" not in str(error):
            problems.append(f"zero3 without --train: {error}")
    return problems


def main():
    problems = []
    found = [folder for label, folder, _ in zoo.models([MODEL])
             if label == "own"]
    for folder in found:
        with tempfile.TemporaryDirectory() as scratch:
            problems += check(folder, pathlib.Path(scratch))
    for problem in problems:
        print("FAIL ", problem)
    print(f"{len(found)} models, {len(problems)} problems")
    sys.exit(1 if problems or not found else 0)


if __name__ == "__main__":
    main()
