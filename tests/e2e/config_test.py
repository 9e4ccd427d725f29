"""A user's rules are obeyed and never change a result; plan.yaml is a config."""

import pathlib
import sys
import tempfile

import zoo

HEADS = 8  # of every gpt2 tried here
RULES = r"""rules:
  - search: 'mlp\.c_fc\.weight'
    state: replicate
  - search: 'h\.0\.attn\.c_attn\.weight'
    state: split 0
  - search: 'h\.1\.attn\.c_attn\.weight'
    state: split 1 groups=3 chunk={head}
  - name: {table}
    state: split 1
  - search: no_such_weight
    state: replicate
    optional: true
"""
WANTED = {
    "h.0.mlp.c_fc.weight": "<R>",
    "h.1.mlp.c_fc.weight": "<R>",
    "h.0.attn.c_attn.weight": "<S(0)>",
    "h.1.attn.c_attn.weight": "<S(1:3x[{heads}]x{head})>",
    "wte.weight": "<S(1)>",
}


def check(folder, scratch):
    """Returns what is wrong, as a list of lines."""
    problems = []
    config = scratch / "rules.yaml"
    package = scratch / "package"
    free = zoo.compile_model(folder, "gpt2", 1, package)
    shapes = {weight["name"]: weight["shape"] for weight in free["weights"]}
    table = next(name for name in shapes if name.endswith("wte.weight"))
    head = shapes[table][1] // HEADS
    config.write_text(RULES.format(head=head, table=table))
    plan = zoo.compile_model(folder, "gpt2", 3, package, "--config", config)
    placements = {weight["name"]: weight["placement"]
                  for weight in plan["weights"]}
    for name, wanted in WANTED.items():
        wanted = wanted.format(heads=HEADS, head=head)
        found = [placement for weight, placement in placements.items()
                 if weight.endswith(name)]
        if found != [wanted]:
            problems.append(f"{name}: {found}, not {wanted}")
    for kind in ("inputs", "alt"):
        error = zoo.check_outputs(folder, "gpt2", kind, package, scratch)
        if error > zoo.F32_TOLERANCE:
            problems.append(f"{kind}: error {error:.2e}")
    again = scratch / "again"
    zoo.compile_model(folder, "gpt2", 3, again, "--config",
                      package / "plan.yaml")
    for name in ("plan.yaml", "plan.tpir", "manifest.json", "rank0.tpir",
                 "rank2.safetensors"):
        if (package / name).read_bytes() != (again / name).read_bytes():
            problems.append(f"{name} differs when plan.yaml is fed back")
    return problems


def main():
    problems = []
    found = list(zoo.models(["gpt2"]))
    for _, folder, _ in found:
        with tempfile.TemporaryDirectory() as scratch:
            problems += check(folder, pathlib.Path(scratch))
    for problem in problems:
        print("FAIL ", problem)
    print(f"{len(found)} models, {len(problems)} problems")
    sys.exit(1 if problems or not found else 0)


if __name__ == "__main__":
    main()
