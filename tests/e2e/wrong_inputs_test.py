"""Wrong inputs give a clear message, the right exit code, and no leftovers.

Every refusal is checked for four things: the exit code of the contract, the
words that tell the user what to change, no sign of a crash, and a folder that
is byte for byte what it was before: nothing half-written, nothing touched.

    wrong_inputs_test.py [-v] [WORD ...]   -v prints the messages, words choose
"""

import contextlib
import hashlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

import numpy as np
from safetensors.numpy import load_file, save_file

import zoo

RUN_ERROR, USAGE, BAD_INPUT, UNSUPPORTED, DIFFERS = 1, 2, 3, 4, 5
OUT_OF_MEMORY = 8
CRASH_SIGNS = ["Traceback", "terminate called", "internal error at",
               "Exception raised from", "frame #", "Sanitizer", "std::"]
TIMEOUT = 120

CASES = []


def case(function):
    CASES.append(function)
    return function


def snapshot(folder):
    """Path to content hash of everything below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = (hashlib.sha256(path.read_bytes()).hexdigest()
                       if path.is_file() else "folder")
    return found


def make_models(folder):
    """What PyTorch users save and we refuse; in one place, as torch loads
    slowly."""
    import torch
    from torch import nn

    class Saves(nn.Module):
        def forward(self, x):
            torch.save(x, "stolen.pt")
            return x + 1

    class Branches(nn.Module):
        def forward(self, x):
            if bool(x.sum() > 0):
                return x + 1
            return x - 1

    class Loops(nn.Module):
        def forward(self, x):
            while bool(x.sum() > 1):
                x = x / 2
            return x

    class Transforms(nn.Module):
        def forward(self, x):
            return torch.linalg.svdvals(x)

    class Drops(nn.Module):
        def __init__(self):
            super().__init__()
            self.dropout = nn.Dropout(0.5)

        def forward(self, x):
            return self.dropout(x)

    class Complex(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, dtype=torch.complex64))

        def forward(self, x):
            return (x * self.weight).real

    class Scales(nn.Module):
        def forward(self, x, factor: int, y, mode: str = "add"):
            if mode == "add":
                return x * factor + y
            return x * factor - y

    class ScaledLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.wi = nn.Linear(4, 6)

        def forward(self, x, factor: int):
            return (self.wi(x).tanh() * factor).sum()

    for name, model in [("scales", Scales()), ("scaled_loss", ScaledLoss()), ("saves", Saves()), ("branches", Branches()),
                        ("loops", Loops()), ("transforms", Transforms()),
                        ("drops", Drops().train()),
                        ("complex", Complex())]:
        torch.jit.save(torch.jit.script(model), folder / f"{name}.pt")
    linear = nn.Linear(4, 4)
    torch.save(linear.state_dict(), folder / "state_dict.pt")
    torch.save(linear.state_dict(), folder / "old_state_dict.pt",
               _use_new_zipfile_serialization=False)
    torch.export.save(torch.export.export(linear, (torch.ones(2, 4),)),
                      folder / "program.pt2")
    save_file({"input_0": np.ones((2, 4), np.float32)},
              folder / "x.safetensors")


class Kit:
    """A fresh folder for one case, and the means to run a tool in it."""

    def __init__(self, folder, shared, verbose):
        self.folder = folder
        self.shared = shared
        self.verbose = verbose
        self.refusals = 0

    def path(self, name):
        return self.folder / name

    def model(self, name):
        return self.shared / f"{name}.pt"

    def inputs(self, name, kind="inputs"):
        return self.shared / f"{name}.{kind}.safetensors"

    def package(self, name="gpt2"):
        """A copy of a good package, to be damaged."""
        return pathlib.Path(shutil.copytree(self.shared / f"{name}.package",
                                            self.path("package")))

    def text(self, name, text):
        self.path(name).write_text(text)
        return self.path(name)

    def tensors(self, name, **arrays):
        save_file({key: np.ascontiguousarray(array)
                   for key, array in arrays.items()}, self.path(name))
        return self.path(name)

    def start(self, tool, arguments, **options):
        command = [str(zoo.BIN / tool), *[str(a) for a in arguments]]
        done = subprocess.run(command, cwd=self.folder, check=False,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=TIMEOUT,
                              **options)
        shown = f"{tool} {' '.join(str(a) for a in arguments)}"
        assert done.returncode >= 0, (
            f"{shown}: died of signal {-done.returncode}: {done.stderr}")
        for sign in CRASH_SIGNS:
            assert sign not in done.stderr, f"{shown}: {done.stderr}"
        return done, shown

    def refuses(self, tool, arguments, code, *words, **options):
        """The tool refuses and leaves the folder as it was."""
        before = snapshot(self.folder)
        done, shown = self.start(tool, arguments, **options)
        if self.verbose:
            print(f"  $ {shown.replace(str(self.folder), '.')}\n    "
                  f"[{done.returncode}] {done.stderr.strip()}")
        what = f"{shown}\nexit code {done.returncode}\n{done.stderr}"
        assert done.returncode == code, f"wants exit code {code}: {what}"
        assert done.stderr.startswith(f"{tool}: "), f"who says so? {what}"
        assert done.stdout == "", f"prints {done.stdout[:200]!r}: {what}"
        for word in words:
            assert word in done.stderr, f"the message lacks {word!r}: {what}"
        after = snapshot(self.folder)
        changed = sorted(key for key in {*before, *after}
                         if before.get(key) != after.get(key))
        assert not changed, f"leaves or touches {changed}: {what}"
        self.refusals += 1

    def compile_refuses(self, model, flags, code, *words, **options):
        arguments = [model, *flags, "-o", self.path("out")]
        self.refuses("tp-compile", arguments, code, *words, **options)

    def run_refuses(self, package, inputs, code, *words, flags=(),
                    **options):
        arguments = [package, "--inputs", inputs, "--outputs",
                     self.path("outputs.safetensors"), *flags]
        self.refuses("tp-run", arguments, code, *words, **options)

    def works(self, tool, *arguments):
        done, shown = self.start(tool, arguments)
        assert done.returncode == 0, f"{shown}: {done.stderr}"
        return done


def replace_in_manifest(package, change):
    path = package / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def sign_again(package, *names):
    """Makes the manifest agree with edited files, as a forger would."""
    def change(manifest):
        for name in names:
            data = (package / name).read_bytes()
            manifest["files"][name] = {
                "sha256": hashlib.sha256(data).hexdigest(),
                "bytes": len(data)}
    replace_in_manifest(package, change)


def flip(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    path.write_bytes(data)


def swap(first, second):
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)


def offset_of_record(path, ending):
    """Where the bytes of a stored record of an archive begin."""
    with zipfile.ZipFile(path) as archive:
        entry = next(entry for entry in archive.infolist()
                     if entry.filename.endswith(ending))
    header = path.read_bytes()[entry.header_offset:entry.header_offset + 30]
    names = int.from_bytes(header[26:28], "little")
    extra = int.from_bytes(header[28:30], "little")
    return entry.header_offset + 30 + names + extra, entry.file_size


# What is no usable model.


@case
def wrong_kind_of_file(t):
    x = ["--inputs", t.shared / "x.safetensors"]
    for name, words in [("state_dict.pt", ["state dict"]),
                        ("old_state_dict.pt", ["state dict", "torch.save"]),
                        ("program.pt2", ["torch.export archive"])]:
        t.compile_refuses(t.shared / name, x, BAD_INPUT, name,
                          "not a TorchScript archive", "torch.jit.save",
                          *words)
    for name, content, word in [
            ("notes.pt", b"these are my notes\n", "a text file"),
            ("empty.pt", b"", "an empty file"),
            ("zeros.pt", bytes(5000), "a file of zeros"),
            ("noise.pt", random.Random(7).randbytes(5000),
             "not a TorchScript archive")]:
        t.path(name).write_bytes(content)
        t.compile_refuses(t.path(name), x, BAD_INPUT, name, word)
    shutil.copy(t.inputs("mlp"), t.path("weights.pt"))
    t.compile_refuses(t.path("weights.pt"), x, BAD_INPUT,
                      "a safetensors file, which holds weights but no program")


@case
def no_such_model(t):
    x = ["--inputs", t.inputs("mlp")]
    t.compile_refuses(t.path("gone.pt"), x, BAD_INPUT, "gone.pt",
                      "No such file")
    t.path("folder.pt").mkdir()
    t.compile_refuses(t.path("folder.pt"), x, BAD_INPUT, "folder.pt",
                      "folder")


@case
def truncated_archive(t):
    whole = t.model("mlp").read_bytes()
    x = ["--inputs", t.inputs("mlp")]
    for size in [1, 40, len(whole) // 3, len(whole) - 100, len(whole) - 1]:
        t.path("cut.pt").write_bytes(whole[:size])
        t.compile_refuses(t.path("cut.pt"), x, BAD_INPUT, "cut.pt")
    t.path("cut.pt").write_bytes(whole + b"more")
    t.compile_refuses(t.path("cut.pt"), x, BAD_INPUT, "cut.pt")


@case
def flipped_weight_byte_in_the_archive(t):
    model = pathlib.Path(shutil.copy(t.model("mlp"), t.path("flipped.pt")))
    start, size = offset_of_record(model, "/data/2")
    flip(model, start + size // 2)
    t.compile_refuses(model, ["--inputs", t.inputs("mlp")], BAD_INPUT,
                      "flipped.pt", "data/2", "CRC")


@case
def flipped_program_byte_in_the_archive(t):
    x = ["--inputs", t.inputs("mlp")]
    for record in ["/data.pkl", "/constants.pkl", "/version"]:
        model = pathlib.Path(shutil.copy(t.model("mlp"), t.path("m.pt")))
        flip(model, offset_of_record(model, record)[0])
        t.compile_refuses(model, x, BAD_INPUT, "m.pt", record[1:], "CRC")


@case
def random_damage_never_crashes(t):
    """Some flips hit padding and harm nothing; none may end in a signal."""
    dice = random.Random(3)
    whole = t.model("mlp").read_bytes()
    for _ in range(16):
        data = bytearray(whole)
        for _ in range(4):
            # Most of the structure is at the end: the directory.
            data[dice.choice([dice.randrange(len(data)),
                              -1 - dice.randrange(2000)])] ^= (
                                  1 << dice.randrange(8))
        t.path("m.pt").write_bytes(data)
        done, shown = t.start("tp-compile", [
            t.path("m.pt"), "--inputs", t.inputs("mlp"), "-o", t.path("out")])
        assert done.returncode in (0, BAD_INPUT), f"{shown}: {done.stderr}"
        assert t.path("out").exists() == (done.returncode == 0), shown
        shutil.rmtree(t.path("out"), ignore_errors=True)
        assert sorted(os.listdir(t.folder)) == ["m.pt"], os.listdir(t.folder)


@case
def program_that_writes_files(t):
    x = ["--inputs", t.shared / "x.safetensors"]
    t.compile_refuses(t.model("saves"), x, BAD_INPUT, "aten::save",
                      "--allow-op")


@case
def control_flow_that_depends_on_data_in_training(t):
    x = ["--inputs", t.shared / "x.safetensors", "--train"]
    for name, word in [("branches", "if bool(x.sum() > 0)"),
                       ("loops", "while bool(x.sum() > 1)")]:
        lines = pathlib.Path(__file__).read_text().splitlines()
        line = 1 + next(i for i, text in enumerate(lines) if word in text)
        t.compile_refuses(t.model(name), x, UNSUPPORTED,
                          f"wrong_inputs_test.py:{line}", "depends on data",
                          "torch.where")


@case
def operator_without_a_rule_where_that_is_an_error(t):
    t.compile_refuses(t.model("transforms"),
                      ["--inputs", t.shared / "x.safetensors", "--strict"],
                      UNSUPPORTED, "linalg_svdvals", "wrong_inputs_test.py:",
                      "--show-rules")


@case
def dropout_in_training_mode(t):
    t.compile_refuses(t.model("drops"),
                      ["--inputs", t.shared / "x.safetensors"], UNSUPPORTED,
                      "dropout", "training", "eval()")


@case
def complex_weights(t):
    t.compile_refuses(t.model("complex"),
                      ["--inputs", t.shared / "x.safetensors"], UNSUPPORTED,
                      "'weight'", "ComplexFloat", "supported are")


# Example inputs of tp-compile.


@case
def compile_without_inputs(t):
    t.compile_refuses(t.model("gpt2"), [], BAD_INPUT,
                      "no example inputs are given", "input_ids",
                      "attention_mask", "--inputs FILE")


@case
def compile_inputs_missing_or_misnamed(t):
    good = load_file(t.inputs("gpt2"))
    one = t.tensors("one.safetensors", input_ids=good["input_0"])
    t.compile_refuses(t.model("gpt2"), ["--inputs", one], BAD_INPUT,
                      "no tensor 'attention_mask'", "the model takes:")
    other = t.tensors("other.safetensors", input_ids=good["input_0"],
                      attention_musk=good["input_1"])
    t.compile_refuses(t.model("gpt2"), ["--inputs", other], BAD_INPUT,
                      "'attention_musk'", "attention_mask")
    twice = t.tensors("twice.safetensors", input_ids=good["input_0"],
                      input_0=good["input_0"], input_1=good["input_1"])
    t.compile_refuses(t.model("gpt2"), ["--inputs", twice], BAD_INPUT,
                      "twice")


@case
def compile_inputs_of_wrong_shape(t):
    wide = t.tensors("wide.safetensors", x=np.ones((5, 13, 31), np.float32))
    t.compile_refuses(t.model("mlp"), ["--inputs", wide], BAD_INPUT, "31",
                      "32", "norm")
    flat = t.tensors("flat.safetensors", x=np.ones(7, np.float32))
    t.compile_refuses(t.model("mlp"),
                      ["--inputs", t.inputs("mlp"), "--inputs", flat],
                      BAD_INPUT, "'x'", "1 dims", "3 dims")
    good = load_file(t.inputs("gpt2"))
    mixed = t.tensors("mixed.safetensors", input_0=good["input_0"],
                      input_1=good["input_1"][:, :9])
    t.compile_refuses(t.model("gpt2"), ["--inputs", mixed], BAD_INPUT, "9",
                      "13", ".py:")


@case
def compile_inputs_of_wrong_dtype(t):
    good = load_file(t.inputs("gpt2"))
    real = t.tensors("real.safetensors",
                     input_0=good["input_0"].astype(np.float32),
                     input_1=good["input_1"])
    t.compile_refuses(t.model("gpt2"), ["--inputs", real], BAD_INPUT,
                      "embedding", "f32", ".py:")


def edit_header(source, target, change):
    """Copies a safetensors file with another header."""
    data = source.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = change(data[8:8 + size].decode()).encode()
    target.write_bytes(len(header).to_bytes(8, "little") + header
                       + data[8 + size:])
    return target


def bad_tensor_files(t, source):
    """(file, words) of safetensors files that are none."""
    whole = source.read_bytes()

    def cut(size):
        path = t.path(f"cut{size}.safetensors")
        path.write_bytes(whole[:size])
        return path

    yield t.path("gone.safetensors"), ["gone.safetensors", "No such file"]
    yield cut(0), ["cut0.safetensors"]
    yield cut(5), ["cut5.safetensors", "5 bytes"]
    yield cut(60), ["cut short"]
    yield cut(len(whole) - 3), ["cut short", "copy it again"]
    yield t.text("text.safetensors", "x = 3, y = 4, and z as well\n"), [
        "text.safetensors", "is it another kind of file"]
    yield edit_header(source, t.path("dtype.safetensors"),
                      lambda text: text.replace('"F32"', '"F4"').replace(
                          '"I64"', '"I3"')), ["unknown dtype", "known are"]
    yield edit_header(source, t.path("json.safetensors"),
                      lambda text: text[:-1] + ",}"), ["json.safetensors",
                                                       "JSON"]


@case
def compile_inputs_that_are_no_tensors(t):
    for path, words in bad_tensor_files(t, t.inputs("mlp")):
        t.compile_refuses(t.model("mlp"), ["--inputs", path], BAD_INPUT,
                          *words)


@case
def arguments_that_are_none(t):
    x = ["--inputs", t.inputs("mlp")]
    t.compile_refuses(t.model("mlp"), [*x, "--arg", "speed=3"], BAD_INPUT,
                      "speed=3", "no such argument")
    t.compile_refuses(t.model("mlp"), [*x, "--arg", "speed"], USAGE,
                      "NAME=VALUE")
    t.compile_refuses(t.model("mlp"), [*x, "--dynamic", "y:0=batch"],
                      BAD_INPUT, "y:0=batch", "no such input")
    t.compile_refuses(t.model("mlp"), [*x, "--dynamic", "x:7=batch"],
                      BAD_INPUT, "7=batch")
    t.compile_refuses(t.model("mlp"), [*x, "--method", "encode"], BAD_INPUT,
                      "no method 'encode'")


@case
def second_example_that_a_guard_refuses(t):
    """What the package would refuse at run time is refused now."""
    ids = np.full((2, 65), 7, np.int64)
    path = t.tensors("long.safetensors", input_ids=ids,
                     attention_mask=np.ones_like(ids))
    t.compile_refuses(t.model("gpt2"), ["--inputs", t.inputs("gpt2"),
                                        "--inputs", path], BAD_INPUT,
                      "inputs file 2", "long.safetensors", "seq <= 64",
                      "65 <= 64 does not hold", "wpe", ".py:",
                      "Leave one of the two files out")
    t.compile_refuses(t.model("gpt2"),
                      ["--static", "--inputs", t.inputs("gpt2"), "--inputs",
                       t.inputs("gpt2", "alt")], BAD_INPUT, "--static",
                      "input_ids")


# The user's plan.


@case
def broken_config(t):
    x = ["--inputs", t.inputs("mlp"), "--config"]
    for text, words in [
            ("rules:\n  - {search: 'wi', state: split 0\n", [":"]),
            ("rules: [\n", [":"]),
            ("- just\n- a list\n", ["mapping"]),
            ("rulez:\n  - {name: wi.weight, state: replicate}\n",
             ["unknown key", "rulez", ":1:"]),
            ("rules:\n  - {name: wi.weight, state: split it}\n",
             ["split it", "write split D", ":2:"]),
            ("rules:\n  - {name: wi.weight}\n", ['a rule needs "state"']),
            ("values: " + "[" * 100000, [":1:"]),
            ("rules:\n  - {search: '(wi', state: split 0}\n",
             ["not a regular expression", "(wi"])]:
        t.compile_refuses(t.model("mlp"), [*x, t.text("plan.yaml", text)],
                          BAD_INPUT, "plan.yaml", *words)
    t.compile_refuses(t.model("mlp"), [*x, t.path("gone.yaml")], BAD_INPUT,
                      "gone.yaml", "No such file")
    t.compile_refuses(t.model("mlp"), [*x, t.shared], BAD_INPUT,
                      "directory")


@case
def config_that_names_no_weight(t):
    config = t.text("plan.yaml",
                    "rules:\n  - {name: wi.wieght, state: split 0}\n")
    t.compile_refuses(t.model("mlp"),
                      ["--inputs", t.inputs("mlp"), "--config", config],
                      BAD_INPUT, "plan.yaml:2", "wi.wieght",
                      "names no weight", '"wi.weight"')


@case
def config_with_an_impossible_split(t):
    for state, words in [("split 2", ["wi.weight", "no dim 2"]),
                         ("split -3", ["wi.weight", "no dim -3"]),
                         ("split 0 chunk=7", ["wi.weight", "no multiple of"]),
                         ("split 0 chunk=0", ["chunk=0"])]:
        config = t.text("plan.yaml",
                        f"rules:\n  - {{search: wi.weight, state: {state}}}\n")
        t.compile_refuses(t.model("mlp"),
                          ["--inputs", t.inputs("mlp"), "--config", config],
                          BAD_INPUT, "plan.yaml:2", *words)


# Where the package goes.


@case
def output_folder_that_is_no_package(t):
    x = ["--inputs", t.inputs("mlp")]
    t.path("out").mkdir()
    t.text("out/thesis.tex", "years of work")
    t.compile_refuses(t.model("mlp"), x, BAD_INPUT, "is not a package",
                      "left as it is", "-o")
    # A web app has a manifest.json too.
    t.text("out/manifest.json", '{"name": "my app", "icons": []}')
    t.compile_refuses(t.model("mlp"), x, BAD_INPUT, "is not a package")


@case
def output_folder_that_is_a_file(t):
    x = ["--inputs", t.inputs("mlp")]
    t.text("out", "a file")
    t.compile_refuses(t.model("mlp"), x, BAD_INPUT, "is not a package")
    t.refuses("tp-compile", [t.model("mlp"), *x, "-o", t.path("out/package")],
              BAD_INPUT, "out", "Not a directory")


@case
def failed_compile_keeps_the_old_package(t):
    package = t.package("mlp")
    config = t.text("plan.yaml",
                    "rules:\n  - {search: wi.weight, state: split 5}\n")
    t.refuses("tp-compile", [t.model("mlp"), "--inputs", t.inputs("mlp"),
                             "--config", config, "-o", package],
              BAD_INPUT, "no dim 5")
    model = pathlib.Path(shutil.copy(t.model("mlp"), t.path("flipped.pt")))
    flip(model, offset_of_record(model, "/data/2")[0])
    t.refuses("tp-compile", [model, "--inputs", t.inputs("mlp"), "-o",
                             package], BAD_INPUT, "CRC")
    # Nor do the folders stay that were made on the way.
    t.refuses("tp-compile", [model, "--inputs", t.inputs("mlp"), "-o",
                             t.path("new/deep/package")], BAD_INPUT, "CRC")
    t.works("tp-compile", t.model("mlp"), "--inputs", t.inputs("mlp"),
            "--tp", "3", "-o", package)
    assert (package / "rank2.tpir").exists()
    assert sorted(os.listdir(t.folder)) == ["flipped.pt", "package",
                                            "plan.yaml"]


@contextlib.contextmanager
def small_disk(folder, options):
    """A disk of its own at the folder, or None where we may not mount."""
    folder.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder],
        check=False, capture_output=True).returncode == 0
    if not mounted:
        print(f"skipped: no right to mount a small disk ({options}); limits "
              "on file sizes are tested anyhow")
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", folder], check=True)


@case
def full_disk(t):
    with small_disk(t.path("disk"), "size=256k") as disk:
        if disk is None:
            return
        x = ["--inputs", t.inputs("gpt2")]
        t.refuses("tp-compile", [t.model("gpt2"), *x, "-o", disk / "package"],
                  RUN_ERROR, "No space left on device", "free some space",
                  "package")
        t.works("tp-compile", t.model("mlp"), "--inputs", t.inputs("mlp"),
                "-o", disk / "package")
        t.refuses("tp-compile", [t.model("gpt2"), *x, "-o", disk / "package"],
                  RUN_ERROR, "No space left on device")
        (disk / "ballast").write_bytes(bytes(160 << 10))
        t.refuses("tp-run", [t.shared / "gpt2.package", *x, "--outputs",
                             disk / "outputs.safetensors"],
                  RUN_ERROR, "No space left on device", "free some space",
                  "outputs.safetensors")


@case
def disk_that_may_not_be_written(t):
    with small_disk(t.path("disk"), "ro") as disk:
        if disk is None:
            return
        x = ["--inputs", t.inputs("gpt2")]
        t.refuses("tp-compile", [t.model("gpt2"), *x, "-o", disk / "package"],
                  BAD_INPUT, "Read-only file system")
        t.refuses("tp-run", [t.shared / "gpt2.package", *x, "--outputs",
                             disk / "outputs.safetensors"],
                  BAD_INPUT, "Read-only file system")


@case
def compile_that_is_killed(t):
    """Whenever it ends, there is no package or a whole one."""
    package = t.path("package")
    for _ in range(3):
        command = [zoo.BIN / "tp-compile", t.model("gpt2"), "--inputs",
                   t.inputs("gpt2"), "--tp", "8", "-q", "-o", package]
        with subprocess.Popen([str(part) for part in command],
                              stdout=subprocess.DEVNULL) as process:
            while process.poll() is None and not os.listdir(t.folder):
                time.sleep(0.001)
            process.kill()
        for path in t.folder.iterdir():
            done, _ = t.start("tp-run", [path, "--inputs", t.inputs("gpt2"),
                                         "-q"])
            wanted = 0 if path == package else BAD_INPUT
            assert done.returncode == wanted, f"{path.name}: {done.stderr}"
            shutil.rmtree(path)


@case
def compile_that_is_interrupted(t):
    """Ctrl-C at any moment leaves no package or a whole one, and no more."""
    command = [zoo.BIN / "tp-compile", t.model("gpt2"), "--inputs",
               t.inputs("gpt2"), "--tp", "8", "-q", "-o",
               t.path("new/package")]
    seen = set()
    for attempt in range(12):
        number = [signal.SIGINT, signal.SIGTERM][attempt % 2]
        with subprocess.Popen([str(part) for part in command],
                              stderr=subprocess.PIPE) as process:
            # At first while it imports, then while it writes.
            while attempt > 1 and process.poll() is None and not os.listdir(
                    t.folder):
                time.sleep(0.0005)
            time.sleep(attempt * 0.002 if attempt > 1 else 0.1)
            process.send_signal(number)
            errors = process.stderr.read().decode()
        code = process.returncode
        # -number: before main.
        assert code in (0, 128 + number, -number), f"{code}: {errors}"
        assert errors == "", errors
        left = sorted(str(path.relative_to(t.folder))
                      for path in t.folder.glob("*/*"))
        assert left in ([], ["new/package"]), left
        assert code != 0 or left, "no package"
        seen.add(code)
        if left:
            t.works("tp-run", t.path("new/package"), "--inputs",
                    t.inputs("gpt2"), "-q")
            shutil.rmtree(t.path("new"))
        assert not os.listdir(t.folder), os.listdir(t.folder)
    assert {130, 143} <= seen, f"never interrupted in time: {seen}"


@case
def interrupted_compile_keeps_the_old_package(t):
    package = t.package("gpt2")
    before = snapshot(package)
    command = [zoo.BIN / "tp-compile", t.model("gpt2"), "--inputs",
               t.inputs("gpt2"), "--tp", "8", "-q", "-o", package]
    with subprocess.Popen([str(part) for part in command]) as process:
        while process.poll() is None and len(os.listdir(t.folder)) < 2:
            time.sleep(0.0005)
        process.send_signal(signal.SIGINT)
    assert os.listdir(t.folder) == ["package"], os.listdir(t.folder)
    assert process.returncode in (0, 130), process.returncode
    assert (snapshot(package) == before) == (process.returncode == 130)
    # Who was started to ignore Ctrl-C goes on ignoring it.
    with subprocess.Popen(
            [str(part) for part in command],
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
    ) as process:
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 0, process.returncode


@case
def limit_on_memory(t):
    t.works("tp-compile", t.model("mlp"), "--inputs", t.inputs("mlp"),
            "--tp", "64", "-o", t.path("package"))

    def limit():
        # Every thread of a rank asks for 64 MiB.
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, 64 << 20))
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

    t.run_refuses(t.path("package"), t.inputs("mlp"), OUT_OF_MEMORY,
                  "no thread for rank", "fewer ranks", preexec_fn=limit)


@case
def limit_on_file_sizes(t):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        # The default: the kernel kills with SIGXFSZ.
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

    t.compile_refuses(t.model("gpt2"), ["--inputs", t.inputs("gpt2")],
                      RUN_ERROR, "File too large", preexec_fn=limit)
    t.run_refuses(t.shared / "gpt2.package", t.inputs("gpt2"), RUN_ERROR,
                  "outputs.safetensors", "File too large", preexec_fn=limit)


@case
def outputs_that_cannot_be_written(t):
    package = t.shared / "gpt2.package"
    t.refuses("tp-run", [package, "--inputs", t.inputs("gpt2"), "--outputs",
                         t.path("gone/outputs.safetensors")],
              BAD_INPUT, "gone/outputs.safetensors", "No such file")
    t.path("outputs.safetensors").mkdir()
    t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, "outputs.safetensors",
                  "directory")


# Packages.


@case
def package_that_is_none(t):
    x = t.inputs("gpt2")
    t.run_refuses(t.path("gone"), x, BAD_INPUT, "gone", "No such file")
    t.run_refuses(t.text("file", "text"), x, BAD_INPUT, "file",
                  "not a package")
    t.path("folder").mkdir()
    t.run_refuses(t.path("folder"), x, BAD_INPUT, "folder", "not a package",
                  "tp-compile")
    t.run_refuses(t.model("gpt2"), x, BAD_INPUT, "gpt2.pt", "not a package",
                  "tp-compile")


@case
def package_of_another_version(t):
    package = t.package()
    replace_in_manifest(package, lambda m: m.update(format_version=99))
    t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, "format 99",
                  "reads format", "Compile")
    replace_in_manifest(package, lambda m: m.pop("format_version"))
    t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, "format_version")


@case
def broken_manifest(t):
    package = t.package()
    manifest = package / "manifest.json"
    whole = manifest.read_text()
    for text, words in [("", ["JSON"]), ("{", ["JSON"]), (whole[:500], ["JSON"]),
                        ("[1]", ["not a JSON object"]),
                        ("[" * 100000, ["nested too deeply"]),
                        ("\0\1\2", ["JSON"])]:
        manifest.write_text(text)
        t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, "manifest.json",
                      *words)
    for key in ["mesh", "files", "schedule_sha256"]:
        manifest.write_text(whole)
        replace_in_manifest(package, lambda m, key=key: m.pop(key))
        t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, "manifest.json",
                      f"'{key}' is missing")
    manifest.write_text(whole)
    replace_in_manifest(package, lambda m: m["mesh"][0].update(size=3))
    t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT)
    replace_in_manifest(package, lambda m: m["mesh"][0].update(size=10**12))
    t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, "1024")


@case
def flipped_byte_in_the_package(t):
    for name in ["rank0.safetensors", "rank1.safetensors", "rank1.tpir"]:
        package = t.package()
        flip(package / name, (package / name).stat().st_size // 2)
        t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, name,
                      "SHA-256" if name.endswith(".tpir") else "checksum",
                      "compile again")
        shutil.rmtree(package)


@case
def plan_that_is_not_the_written_one(t):
    """tp-inspect shows what was compiled, or nothing."""
    package = t.package()
    plan = package / "plan.tpir"
    whole = plan.read_text()
    plan.write_text(whole + "\n// a harmless remark\n")
    t.refuses("tp-inspect", [package], BAD_INPUT, "plan.tpir", "bytes instead")
    plan.write_text(whole.replace("<S(0)>", "<S(1)>"))
    t.refuses("tp-inspect", [package, "--json"], BAD_INPUT, "plan.tpir",
              "SHA-256", "compile again")
    plan.unlink()
    t.refuses("tp-inspect", [package, "--ops"], BAD_INPUT, "plan.tpir",
              "No such file")
    plan.write_text(whole)
    t.works("tp-inspect", package)
    replace_in_manifest(package, lambda m: m["files"].pop("plan.tpir"))
    t.refuses("tp-inspect", [package], BAD_INPUT, "no entry for plan.tpir")
    replace_in_manifest(package, lambda m: m.update(format_version=99))
    t.refuses("tp-inspect", [package], BAD_INPUT, "format 99")
    (package / "manifest.json").unlink()
    t.refuses("tp-inspect", [package], BAD_INPUT, "not a package")


@case
def files_of_the_package_missing_or_cut(t):
    for name in ["rank0.safetensors", "rank1.safetensors", "rank0.tpir",
                 "rank1.tpir"]:
        package = t.package()
        os.truncate(package / name, 1000)
        t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, name,
                      "1000 bytes instead of")
        (package / name).unlink()
        t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, name,
                      "No such file", "not complete")
        shutil.rmtree(package)


@case
def swapped_rank_files(t):
    package = t.package()
    swap(package / "rank0.tpir", package / "rank1.tpir")
    t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, "rank", ".tpir",
                  "another package or rank")
    swap(package / "rank0.tpir", package / "rank1.tpir")
    swap(package / "rank0.safetensors", package / "rank1.safetensors")
    t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, "rank", ".safetensors",
                  "another package or rank")
    # Even when the manifest is made to agree.
    swap(package / "rank0.tpir", package / "rank1.tpir")
    sign_again(package, "rank0.tpir", "rank1.tpir", "rank0.safetensors",
               "rank1.safetensors")
    t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, "rank0.tpir",
                  "rank 1")


@case
def edited_programs(t):
    package = t.package()
    program = package / "rank1.tpir"
    whole = program.read_text()
    program.write_text(whole + "\n// a harmless remark\n")
    t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, "rank1.tpir",
                  "edited")
    # The manifest agrees, but the ranks would wait for each other forever.
    lines = whole.splitlines()
    index = next(i for i, line in enumerate(lines) if "tp.all_reduce" in line)
    name, operand = lines[index].split("=")[0].strip(), lines[index].split(
        "tp.all_reduce(")[1].split(")")[0]
    without = [line for i, line in enumerate(lines) if i != index]
    rest = "\n".join(without[index:])
    for end in [",", ")", "]", " "]:
        rest = rest.replace(name + end, operand + end)
    program.write_text("\n".join(without[:index]) + "\n" + rest + "\n")
    sign_again(package, "rank1.tpir")
    t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, "Compile again")
    # Not even a program.
    program.write_text(whole.replace("%", "%%", 1))
    sign_again(package, "rank1.tpir")
    t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, "rank1.tpir:", "^")
    program.write_text("\n".join(lines[:len(lines) // 2]))
    sign_again(package, "rank1.tpir")
    t.run_refuses(package, t.inputs("gpt2"), BAD_INPUT, "rank1.tpir:")


@case
def weights_that_do_not_fit_the_program(t):
    package = t.package("mlp")
    path = package / "rank1.safetensors"
    whole = load_file(path)
    for change, words in [
            (lambda w: w.pop("wi.weight"), ["rank1.safetensors",
                                            "wi.weight"]),
            (lambda w: w.update({"wi.weight": w["wi.weight"][:, :5].copy()}),
             ["rank 1: ", "wi.weight", "needs"]),
            (lambda w: w.update(
                {"wi.weight": w["wi.weight"].astype(np.float64)}),
             ["rank 1: ", "wi.weight", "needs"])]:
        weights = dict(whole)
        change(weights)
        save_file(weights, path)
        sign_again(package, "rank1.safetensors")
        t.run_refuses(package, t.inputs("mlp"), BAD_INPUT, *words)


# Inputs of tp-run.


@case
def run_inputs_missing_or_misnamed(t):
    package = t.shared / "gpt2.package"
    good = load_file(t.inputs("gpt2"))
    one = t.tensors("one.safetensors", input_ids=good["input_0"])
    t.run_refuses(package, one, BAD_INPUT, "'attention_mask' is missing",
                  "The inputs are: input_ids: i64[batch,seq]")
    other = t.tensors("other.safetensors", input_ids=good["input_0"],
                      attention_musk=good["input_1"])
    t.run_refuses(package, other, BAD_INPUT, "no input 'attention_musk'",
                  "The inputs are: ")
    t.refuses("tp-run", [package], BAD_INPUT, "'input_ids' is missing",
              "--inputs")
    t.run_refuses(package, t.inputs("mlp"), BAD_INPUT, "input")


@case
def run_inputs_of_wrong_shape_or_dtype(t):
    package = t.shared / "gpt2.package"
    good = load_file(t.inputs("gpt2"))
    ids, mask = good["input_0"], good["input_1"]
    for changed, words in [
            ((ids[0], mask), ["'input_ids'", "[13]", "2 dims"]),
            ((ids, mask[:, :9]), ["'attention_mask'", "[5, 9]", "13"]),
            ((ids[:0], mask[:0]), ["empty"]),
            ((ids.astype(np.int32), mask), ["i32", "compiled for i64"]),
            ((ids, mask.astype(np.float32)), ["f32", "compiled for i64"])]:
        path = t.tensors("x.safetensors", input_0=changed[0],
                         input_1=changed[1])
        t.run_refuses(package, path, BAD_INPUT, *words)
    wide = t.tensors("wide.safetensors", x=np.ones((5, 13, 31), np.float32))
    t.run_refuses(t.shared / "mlp.package", wide, BAD_INPUT, "'x'",
                  "[5, 13, 31]", "32")


@case
def run_inputs_that_are_no_tensors(t):
    for path, words in bad_tensor_files(t, t.inputs("gpt2")):
        t.run_refuses(t.shared / "gpt2.package", path, BAD_INPUT, *words)


@case
def guard_that_fails_at_run_time(t):
    ids = np.full((2, 65), 7, np.int64)
    path = t.tensors("long.safetensors", input_ids=ids,
                     attention_mask=np.ones_like(ids))
    t.run_refuses(t.shared / "gpt2.package", path, BAD_INPUT, "seq",
                  "65 <= 64 does not hold", ".py:")


@case
def token_outside_of_the_vocabulary(t):
    good = load_file(t.inputs("gpt2"))
    good["input_0"][1, 2] = 263
    path = t.tensors("x.safetensors", **good)
    t.run_refuses(t.shared / "gpt2.package", path, RUN_ERROR,
                  "aten.embedding", "wte", "out of range")


@case
def verify_with_another_model(t):
    package, x = t.shared / "gpt2.package", t.inputs("gpt2")
    verify = ["--inputs", x, "--verify"]
    done, shown = t.start("tp-run", [package, *verify, t.model("llama")])
    assert done.returncode == DIFFERS, f"{shown}: {done.stderr}"
    assert "shape" in done.stdout and "failed" in done.stdout, done.stdout
    for model, words in [
            (t.model("mlp"), ["the unsharded model fails", "made from"]),
            (t.text("notes.pt", "notes\n"), ["a text file"]),
            (t.path("gone.pt"), ["No such file"])]:
        t.refuses("tp-run", [package, *verify, model], BAD_INPUT, *words)
    other = load_file(t.inputs("gpt2", "outputs"))
    other["output_0"][0, 0, 0] += 1
    expect = t.tensors("expect.safetensors", **other)
    done, shown = t.start("tp-run", [package, "--inputs", x, "--expect",
                                     expect])
    assert done.returncode == DIFFERS, f"{shown}: {done.stderr}"
    assert "FAILED" in done.stdout, done.stdout
    t.refuses("tp-run", [package, "--inputs", x, "--expect", x], BAD_INPUT,
              "has no tensor output_0")


# Command lines.


@case
def usage_of_tp_compile(t):
    x = [t.model("mlp"), "--inputs", t.inputs("mlp")]
    o = ["-o", t.path("out")]
    for arguments, words in [
            ([*x, *o, "--tp", "0"], ["--tp 0", "1 or more"]),
            ([*x, *o, "--tp", "-2"], ["--tp -2", "1 or more"]),
            ([*x, *o, "--tp", "x"], ["--tp x", "1 or more"]),
            ([*x, *o, "--tp", "2.5"], ["--tp 2.5"]),
            ([*x, *o, "--tp", "99999999999999999999"], ["--tp"]),
            ([*x, *o, "--tp", "5000"], ["5000", "1024"]),
            ([*x, *o, "--mesh", "tp=0"], ["tp", "at least 1"]),
            ([*x, *o, "--mesh", "two"], ["two", "name=size"]),
            ([*x, *o, "--mesh", "tp=2", "--tp", "2"], ["--tp", "--mesh"]),
            ([*x, *o, "--fast"], ["unknown flag --fast"]),
            ([*x, *o, "--tp"], ["--tp needs a value"]),
            ([*x, *o, "-q=3"], ["-q takes no value"]),
            ([*x, *o, "--stop-after", "magic"], ["magic", "no such pass"]),
            ([*x, *o, t.model("gpt2")], ["exactly one MODEL.pt"]),
            (x, ["-o DIR"]),
            (o, ["MODEL.pt"]),
            ([], ["MODEL.pt"])]:
        t.refuses("tp-compile", arguments, USAGE, "Try tp-compile --help",
                  *words)


@case
def standard_output_that_is_full(t):
    for tool, arguments in [
            ("tp-compile", [t.model("mlp"), "--inputs", t.inputs("mlp"),
                            "--plan-only", "--json"]),
            ("tp-run", [t.shared / "mlp.package", "--inputs",
                        t.inputs("mlp")])]:
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(
                [str(zoo.BIN / tool), *map(str, arguments)], check=False,
                stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == RUN_ERROR, f"{tool}: {done.returncode}"
        assert "cannot write to standard output" in done.stderr, done.stderr


@case
def usage_of_tp_run(t):
    x = [t.shared / "gpt2.package", "--inputs", t.inputs("gpt2")]
    for arguments, words in [
            ([], ["package folder"]),
            ([*x, "another"], ["exactly one package folder"]),
            ([*x, "--fast"], ["unknown flag --fast"]),
            ([*x, "--bench", "x"], ["'x' is no value for --bench"]),
            ([*x, "--bench", "-1"], ["negative"]),
            ([*x, "--timeout", "0"], ["--timeout"]),
            ([*x, "--tolerance", "tight"], ["--tolerance"]),
            ([*x, "--nan-check", "maybe"], ["--nan-check"]),
            ([*x, "--verify-dtype", "f64"], ["--verify"]),
            ([*x, "--verify-dtype", "f8", "--verify", "m.pt"],
             ["f64 or model"])]:
        t.refuses("tp-run", arguments, USAGE, "Try tp-run --help", *words)
    # Right on other packages, wrong for this one.
    t.refuses("tp-run", [*x, "--devices", "cpu"], BAD_INPUT, "--devices",
              "2 ranks")
    t.refuses("tp-run", [*x, "--output-rank", "7"], BAD_INPUT,
              "output rank 7", "2 ranks")
    t.refuses("tp-run", [*x, "--comm", "pigeons"], UNSUPPORTED, "pigeons",
              "threads")
    t.refuses("tp-run", [*x, "--device", "abacus"], UNSUPPORTED, "abacus",
              "cpu")
    t.refuses("tp-run", [*x, "--arg", "speed=3"], BAD_INPUT, "speed")


@case
def usage_of_the_other_tools(t):
    t.refuses("tp-inspect", [], USAGE)
    t.refuses("tp-inspect", [t.shared / "gpt2.package", "--fast"], USAGE,
              "--fast")
    t.refuses("tp-inspect", [t.path("gone")], BAD_INPUT, "gone")
    t.refuses("tp-opt", [], USAGE, "FILE", "Try tp-opt --help")
    t.refuses("tp-opt", ["a.tpir", "b.tpir"], USAGE, "exactly one FILE")
    t.refuses("tp-opt", ["--rank=-1", "a.tpir"], USAGE, "--rank=-1")
    t.refuses("tp-opt", ["--passes=magic", t.shared / "gpt2.package" /
                         "rank0.tpir"], USAGE, "magic")
    t.refuses("tp-opt", [t.text("bad.tpir", "func @f(%x: f3[2])\n")],
              BAD_INPUT, "bad.tpir:1:", "^")


# Scalars.


@case
def scalars_that_are_compiled_in(t):
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    tensors = t.tensors("x.safetensors", x=x, input_2=x + 1)
    package, model = t.path("package"), t.model("scales")
    t.works("tp-compile", model, "--inputs", tensors, "--arg", "factor=3",
            "-o", package)
    arguments = json.loads((package / "manifest.json").read_text())[
        "arguments"]
    assert arguments == [{"name": "x"}, {"name": "factor", "value": "3"},
                         {"name": "y"}, {"name": "mode", "value": "add"}]
    run = [package, "--inputs", tensors, "--verify", model]
    for flags in [[], ["--arg", "factor=3"], ["--arg", "input_1=3.0"],
                  ["--arg", "factor=3", "--arg", "mode=add"]]:
        t.works("tp-run", *run, *flags)
    for wrong in ["factor=4", "input_1=4", "factor=three"]:
        t.refuses("tp-run", [*run, "--arg", wrong], BAD_INPUT, "'factor'",
                  "compiled for factor = 3",
                  f"--arg factor={wrong.split('=')[1]}")
    t.refuses("tp-run", [*run, "--arg", "mode=sub"], BAD_INPUT,
              "compiled for mode = add")
    t.refuses("tp-run", [*run, "--arg", "speed=3"], BAD_INPUT, "'speed'")
    # As a tensor of one element.
    for name in ["factor", "input_1"]:
        for value, good in [(3, True), (4, False)]:
            both = t.tensors("both.safetensors", x=x, y=x + 1,
                             **{name: np.array([value], np.int64)})
            run = [package, "--inputs", both, "--verify", model]
            if good:
                t.works("tp-run", *run)
                t.works("tp-compile", model, "--inputs", both, "-o",
                        t.path("same"))
                assert (package / "rank0.tpir").read_text() == (
                    t.path("same") / "rank0.tpir").read_text()
            else:
                t.refuses("tp-run", run, BAD_INPUT, "'factor' is 4",
                          "compiled for factor = 3")
    flat = t.tensors("flat.safetensors", x=x, y=x, factor=np.arange(3))
    t.refuses("tp-run", [package, "--inputs", flat], BAD_INPUT, "'factor'",
              "one element")


@case
def scalars_that_are_compiled_in_for_training(t):
    x = np.arange(8, dtype=np.float32).reshape(2, 4) / 8
    tensors = t.tensors("x.safetensors", x=x,
                        factor=np.array([3], np.int64))
    package, model = t.path("package"), t.model("scaled_loss")
    t.works("tp-compile", model, "--inputs", tensors, "--train", "-o", package)
    run = [package, "--inputs", tensors, "--verify", model, "--grads"]
    t.works("tp-run", *run)
    t.works("tp-run", *run, "--arg", "factor=3")
    t.refuses("tp-run", [*run, "--arg", "factor=4"], BAD_INPUT,
              "compiled for factor = 3")
    t.refuses("tp-run", [*run, "--arg", "x=4"], BAD_INPUT, "--inputs")


# What looks wrong and is right.


@case
def more_ranks_than_anything_splits_over(t):
    """Widths 48 and 16 over 64 ranks: most have little or nothing to do."""
    done = t.works("tp-compile", t.model("mlp"), "--inputs", t.inputs("mlp"),
                   "--tp", "64", "-o", t.path("package"))
    assert "note: " in done.stderr and "64 ranks" in done.stderr, (
        f"no note: {done.stderr!r}")
    t.works("tp-run", t.path("package"), "--inputs", t.inputs("mlp"),
            "--expect", t.inputs("mlp", "outputs"), "--check-replicas")


@case
def inputs_by_name_and_by_position(t):
    good = load_file(t.inputs("gpt2"))
    mixed = t.tensors("x.safetensors", input_ids=good["input_0"],
                      input_1=good["input_1"])
    t.works("tp-run", t.shared / "gpt2.package", "--inputs", mixed,
            "--expect", t.inputs("gpt2", "outputs"))


def prepare(folder, own):
    """Models, inputs and good packages that all cases share."""
    for name in ["mlp", "gpt2", "llama"]:
        for kind in ["pt", "inputs.safetensors", "alt.safetensors",
                     "outputs.safetensors"]:
            shutil.copy(own / f"{name}.{kind}", folder)
    make_models(folder)
    for name in ["mlp", "gpt2"]:
        zoo.compile_model(folder, name, 2, folder / f"{name}.package")


def main():
    words = [word for word in sys.argv[1:] if word != "-v"]
    chosen = [function for function in CASES
              if not words or any(word in function.__name__ for word in words)]
    failed = refusals = 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        shared = scratch / "shared"
        shared.mkdir()
        prepare(shared, zoo.folders()[0][1])
        before = snapshot(shared)
        for function in chosen:
            name = function.__name__.replace("_", " ")
            folder = scratch / "case"
            folder.mkdir()
            kit = Kit(folder, shared, "-v" in sys.argv)
            try:
                function(kit)
                print(f"ok    {name} ({kit.refusals} refused)", flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError,
                    StopIteration) as error:
                failed += 1
                print(f"FAIL  {name}: {error}", flush=True)
            refusals += kit.refusals
            shutil.rmtree(folder)
        if snapshot(shared) != before:
            failed += 1
            print("FAIL  a case changed the files that all share")
    print(f"{refusals} refusals as they should be")
    print(f"{len(chosen) - failed} of {len(chosen)} cases")
    sys.exit(1 if failed or not chosen else 0)


if __name__ == "__main__":
    main()
