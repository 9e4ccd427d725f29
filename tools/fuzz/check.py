"""Compiles and runs a case, and says what became of it."""

import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import warnings

import torch
from safetensors.torch import save_file

from fuzz import model as models
from fuzz.generate import is_useful, run_eager

BIN = pathlib.Path(os.environ.get(
    "TP_BIN", pathlib.Path(__file__).parents[2] / "build" / "bin"))
TIMEOUT = 60  # seconds for one tool


@dataclasses.dataclass
class Outcome:
    """kind: pass, useless, refused (exit 4), guarded, unsteady, or fail."""
    kind: str
    detail: str = ""

    def label(self):
        """The message without what is particular to one model."""
        text = re.sub(r"(model_\d+\.py:\d+(:\d+)?( in \S+)?:? ?)", "",
                      self.detail)
        text = re.sub(r"\S*/\S+", "PATH", text)
        return re.sub(r"\d+(\.\d+)?(e[-+]?\d+)?", "N", text)[:150]


def _run(command):
    command = [str(part) for part in command]
    try:
        done = subprocess.run(command, check=False, capture_output=True,
                              text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return -1, "timed out: " + " ".join(command)
    text = (done.stdout + done.stderr).strip()
    return done.returncode, text


def _save_inputs(case, folder, size):
    path = folder / f"{size[0]}x{size[1]}.safetensors"
    save_file({name: tensor.contiguous() for name, tensor
               in models.make_inputs(case, size).items()}, path)
    return path


def _compile_failed(code, text):
    if code == 4:
        return Outcome("refused", text)
    if code == 3 and "does not fit" in text:
        return Outcome("guarded", text)
    return Outcome("fail", f"tp-compile exits with {code}: {text}")


def _random_rules(weights, rng):
    """Rules that are possible but that nobody would want."""
    lines = ["rules:"]
    for weight in weights:
        if not weight["shape"] or rng.random() < 0.3:
            continue
        dim = rng.randrange(len(weight["shape"]))
        size = weight["shape"][dim]
        chunks = [n for n in range(1, size + 1) if size % n == 0]
        state = rng.choice(["replicate", f"split {dim}", f"split {dim}",
                            f"split {dim} chunk={rng.choice(chunks)}"])
        lines += [f"  - name: {weight['name']}", f"    state: {state}"]
    return "\n".join(lines) + "\n" if len(lines) > 1 else "rules: []\n"


def _last_lines(text):
    lines = [line for line in text.splitlines()
             if line.startswith(("tp-", "output_")) or "FAILED" in line]
    return "; ".join(lines[:4]) or text[-300:]


class Checker:
    def __init__(self, scratch):
        self.scratch = pathlib.Path(scratch)

    def check(self, case, ranks, seed):
        """What becomes of the case over that many ranks."""
        folder = self.scratch / f"case_{seed}_{ranks}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            return self._check(case, ranks, seed, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def export(self, case, seed, folder):
        """The module, saved as model.pt, or None where that fails."""
        torch.manual_seed(seed % 2**31)
        try:
            module = models.load(case.source(), folder)().eval()
        except Exception:  # pylint: disable=broad-except
            return None
        if not is_useful(module, case):
            return None
        module.zero_grad(set_to_none=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                if case.script:
                    exported = torch.jit.script(module)
                else:
                    exported = torch.jit.trace(
                        module, tuple(models.make_inputs(
                            case, models.SHOWN[0]).values()),
                        check_trace=False, strict=False)
                    # What tracing fixes is not ours to get right.
                    with torch.no_grad():
                        for size in models.SHOWN:
                            exported(*models.make_inputs(case, size).values())
            except Exception:  # pylint: disable=broad-except
                return None
        exported.save(str(folder / "model.pt"))
        return module

    def _check(self, case, ranks, seed, folder):
        module = self.export(case, seed, folder)
        if module is None:
            return Outcome("useless")
        rng = random.Random(seed)
        files = [_save_inputs(case, folder, size) for size in models.SHOWN]
        other = _save_inputs(case, folder, models.OTHER)
        package = folder / "package"
        command = [BIN / "tp-compile", folder / "model.pt", "-q", "--tp", ranks,
                   "-o", package, "--json"]
        for path in files:
            command += ["--inputs", path]
        if case.train:
            command += ["--train", "--zero3", ["auto", "off", "on"][seed % 3]]
        code, text = _run(command)
        if code != 0:
            return _compile_failed(code, text)
        for path in files + [other]:
            outcome = self._run_package(case, module, folder, package, path,
                                        path is other)
            if outcome is not None:
                return outcome
        if rng.random() < 0.5 or ranks == 1:
            return Outcome("pass")
        rules = _random_rules(json.loads(text)["weights"], rng)
        config = folder / "rules.yaml"
        config.write_text(rules)
        code, text = _run([*command, "--config", config])
        if code != 0:
            outcome = _compile_failed(code, text)
        else:
            outcome = self._run_package(case, module, folder, package, files[0],
                                        False)
        if outcome is not None:
            outcome.detail += "\n" + rules
            return outcome
        return Outcome("pass")

    def _run_package(self, case, module, folder, package, path, is_other):
        """None if the package gives what the model gives."""
        dtypes = ["f64", "model"] if case.smooth and not is_other else ["f64"]
        for dtype in dtypes:
            command = [BIN / "tp-run", package, "-q", "--inputs", path,
                       "--verify", folder / "model.pt", "--verify-dtype",
                       dtype]
            if dtype == "model":
                # A model in f32 may give f64.
                command += ["--tolerance", "1e-3"]
            if case.train:
                command.append("--grads")
            else:
                command.append("--check-replicas")
            code, text = _run(command)
            if code == 0:
                continue
            if code == 3 and is_other:
                return Outcome("guarded", text)
            if code == 4:
                return Outcome("refused", text)
            if code == 5 and _is_unsteady(module, case):
                return Outcome("unsteady", text)
            return Outcome("fail", f"tp-run exits with {code} ({path.stem}, "
                           f"{dtype}): {_last_lines(text)}")
        return None


def _is_unsteady(module, case):
    """Whether rounding alone changes what the model gives.

    In f64, with weights and inputs changed in the last bits, the outputs of a
    model that can be compared stay the same to a few digits less.
    """
    try:
        module = module.double()
        size = models.SHOWN[0]
        inputs = models.make_inputs(case, size)
        kinds = dict(models.INPUT_KINDS)
        del kinds
        def run(noise):
            given = [x.double() * (1 + noise * torch.randn_like(x.double()))
                     if x.is_floating_point() else x for x in inputs.values()]
            saved = [p.detach().clone() for p in module.parameters()]
            with torch.no_grad():
                for p in module.parameters():
                    p.mul_(1 + noise * torch.randn_like(p))
            try:
                if case.train:
                    module.zero_grad(set_to_none=True)
                    module(*given).backward()
                    return [p.grad for p in module.parameters()
                            if p.grad is not None]
                with torch.no_grad():
                    result = module(*given)
                if isinstance(result, dict):
                    result = list(result.values())
                return ([result] if isinstance(result, torch.Tensor)
                        else list(result))
            finally:
                with torch.no_grad():
                    for p, old in zip(module.parameters(), saved):
                        p.copy_(old)
        exact = run(0.0)
        for _ in range(3):
            for a, b in zip(exact, run(1e-14)):
                scale = b.double().abs().max().item() if b.numel() else 0
                change = ((a.double() - b.double()).abs().max().item()
                          if b.numel() else 0)
                if change > 1e-11 * max(scale, 1e-300):
                    return True
    except Exception:  # pylint: disable=broad-except
        return False
    finally:
        module.float()
    return False


__all__ = ["Checker", "Outcome", "run_eager"]
