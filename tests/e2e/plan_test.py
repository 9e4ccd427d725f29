"""At 2 ranks the plans of transformers are the known good ones.

Every attention and MLP matrix is split, a decoder-only or encoder layer needs
at most 2 collectives, an encoder-decoder decoder layer 3, and none of them
gathers an activation inside a layer.
"""

import pathlib
import re
import sys
import tempfile

import zoo

# The regular expression's first group tells one layer from another; the
# number is how many collectives such a layer may need.
LAYERS = {
    "gpt2": [(r"(\bh\.\d+)\.", 2)],
    "llama": [(r"(\blayers\.\d+)\.", 2)],
    "bert": [(r"(\blayer\.\d+)\.", 2)],
    "t5": [(r"(encoder\.block\.\d+)\.", 2), (r"(decoder\.block\.\d+)\.", 3)],
}
LAYERS["flan-t5"] = LAYERS["t5"]
OUTSIDE = 3  # embedding and head


def layer_of(name, path):
    for pattern, limit in LAYERS[name]:
        found = re.search(pattern, path + ".")
        if found:
            return found.group(1), limit
    return None, OUTSIDE


def problems_of(name, plan):
    problems = []
    for weight in plan["weights"]:
        layer, _ = layer_of(name, weight["name"])
        matrix = len([size for size in weight["shape"] if size > 1]) >= 2
        if layer and matrix and weight["local_bytes"][0] >= weight["bytes"]:
            problems.append(f"{weight['name']} is not split")
    count = {}
    for collective in plan["collectives"]:
        layer, limit = layer_of(name, collective["module"])
        count.setdefault((layer, limit), []).append(collective)
        if layer and collective["kind"] not in ("all_reduce",
                                                "reduce_scatter"):
            problems.append(f"{collective['kind']} inside {layer} after "
                            f"{collective['op']} ({collective['source']})")
    for (layer, limit), found in count.items():
        # Both stacks embed with a collective in an encoder-decoder model.
        allowed = limit + (1 if layer is None and "t5" in name else 0)
        if len(found) > allowed:
            problems.append(
                f"{layer or 'outside the layers'}: {len(found)} collectives, "
                f"at most {allowed}")
    layers = sum(1 for layer, _ in count if layer)
    if layers < 2:
        problems.append(f"only {layers} layers recognised by their names")
    return problems


def main():
    failed = 0
    seen = 0
    for label, folder, name in zoo.models(list(LAYERS)):
        with tempfile.TemporaryDirectory() as scratch:
            plan = zoo.compile_model(folder, name, 2,
                                     pathlib.Path(scratch) / "package")
        seen += 1
        problems = problems_of(name, plan)
        failed += bool(problems)
        kinds = [collective["kind"] for collective in plan["collectives"]]
        print(f"{'FAIL' if problems else 'ok':5} {label:6} {name:8} "
              f"{len(kinds)} collectives")
        for problem in problems:
            print(f"      {problem}")
    print(f"{seen - failed} of {seen} plans are as they must be")
    sys.exit(1 if failed or not seen else 0)


if __name__ == "__main__":
    main()
