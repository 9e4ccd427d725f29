#!/usr/bin/env python3
"""Turns a PyTorch model into the files tp-compile takes.

    tp_export.py --zoo gpt2 --out DIR              one of the project's test models
    tp_export.py --hf FOLDER_OR_CONFIG --out DIR   a HuggingFace model or config.json
    tp_export.py --hf llama --set num_hidden_layers=2 --out DIR
    tp_export.py my_module:my_function --out DIR   any nn.Module
    tp_export.py --hf llama --generate --out DIR   a model that generates text

Writes NAME.pt (TorchScript) and NAME.inputs.safetensors; with --outputs also
NAME.outputs.safetensors, what the eager model returns; with --alt 2x24 also
NAME.alt.safetensors, inputs and outputs for another batch and length. --zoo
writes all four.

--generate writes the parts that tp-run generate calls, NAME.prefill.pt (or
NAME.encode.pt) and NAME.step.pt with inputs at two sizes, and
NAME.generate.json for tp-compile --generate.

my_function returns (module, inputs): a tuple of forward's arguments, or a
function (batch, length) -> such a tuple, which makes --alt possible.
"""
import argparse
import ast
import hashlib
import importlib
import importlib.metadata
import math
import sys
import warnings
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent))

import generate  # noqa: E402
import huggingface  # noqa: E402
import models  # noqa: E402
from export_job import Job  # noqa: E402

DTYPES = {"fp32": torch.float32, "fp64": torch.float64,
          "bf16": torch.bfloat16, "fp16": torch.float16}
# Of the largest output. TorchScript may split an op (addmm into mm and add)
# and so round once more than eager does.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10,
             torch.bfloat16: 3e-2, torch.float16: 4e-3}


def randomize(module, seed):
    """Random weights that show mistakes.

    Libraries start biases at zero and norm scales at one, which would hide a
    bias added once per rank or a norm scale taken from the wrong shard.
    """
    gen = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, p in module.named_parameters():
            if p.dim() > 1:
                scale = 1 / math.sqrt(p[0].numel())
                p.copy_(scale * torch.randn(p.shape, generator=gen))
            else:
                start = (p != 0).to(p.dtype)
                p.copy_(start + 0.1 * torch.randn(p.shape, generator=gen))
        for name, b in module.named_buffers():
            if name.endswith("running_mean"):
                b.copy_(0.1 * torch.randn(b.shape, generator=gen))
            elif name.endswith("running_var"):
                b.copy_(0.5 + torch.rand(b.shape, generator=gen))


def flatten(value):
    """Tensors of a nested value, depth first; numbers become one element."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (bool, int, float)):
        return [torch.tensor([value])]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in flatten(item)]
    return []


def copy_of(value, dtype):
    """A deep copy with floating-point tensors cast to dtype."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype, copy=True) if value.is_floating_point() \
            else value.clone()
    if isinstance(value, (list, tuple)):
        return type(value)(copy_of(item, dtype) for item in value)
    if isinstance(value, dict):
        return {key: copy_of(item, dtype) for key, item in value.items()}
    return value


def buffers_of(module):
    return {name: b.clone() for name, b in module.named_buffers()}


def restore(module, buffers):
    for name, b in module.named_buffers():
        b.copy_(buffers[name])


def run_eager(module, args, dtype):
    """forward's result, with the module's buffers left as they were."""
    buffers = buffers_of(module)
    result = module(*copy_of(args, dtype))
    restore(module, buffers)
    return result


def to_torchscript(job, args, dtype):
    if job.script:
        return torch.jit.script(job.module)
    buffers = buffers_of(job.module)
    traced = torch.jit.trace(job.module, copy_of(args, dtype),
                             check_trace=True, strict=False)
    restore(job.module, buffers)
    return traced


def check_equal(what, got, want, dtype):
    """Raises ValueError unless got is want up to rounding."""
    got, want = flatten(got), flatten(want)
    if [t.shape for t in got] != [t.shape for t in want]:
        raise ValueError(f"{what}: the TorchScript file returns other shapes "
                         "than the model")
    for index, (g, w) in enumerate(zip(got, want)):
        g, w = g.double(), w.double()
        scale = max(1.0, float(w.abs().max())) if w.numel() else 1.0
        difference = float((g - w).abs().max()) if w.numel() else 0.0
        if not difference <= TOLERANCE[dtype] * scale:
            raise ValueError(f"{what}: output {index} of the TorchScript file "
                             f"differs from the model by {difference:.3g}")


def argument_names(module, count):
    """Names of forward's first `count` arguments, or None if they do not map
    one to one onto the flattened inputs."""
    names = [a.name for a in module.forward.schema.arguments[1:]] \
        if hasattr(module.forward, "schema") else []
    return names if len(names) == count else None


def save_tensors(path, names, tensors, **more):
    entries = dict(zip(names, tensors, strict=True))
    for prefix, values in more.items():
        entries.update({f"{prefix}_{i}": t for i, t in enumerate(values)})
    # safetensors refuses tensors that share memory.
    save_file({k: t.detach().clone().contiguous() for k, t in entries.items()},
              str(path))


def export(job, name, out, dtype, sizes, alt=None, outputs=False, seed=1234,
           named=False):
    """Writes the files of one model to the folder `out`; returns their paths.

    sizes and alt: (batch, length) of the example and of the second example.
    """
    if not job.trained:
        randomize(job.module, seed)
    module = job.module.to(dtype).train(job.training)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed + 1)
    args = job.fixed_inputs or job.make_inputs(*sizes)
    want = run_eager(module, args, dtype)
    script = to_torchscript(job, args, dtype)
    paths = [out / f"{name}.pt"]
    torch.jit.save(script, str(paths[0]))
    loaded = torch.jit.load(str(paths[0]))
    check_equal(name, loaded(*copy_of(args, dtype)), want, dtype)

    inputs = flatten(copy_of(args, dtype))
    names = (named and argument_names(loaded, len(inputs))) or [
        f"input_{i}" for i in range(len(inputs))]
    paths.append(out / f"{name}.inputs.safetensors")
    save_tensors(paths[-1], names, inputs)
    if outputs:
        paths.append(out / f"{name}.outputs.safetensors")
        save_tensors(paths[-1], (), (), output=flatten(want))
    if alt:
        torch.manual_seed(seed + 2)
        alt_args = job.alt_inputs or job.make_inputs(*alt)
        alt_want = run_eager(module, alt_args, dtype)
        check_equal(f"{name} at other sizes",
                    loaded(*copy_of(alt_args, dtype)), alt_want, dtype)
        paths.append(out / f"{name}.alt.safetensors")
        save_tensors(paths[-1], names, flatten(copy_of(alt_args, dtype)),
                     output=flatten(alt_want))
    return paths


def from_function(target):
    """The Job of MODULE:FUNCTION, where MODULE may be a .py file."""
    module_name, separator, function = target.rpartition(":")
    if not separator:
        raise ValueError(f"{target}: expected MODULE:FUNCTION")
    path = Path(module_name)
    if path.suffix == ".py":
        sys.path.insert(0, str(path.resolve().parent))
        module_name = path.stem
    else:
        sys.path.insert(0, "")
    result = getattr(importlib.import_module(module_name), function)()
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(
            result[0], nn.Module):
        raise ValueError(f"{target} must return (nn.Module, inputs)")
    module, inputs = result
    if callable(inputs):
        return Job(module=module, make_inputs=inputs, trained=True)
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    return Job(module=module, fixed_inputs=tuple(inputs), trained=True)


def parse_sizes(text):
    try:
        batch, length = (int(part) for part in text.split("x"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text}: expected BATCHxLENGTH, such as 2x24") from error
    return batch, length


def parse_setting(text):
    key, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text}: expected FIELD=VALUE")
    try:
        return key, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return key, value


def parse_arguments(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("function", nargs="?", metavar="MODULE:FUNCTION")
    parser.add_argument("--zoo", metavar="NAME", action="append", default=[],
                        help="test model; may repeat; 'all' for every one")
    parser.add_argument("--hf", metavar="FOLDER|CONFIG|TYPE")
    parser.add_argument("--set", type=parse_setting, action="append",
                        default=[], metavar="FIELD=VALUE",
                        help="override a field of the HuggingFace config")
    parser.add_argument("--attn", choices=("sdpa", "eager"), default="sdpa")
    parser.add_argument("--sentence", action="store_true",
                        help="pool an encoder into one vector per row")
    parser.add_argument("--loss", action="store_true",
                        help="take labels, return a language model's loss")
    parser.add_argument("--generate", action="store_true",
                        help="with --hf: prefill or encode, and step")
    parser.add_argument("--cache-form", choices=generate.FORMS,
                        help="with --generate, how caches are kept "
                        "(default tuple)")
    parser.add_argument("--experts", metavar="KIND",
                        help="with --generate, how mixtures of experts are "
                        "computed: batched_mm (default) or grouped_mm")
    parser.add_argument("--max-length", type=int, metavar="N",
                        help="positions that static caches have room for")
    parser.add_argument("--out", type=Path, default=Path("."), metavar="DIR")
    parser.add_argument("--name", help="file name; default: from the source")
    parser.add_argument("--dtype", choices=DTYPES,
                        help="default: fp32, trained weights as they are")
    parser.add_argument("--sizes", type=parse_sizes, metavar="BATCHxLENGTH",
                        default=(models.BATCH, models.LENGTH))
    parser.add_argument("--alt", type=parse_sizes, metavar="BATCHxLENGTH")
    parser.add_argument("--outputs", action="store_true")
    parser.add_argument("--named", action="store_true",
                        help="name inputs after forward's arguments")
    parser.add_argument("--script", action="store_true",
                        help="torch.jit.script instead of trace")
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--cached", action="store_true",
                        help="with --zoo: keep files this exporter wrote")
    parser.add_argument("--list", action="store_true",
                        help="list the test models")
    options = parser.parse_args(argv)
    given = sum(map(bool, (options.function, options.zoo, options.hf)))
    if given != 1 and not options.list:
        parser.error("name one of MODULE:FUNCTION, --zoo or --hf")
    if options.generate and (not options.hf or options.loss
                             or options.sentence):
        parser.error("--generate goes with --hf, without --loss or --sentence")
    if (options.cache_form or options.max_length or options.experts) and not options.generate:
        parser.error("--cache-form, --max-length and --experts go with "
                     "--generate")
    return options


def zoo_key(options):
    """Changes with everything that decides what --zoo writes."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).resolve().parent.glob("*.py")):
        digest.update(path.read_bytes())
    for package in ("torch", "transformers"):
        digest.update(importlib.metadata.version(package).encode())
    choices = (options.dtype, options.sizes, options.alt, options.seed)
    digest.update(repr(choices).encode())
    return digest.hexdigest()


def jobs_of(options):
    """Yields (Job, file name) for everything the command line asks for."""
    if options.zoo:
        wanted = models.names() if options.zoo == ["all"] else options.zoo
        unknown = sorted(set(wanted) - set(models.names()))
        if unknown:
            raise ValueError(f"no test model named {', '.join(unknown)}; "
                             f"there are {', '.join(models.names())}")
        key = zoo_key(options)
        for name in wanted:
            stamp = options.out / f".{name}.key"
            if options.cached and stamp.exists() and stamp.read_text() == key:
                continue
            torch.manual_seed(options.seed)
            yield models.build(name), name
            stamp.write_text(key)
    elif options.hf:
        torch.manual_seed(options.seed)
        job = huggingface.build(options.hf, dict(options.set), options.attn,
                                options.sentence, options.loss)
        yield job, hf_name(options)
    else:
        torch.manual_seed(options.seed)
        name = options.function.rpartition(":")[2]
        yield from_function(options.function), options.name or name


def hf_name(options):
    path = Path(options.hf)
    name = path.parent.name if path.suffix == ".json" else path.name
    return options.name or name or "model"


def dtype_of(job, options):
    if job.trained and not options.dtype:
        return next((p.dtype for p in job.module.parameters()), torch.float32)
    return DTYPES[options.dtype or "fp32"]


def run_generate(options):
    torch.manual_seed(options.seed)
    name = hf_name(options)
    jobs, info = generate.build(options.hf, dict(options.set), options.attn,
                                options.cache_form or "tuple",
                                options.max_length,
                                options.experts or "batched_mm")
    files = []
    for entry, job in jobs:
        # Inputs of @step are what @prefill returns: weights come first, once.
        if not job.trained and not files:
            randomize(job.module, options.seed)
        dtype = dtype_of(job, options)
        job.module.to(dtype)
        job.trained = True
        with torch.no_grad():
            paths = export(job, f"{name}.{entry}", options.out, dtype,
                           options.sizes,
                           options.alt or (models.ALT_BATCH,
                                           models.ALT_LENGTH),
                           seed=options.seed, named=True)
        files.append((entry, paths))
    path = generate.write(info, name, files, options.out)
    print(f"{name}: {path}", flush=True)


def run(options):
    if options.list:
        print("\n".join(models.names()))
        return
    if options.zoo:
        options.outputs = True
        options.alt = options.alt or (models.ALT_BATCH, models.ALT_LENGTH)
    # The fused encoder layer of nn.TransformerEncoderLayer is one opaque op;
    # the plain form is many that can be split.
    torch.backends.mha.set_fastpath_enabled(False)
    if options.generate:
        run_generate(options)
        return
    for job, name in jobs_of(options):
        if options.alt and not (job.make_inputs or job.alt_inputs):
            raise ValueError("--alt needs a function of (batch, length) as "
                             "the second value returned")
        job.script = job.script or options.script
        dtype = dtype_of(job, options)
        # Without gradients, as a deployment would: some modules trace
        # differently with them.
        with torch.no_grad():
            paths = export(job, name, options.out, dtype, options.sizes,
                           options.alt, options.outputs, options.seed,
                           options.named)
        print(f"{name}: {' '.join(str(p) for p in paths)}", flush=True)


def main(argv=None):
    options = parse_arguments(argv)
    # What the tracer warns about is checked: the reloaded file must return
    # what the model does, at the second sizes too.
    warnings.simplefilter("ignore")
    try:
        run(options)
    except (ValueError, ImportError, AttributeError, OSError) as error:
        print(f"tp_export: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
