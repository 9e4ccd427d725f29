"""Machine files: presets, one that tp-run calibrate wrote, what is refused."""

import json
import pathlib
import subprocess
import sys
import tempfile

import zoo


def compile_model(folder, machine, package, *flags):
    done = subprocess.run(
        [str(part) for part in
         [zoo.BIN / "tp-compile", folder / "gpt2.pt", "--inputs",
          folder / "gpt2.inputs.safetensors", "-q", "--json", "-o", package,
          "--machine", machine, *flags]],
        check=False, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def times(folder, machine, package, *flags):
    code, text, errors = compile_model(folder, machine, package, *flags)
    assert code == 0, errors
    shown = zoo.run(zoo.BIN / "tp-inspect", package, "--json")
    predicted = json.loads(text)["predicted"]
    assert json.loads(shown)["predicted"] == predicted, (
        "tp-inspect predicts by another machine")
    return predicted


def main():
    folder = next(f for label, f, _ in zoo.models(["gpt2"]) if label == "own")
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        package = scratch / "package"
        named = {name: times(folder, name, package) for name in
                 ("cpu-shm", "h100-nvlink", "pcie", "ethernet")}
        assert named["ethernet"]["communicate_us"] > named["pcie"][
            "communicate_us"] > named["h100-nvlink"]["communicate_us"]
        assert named["h100-nvlink"]["compute_us"] < named["cpu-shm"][
            "compute_us"]

        file = scratch / "machine.yaml"
        zoo.run(zoo.BIN / "tp-run", "calibrate", "-o", file)
        measured = times(folder, file, package)
        assert measured["compute_us"] > 0 < measured["communicate_us"]

        # What is slow is avoided: bytes over a slow link, kernels.
        file.write_text("kernel_us: 100\n")
        slow = times(folder, file, package)
        assert slow["compute_us"] > 2 * named["cpu-shm"]["compute_us"]

        for text, words in (("kernel: 1\n", "near names"),
                            ("kernel_us: -1\n", "no positive number")):
            file.write_text(text)
            code, _, errors = compile_model(folder, file, package)
            assert code == 3 and words in errors, (code, errors)
        code, _, errors = compile_model(folder, "h100", package)
        assert code == 3 and "h100-nvlink" in errors, (code, errors)
    print("machines: ok")


if __name__ == "__main__":
    sys.exit(main())
