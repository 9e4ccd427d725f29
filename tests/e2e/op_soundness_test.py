"""Splits every op of tests/splittable.txt in every way its rule allows.

For each factor of the rule the op is split over 2, 3 and 4 ranks, made local
by tp-opt, run in PyTorch on the parts of random operands, put together as the
rule says and compared with the whole op. Where the rule lets sums that are
due pass, the op runs on random terms instead. The types in the file are
compared with PyTorch's, too.
"""

import math
import os
import pathlib
import re
import subprocess
import sys

import torch

SOURCE = pathlib.Path(
    os.environ.get("TP_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
TP_OPT = pathlib.Path(os.environ.get("TP_BIN", SOURCE / "build/bin")) / "tp-opt"
DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16,
    "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
    "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8,
    "bool": torch.bool,
}
HALF = (torch.float16, torch.bfloat16)
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def split_top(text, separator=","):
    """Parts at separators outside of brackets and quotes."""
    parts, current, depth, quoted = [], "", 0, False
    for letter in text:
        quoted ^= letter == '"'
        if not quoted:
            depth += letter in "[({"
            depth -= letter in "])}"
        if letter == separator and depth == 0 and not quoted:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    if current.strip():
        parts.append(current.strip())
    return parts


def parse_attribute(text):
    if text.startswith("["):
        return [parse_attribute(part) for part in split_top(text[1:-1])]
    if text.startswith('"'):
        return text[1:-1]
    if text == "none":
        return None
    if text in ("true", "false"):
        return text == "true"
    if text in DTYPES:
        return DTYPES[text]
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def parse_attributes(text):
    pairs = (part.split(" = ", 1) for part in split_top(text or ""))
    return {name: parse_attribute(value) for name, value in pairs}


def parse_type(text):
    dtype, dims = re.fullmatch(r"(\w+)\[([\d,]*)\]", text).groups()
    return dtype, [int(dim) for dim in dims.split(",") if dim]


class Case:
    """A line of splittable.txt."""

    def __init__(self, line):
        head, self.factors = line.rsplit(" : ", 1)
        call, results = head.rsplit(" -> ", 1)
        match = re.match(r"(\S+?)\((.*?)\)(?: \{(.*)\})?$", call)
        self.line = line
        self.name, operands, self.attribute_text = match.groups()
        self.attributes = parse_attributes(self.attribute_text)
        self.results = split_top(results)
        self.operands = []  # types, None where absent
        self.slots = []  # indices of operands, lists of them, or None
        for part in split_top(operands):
            if part.startswith("["):
                self.slots.append(
                    [self._add(item) for item in split_top(part[1:-1])])
            else:
                self.slots.append(self._add(part))

    def _add(self, text):
        self.operands.append(None if text == "none" else text)
        return None if text == "none" else len(self.operands) - 1

    def function(self, name, operand_specs=None, result_specs=None):
        """The op as a function in the text format."""

        def spec(specs, index):
            return f" <{specs[index]}>" if specs else ""

        arguments = ", ".join(
            f'%a{i}: {text}{spec(operand_specs, i)} param "a{i}"'
            for i, text in enumerate(self.operands) if text)
        slots = []
        for slot in self.slots:
            items = slot if isinstance(slot, list) else [slot]
            names = ", ".join(
                "none" if i is None else f"%a{i}" for i in items)
            slots.append(f"[{names}]" if isinstance(slot, list) else names)
        types = [
            f"{text}{spec(result_specs, i)}"
            for i, text in enumerate(self.results)
        ]
        count = len(types)
        result = "%r" if count == 1 else f"%r:{count}"
        returned = ", ".join(
            "%r" if count == 1 else f"%r#{i}" for i in range(count))
        attributes = (f" {{{self.attribute_text}}}"
                      if self.attribute_text else "")
        return (f"func @{name}({arguments}) -> ({', '.join(self.results)}) {{\n"
                f"  {result} = {self.name}({', '.join(slots)}){attributes}"
                f" : {', '.join(types)}\n  return {returned}\n}}\n")

    def index_limit(self):
        first = parse_type(self.operands[0])[1] if self.operands else []
        if "embedding" in self.name:
            return first[0]
        if re.search("cross_entropy|nll_loss", self.name):
            return first[1]
        if "one_hot" in self.name:
            return self.attributes["num_classes"]
        if re.search(r"gather|index|scatter|take_along", self.name):
            dim = self.attributes.get("dim")
            return min(first) if dim is None else first[dim]
        return 0

    def random_operands(self, generator):
        operands = [
            text and random_tensor(*parse_type(text), generator,
                                   self.index_limit())
            for text in self.operands
        ]
        if "embedding_bag" in self.name:
            operands[2].zero_()  # bags begin at 0 and in order
        return operands


def random_tensor(dtype, dims, generator, limit):
    dtype = DTYPES[dtype]
    if dtype == torch.bool:
        return torch.randint(0, 2, dims, generator=generator).bool()
    if dtype.is_floating_point:
        values = torch.rand(dims, generator=generator, dtype=torch.float64)
        return (values + 0.25).to(dtype)
    low, high = (0, limit) if limit else (1, 6)
    return torch.randint(low, high, dims, generator=generator).to(dtype)


def overloads(name):
    parts = name.split(".")
    packet = getattr(torch.ops.aten, parts[1])
    names = parts[2:] or sorted(packet.overloads(),
                                key=lambda overload: overload != "default")
    return [getattr(packet, overload) for overload in names]


def call(name, slots, attributes):
    """Runs an op on tensors, absent ones (None) and lists of them."""
    if name == "tp.embedding_shard":
        weight, ids = slots
        local = ids - attributes["offset"]
        held = (local >= 0) & (local < weight.shape[0])
        rows = weight[local.clamp(0, weight.shape[0] - 1)]
        return [rows * held.unsqueeze(-1).to(weight.dtype)]
    if name == "tp.gather_shard":
        source, index = slots
        dim, own = attributes["dim"], index - attributes["offset"]
        held = (own >= 0) & (own < source.shape[dim])
        picked = source.gather(dim, own.clamp(0, source.shape[dim] - 1))
        return [torch.where(held, picked, 0)]
    error = None
    for op in overloads(name):
        arguments = op._schema.arguments
        tensors = [a.name for a in arguments if "Tensor" in str(a.type)]
        if len(slots) > len(tensors) or not set(attributes) <= {
                a.name for a in arguments}:
            continue
        try:
            result = op(**attributes, **dict(zip(tensors, slots)))
            return ([result]
                    if isinstance(result, torch.Tensor) else list(result))
        except (RuntimeError, TypeError) as caught:
            error = caught
    raise RuntimeError(f"{name}: {error}")


def run_case(case, operands):
    slots = [[None if i is None else operands[i] for i in slot] if isinstance(
        slot, list) else None if slot is None else operands[slot]
             for slot in case.slots]
    return call(case.name, slots, case.attributes)


def run_function(text, operands):
    """Runs a function of a rank program."""
    values = {f"%a{i}": value for i, value in enumerate(operands)}
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("return"):
            return [values[name] for name in split_top(line[len("return"):])]
        match = re.match(
            r"%(\w+)(?::(\d+))? = ([\w.]+)\((.*?)\)(?: \{(.*)\})? : ", line)
        if not match:
            continue
        result, count, name, arguments, attributes = match.groups()

        def value(item):
            return None if item == "none" else values[item]

        slots = [[value(item) for item in split_top(part[1:-1])]
                 if part.startswith("[") else value(part)
                 for part in split_top(arguments)]
        results = call(name, slots, parse_attributes(attributes))
        if count:
            values |= {f"%{result}#{i}": r for i, r in enumerate(results)}
        else:
            values[f"%{result}"] = results[0]
    raise RuntimeError("no return in " + text)


class Rule:
    """What tp-opt --show-rules prints."""

    def __init__(self, text, num_results):
        notation, rest = text.split(" {", 1)
        sizes, partial = rest.split("}", 1)
        self.sizes = {
            name: int(size)
            for name, size in (pair.split("=") for pair in split_top(sizes))
        }
        self.kinds = {}  # factor -> "", "^", "+", "+max", "+min"
        left, right = notation.split("->")
        self.operands = [self._tensor(part) for part in split_top(left)]
        self.results = [self._tensor(part.strip()) for part in right.split(",")]
        self.results += [[] for _ in range(num_results - len(self.results))]
        partial = partial.replace("partial", "").strip()
        self.partial = [[int(i) for i in term.split("&")]
                        for term in partial.split("|") if term]

    def _tensor(self, text):
        dims = []
        for dim in split_top(text, " "):
            factors = []
            for word in dim.strip("()").split():
                match = re.fullmatch(r"(\w+?)(\^|\+\w*)?", word)
                if word in ("1", "_"):
                    continue
                name, marker = match.groups()
                self.kinds[name] = marker or self.kinds.get(name, "")
                factors.append(name)
            dims.append(factors)
        return dims

    def box(self, dims, factor, within):
        """(dim, left, size, right) of a tensor that holds the factor."""
        for index, factors in enumerate(dims):
            if factor in factors:
                at = factors.index(factor)
                before = math.prod(self.sizes[f] for f in factors[:at])
                after = math.prod(self.sizes[f] for f in factors[at + 1:])
                return (index, before * within[0], within[1],
                        within[2] * after)
        return None


def spec_of(box):
    if box is None:
        return "R"
    dim, left, size, right = box
    if left == right == 1:
        return f"S({dim})"
    return (f"S({dim}:" + (f"{left}x" if left > 1 else "") + f"[{size}]" +
            (f"x{right}" if right > 1 else "") + ")")


def part(tensor, box, ranks, rank):
    if tensor is None or box is None:
        return tensor
    dim, left, size, right = box
    base, more = divmod(size, ranks)
    begin = rank * base + min(rank, more)
    extent = base + (rank < more)
    view = tensor.unflatten(dim, (left, size, right))
    return view.narrow(dim + 1, begin, extent).flatten(dim, dim +
                                                       2).contiguous()


def whole(parts, box, kind):
    if kind.startswith("+"):
        if kind == "+max":
            return torch.stack(parts).amax(0)
        if kind == "+min":
            return torch.stack(parts).amin(0)
        return torch.stack(parts).sum(0).to(parts[0].dtype)
    if box is None:
        for other in parts[1:]:
            if not equal(other, parts[0]):
                raise RuntimeError("ranks differ in a replicated result")
        return parts[0]
    dim, left, _, right = box
    views = [p.unflatten(dim, (left, -1, right)) if p.numel() else
             p.new_empty(p.shape[:dim] + (left, 0, right) + p.shape[dim + 1:])
             for p in parts]
    return torch.cat(views, dim + 1).flatten(dim, dim + 2)


def equal(a, b, coarse=False):
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.dtype.is_floating_point:
        return torch.equal(a, b)
    coarse |= a.dtype in HALF
    tolerance = 1e-2 if coarse else 1e-5
    return torch.allclose(a.double(), b.double(), rtol=tolerance,
                          atol=tolerance, equal_nan=True)


def tp_opt(text, *flags):
    done = subprocess.run([TP_OPT, *flags, "-"], input=text, text=True,
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"tp-opt {' '.join(flags)}: {done.stderr}")
    return done.stdout


def functions(text):
    """Text of each function by name."""
    return {
        chunk.split("(", 1)[0]: chunk
        for chunk in re.split(r"^func @", text, flags=re.M)[1:]
    }


def boxes_within(case, factor, size):
    yield 1, size, 1
    if size % 2 == 0 and size > 2:
        yield 1, size // 2, 2
        # Rows of an embedding table are one range per rank.
        if not (factor == "v" and "embedding" in case.name):
            yield 2, size // 2, 1


def splits_of(case, rule):
    for factor, size in rule.sizes.items():
        if rule.kinds[factor] == "^":
            continue
        for within in boxes_within(case, factor, size):
            yield factor, within


def check_split(case, rule, factor, within, ranks, texts, generator):
    operands = case.random_operands(generator)
    expected = run_case(case, operands)
    kind = rule.kinds[factor]
    operand_boxes = [rule.box(dims, factor, within) for dims in rule.operands]
    result_boxes = [rule.box(dims, factor, within) for dims in rule.results]
    results = []
    for rank in range(ranks):
        local = [part(value, box, ranks, rank)
                 for value, box in zip(operands, operand_boxes)]
        results.append(run_function(texts[rank], local))
    for i, want in enumerate(expected):
        got = whole([r[i] for r in results], result_boxes[i], kind)
        if not equal(got, want):
            raise RuntimeError(f"result {i} is wrong")


def check_partial(case, terms_of, generator, ranks=3):
    operands = case.random_operands(generator)
    terms = [list(operands) for _ in range(ranks)]
    for i in terms_of:
        if operands[i].dtype == torch.bool:
            return False
        total = torch.zeros_like(operands[i])
        for rank in range(ranks - 1):
            values = random_tensor(NAMES[total.dtype], list(total.shape),
                                   generator, 0)
            terms[rank][i] = values
            total = total + values
        terms[-1][i] = operands[i] - total
    expected = run_case(case, operands)
    results = [run_case(case, t) for t in terms]
    for i, want in enumerate(expected):
        coarse = any(o is not None and o.dtype in HALF for o in operands)
        if not equal(whole([r[i] for r in results], None, "+"), want, coarse):
            raise RuntimeError("terms do not add up to the result")
    return True


def main():
    if not TP_OPT.exists():
        print(f"skipped: no {TP_OPT}")
        return 77
    lines = (SOURCE / "tests/splittable.txt").read_text().splitlines()
    cases = [Case(line) for line in lines
             if line and not line.startswith("#")]
    generator = torch.Generator().manual_seed(1)
    failures = []
    rules = []
    shown = functions_of_rules(
        tp_opt("tpir 1\n" + "".join(
            case.function(f"c{i}") for i, case in enumerate(cases)),
               "--show-rules"))
    for i, case in enumerate(cases):
        rules.append(Rule(shown[f"c{i}"], len(case.results)))
        results = run_case(case, case.random_operands(generator))
        types = [f"{NAMES[r.dtype]}[{','.join(map(str, r.shape))}]"
                 for r in results]
        if types != case.results:
            failures.append(f"{case.line}\n    PyTorch gives {types}")

    count = 0
    for ranks in (2, 3, 4):
        text = f"tpir 1\nmesh @m = [tp: {ranks}]\n"
        todo = []
        for i, (case, rule) in enumerate(zip(cases, rules)):
            for n, (factor, within) in enumerate(splits_of(case, rule)):
                name = f"c{i}_{n}"
                todo.append((name, case, rule, factor, within))
                reduce = {"+": "sum", "+max": "max", "+min": "min"}.get(
                    rule.kinds[factor])
                text += case.function(
                    name,
                    [spec_of(rule.box(d, factor, within))
                     for d in rule.operands],
                    [f"P({reduce})" if reduce else
                     spec_of(rule.box(d, factor, within))
                     for d in rule.results])
        programs = [functions(tp_opt(text, f"--rank={rank}"))
                    for rank in range(ranks)]
        for name, case, rule, factor, within in todo:
            try:
                count += 1
                check_split(case, rule, factor, within, ranks,
                            [program[name] for program in programs], generator)
            except RuntimeError as error:
                failures.append(f"{case.line}\n    {factor} split as {within} "
                                f"over {ranks} ranks: {error}")
    partial = 0
    for case, rule in zip(cases, rules):
        for terms_of in rule.partial:
            try:
                partial += check_partial(case, terms_of, generator)
            except RuntimeError as error:
                failures.append(f"{case.line}\n    terms of operands "
                                f"{terms_of}: {error}")
    for failure in failures:
        print("FAILED", failure)
    print(f"{len(cases)} ops, {count} splits, {partial} partial sums, "
          f"{len(failures)} failures")
    return 1 if failures or count < 500 or partial < 50 else 0


def functions_of_rules(text):
    """The rule of the one op of each function."""
    rules = {}
    for chunk in re.split(r"^@", text, flags=re.M)[1:]:
        name, _, rule = chunk.split("\n")[:3]
        rules[name] = rule.strip()
    return rules


if __name__ == "__main__":
    sys.exit(main())
