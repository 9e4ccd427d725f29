"""A random model as a list of statements, and the Python source of it.

While a model grows, every statement runs at two sizes of the inputs, so that
the generator knows which dims are fixed (they are equal in both) and drops
statements that fail.
"""

import dataclasses
import importlib.util
import itertools
import math

import torch
from torch import nn
from torch.nn import functional as F

# (batch, length) of the two example inputs, and one never shown.
SHOWN, OTHER = [(3, 7), (2, 5)], (4, 9)
WIDTH, VOCAB = 20, 37
LARGEST = 1e4  # values beyond say nothing about the splitting

_counter = itertools.count()


@dataclasses.dataclass
class Statement:
    code: str  # may be several lines
    defines: list
    uses: list
    # Attributes of self it needs: name -> source of the value.
    members: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Case:
    """A whole model: what is printed, reduced and checked."""
    inputs: list  # (name, kind), kind a key of INPUT_KINDS
    statements: list
    outputs: list  # names of variables
    returns: str = "tuple"  # tuple, list, dict or single
    script: bool = False
    train: bool = False
    smooth: bool = True  # no op jumps: f32 may be compared, too

    def members(self):
        members = {}
        for statement in self.statements:
            members.update(statement.members)
        return members

    def source(self):
        lines = ["import torch", "from torch import nn",
                 "from torch.nn import functional as F", "", "",
                 "class Model(nn.Module):", "    def __init__(self):",
                 "        super().__init__()"]
        lines += [f"        self.{name} = {value}"
                  for name, value in self.members().items()]
        arguments = ", ".join(f"{name}: torch.Tensor" for name, _ in self.inputs)
        lines += ["", f"    def forward(self, {arguments}):"]
        for statement in self.statements:
            lines += ["        " + line for line in statement.code.split("\n")]
        joined = ", ".join(self.outputs)
        result = {"single": self.outputs[0], "list": f"[{joined}]",
                  "tuple": f"({joined},)",
                  "dict": "{" + ", ".join(f'"{name}": {name}'
                                          for name in self.outputs) + "}"}
        if self.train:
            loss = " + ".join(f"({name} * {name}).mean()"
                              for name in self.outputs)
            lines.append(f"        return {loss}")
        else:
            lines.append(f"        return {result[self.returns]}")
        return "\n".join(lines) + "\n"


INPUT_KINDS = {
    "rows": lambda b, l: torch.randn(b, WIDTH),
    "hidden": lambda b, l: torch.randn(b, l, WIDTH),
    "image": lambda b, l: torch.randn(b, 6, 8, l),
    "ids": lambda b, l: torch.randint(0, VOCAB, (b, l)),
    "mask": lambda b, l: torch.rand(b, l) > 0.4,
}


def make_inputs(case, size):
    torch.manual_seed(size[0] * 100 + size[1])
    return {name: INPUT_KINDS[kind](*size) for name, kind in case.inputs}


class Members:
    """What statements see as self while the model grows."""


@dataclasses.dataclass
class Var:
    name: str
    tensors: tuple  # at each of SHOWN

    @property
    def dims(self):
        """Sizes; None where they differ between the inputs."""
        first, second = self.tensors
        return [m if m == n else None
                for m, n in zip(first.shape, second.shape)]

    @property
    def ndim(self):
        return self.tensors[0].dim()

    @property
    def dtype(self):
        return self.tensors[0].dtype

    @property
    def is_float(self):
        return self.dtype.is_floating_point


class State:
    """A model under construction."""

    def __init__(self, rng, script, train):
        self.rng, self.script, self.train = rng, script, train
        self.vars, self.statements, self.smooth = [], [], True
        self.members = [Members(), Members()]
        self.sources = {}  # of members
        self.envs = [{"torch": torch, "F": F, "nn": nn, "self": members}
                     for members in self.members]
        self.protected = set()  # storages of inputs and members
        kinds = [rng.choice(["hidden", "hidden", "rows", "ids", "image"])]
        kinds += [rng.choice(list(INPUT_KINDS))
                  for _ in range(rng.choice([0, 0, 1, 1, 2]))]
        self.inputs = [(f"x{i}", kind) for i, kind in enumerate(kinds)]
        for name, kind in self.inputs:
            tensors = []
            for env, size in zip(self.envs, SHOWN):
                env[name] = INPUT_KINDS[kind](*size)
                self._protect(env[name])
                tensors.append(env[name])
            self.vars.append(Var(name, tuple(tensors)))
        self._names = itertools.count()

    def _protect(self, tensor):
        self.protected.add(tensor.untyped_storage().data_ptr())

    def may_write(self, var):
        return all(t.untyped_storage().data_ptr() not in self.protected and
                   t.is_floating_point() and 0 not in t.stride()
                   for t in var.tensors)

    def name(self):
        return f"v{next(self._names)}"

    def member(self, source):
        """The name of a new attribute of self with that value."""
        name = f"p{len(self.sources)}"
        with torch.no_grad():
            value = eval(source, self.envs[0])  # pylint: disable=eval-used
        self.sources[name] = source
        for members in self.members:
            setattr(members, name, value)
        if isinstance(value, torch.Tensor):
            self._protect(value.data)
        return name

    def parameter(self, *sizes, scale=None):
        fan = max(sizes[-1] if len(sizes) > 1 else 4, 1)
        scale = scale or round(1 / math.sqrt(fan), 3)
        dims = ", ".join(str(size) for size in sizes)
        return "self." + self.member(
            f"nn.Parameter(torch.randn({dims}) * {scale})")

    def parameters(self):
        """Names and tensors of the parameters so far, for tying."""
        return [(f"self.{name}", getattr(self.members[0], name))
                for name in self.sources
                if isinstance(getattr(self.members[0], name), nn.Parameter)]

    def pick(self, want=lambda var: True, floats=True):
        """A variable, a recent one rather than an old one."""
        found = [var for var in self.vars
                 if (not floats or var.is_float) and want(var)]
        if not found:
            return None
        if self.rng.random() < 0.6:
            return found[-1 - min(int(self.rng.expovariate(0.8)),
                                  len(found) - 1)]
        return self.rng.choice(found)

    def add(self, code, uses, count=1, names=None):
        """Runs the statement, "{}" being its results, and keeps it if it can.

        Returns its variables, or None.
        """
        names = names or [self.name() for _ in range(count)]
        code = code.replace("{}", ", ".join(names))
        made = [[], []]
        for env, results in zip(self.envs, made):
            try:
                with torch.no_grad():
                    exec(code, env)  # pylint: disable=exec-used
            except Exception:  # pylint: disable=broad-except
                return None
            for name in names:
                value = env[name]
                if not isinstance(value, torch.Tensor) or value.numel() > 20000:
                    return None
                if value.is_complex() or value.is_sparse:
                    return None
                if value.numel() and value.is_floating_point() and not (
                        value.abs().max() < LARGEST):
                    return None
                results.append(value)
        variables = [Var(name, pair) for name, pair in zip(names, zip(*made))]
        members = {name: source for name, source in self.sources.items()
                   if f"self.{name}" in code}
        self.statements.append(Statement(
            code, names, [var.name for var in uses], members))
        known = {var.name for var in variables}
        self.vars = [var for var in self.vars if var.name not in known]
        self.vars += variables
        return variables

    def write(self, code, var, uses=()):
        """A statement that changes `var` in place; "{}" is its name."""
        if not self.may_write(var):
            return None
        return self.add(code.replace("{}", var.name), [var, *uses],
                        names=[var.name])


def load(source, folder):
    """The class Model of a source; scripting wants to find it in a file."""
    number = next(_counter)
    path = folder / f"model_{number}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(f"model_{number}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Model
