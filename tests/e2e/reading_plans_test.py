"""tp-inspect --why, --diff, --measured; tp-compile --explain; bench records."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import zoo


def call(*command):
    done = subprocess.run([str(part) for part in command], check=False,
                          capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def compile_line(folder, name, *flags):
    return [zoo.BIN / "tp-compile", folder / f"{name}.pt", "--inputs",
            folder / f"{name}.inputs.safetensors", "-q", *flags]


def has(text, *patterns):
    for pattern in patterns:
        assert re.search(pattern, text), f"no {pattern!r} in:\n{text}"


def check_why(package):
    inspect = zoo.BIN / "tp-inspect"
    weight = zoo.run(inspect, package, "--why", "h.0.mlp.c_fc.weight")
    has(weight, r"c_fc\.weight +f32\[.*\] <S\(1\)>", "makes its part of n",
        r"c_proj:mm <P\(sum\)> sums over its part of k",
        "tp.all_reduce over tp makes it <R>, about [0-9.]+ us")
    value = zoo.run(inspect, package, "--why", "h.0.mlp.c_proj:mm")
    has(value, "sums over its part of k", r"with .*c_proj\.weight <S\(0\)>",
        r"with .*c_fc\.weight <S\(1\)>", "then tp.all_reduce")
    code, _, errors = call(inspect, package, "--why", "c_fc.weight")
    assert code == 3 and "the end of several names" in errors, errors
    code, _, errors = call(inspect, package, "--why", "h.0.mlp.c_fc.wait")
    assert code == 3 and "h.0.mlp.c_fc.weight" in errors, errors


def check_diff(package, other):
    inspect = zoo.BIN / "tp-inspect"
    assert zoo.run(inspect, package, "--diff", package) == "no difference\n"
    text = zoo.run(inspect, package, "--diff", other)
    has(text, r"step us +[0-9.]+ +[0-9.]+", r"fullest rank +\d+ +\d+ +\+[0-9.]+ %",
        "1 weight lies otherwise:",
        r"  .*h\.0\.mlp\.c_fc\.weight: <S\(1\)> \| <R>")


def check_measured(folder, package, scratch):
    record = scratch / "record.json"
    record.write_text(zoo.run(
        zoo.BIN / "tp-run", package, "--inputs",
        folder / "gpt2.inputs.safetensors", "--bench", 5, "--json"))
    measured = json.loads(record.read_text())
    plan = json.loads(zoo.run(zoo.BIN / "tp-inspect", package, "--json"))
    # What is predicted and what happens are the same collectives.
    assert measured["collectives"] == len(plan["collectives"])
    assert measured["collective_bytes"] == sum(
        collective["bytes"] for collective in plan["collectives"])
    for rank, held in zip(measured["ranks"], plan["memory"]):
        assert rank["weight_bytes"] == held["weights"]
    text = zoo.run(zoo.BIN / "tp-inspect", package, "--measured", record)
    count = measured["collectives"]
    has(text, "predicted +measured", r"step us +[0-9.]+ +[0-9.]+",
        rf"collectives +{count} +{count}\n")
    for wrong, words in (("[1]", "no \"ranks\""), ("{", "not a record"),
                         ("{\"ranks\": []}", "of 0 ranks")):
        record.write_text(wrong)
        code, _, errors = call(zoo.BIN / "tp-inspect", package, "--measured",
                               record)
        assert code == 3 and words in errors, (code, errors)


def check_explain(folder):
    line = compile_line(folder, "gpt2", "--tp", "2", "--explain")
    text = zoo.run(*line, "h.0.attn.c_attn.weight")
    rows = re.findall(r"^(<\S+>) +([0-9.]+) +([0-9]+)  (.*)$", text, re.M)
    assert len(rows) >= 4 and rows[0][3] == "chosen", text
    assert "<S(0)>" in [row[0] for row in rows], text
    for _, step, held, reason in rows[1:]:
        # None is better in both, and each says what it has more of.
        assert float(step) > float(rows[0][1]) or held > rows[0][2], text
        assert "+" in reason, text
    value = zoo.run(*line, "h.0.mlp.c_fc:mm")
    has(value, r"<S\(1\)> .* chosen", r"<R> .* compute \+")
    axes = zoo.run(*compile_line(folder, "gpt2", "--mesh", "dp=2,tp=2",
                                 "--explain", "h.0.mlp.c_fc.weight"))
    has(axes, r"<R, S\(1\)> .* chosen", r"<R, S\(0\)> ")
    code, _, errors = call(*line, "no.such.weight")
    assert code == 3 and "near names" in errors, errors


def main():
    folder = next(f for label, f, _ in zoo.models(["gpt2"]) if label == "own")
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        package, other = scratch / "package", scratch / "other"
        zoo.run(*compile_line(folder, "gpt2", "-o", package))
        rules = scratch / "rules.yaml"
        rules.write_text("rules:\n  - search: 'h\\.0\\.mlp\\.c_fc\\.weight'\n"
                         "    state: replicate\n")
        zoo.run(*compile_line(folder, "gpt2", "-o", other, "--config", rules))
        check_why(package)
        check_diff(package, other)
        check_measured(folder, package, scratch)
        check_explain(folder)
    print("reading plans: ok")


if __name__ == "__main__":
    sys.exit(main())
