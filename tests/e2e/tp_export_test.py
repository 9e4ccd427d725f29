"""The exporter: what it writes is what the model computes."""
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

import torch
from safetensors.torch import load_file

sys.path.insert(0, os.environ["TP_SOURCE_DIR"] + "/tools/export")

import tp_export  # noqa: E402

OWN_MODULE = '''
import torch
from torch import nn

def layer():
    module = nn.TransformerEncoderLayer(24, 3, 50, batch_first=True)
    return module, lambda batch, length: (torch.randn(batch, length, 24),)

def fixed():
    return nn.Linear(3, 4), torch.randn(2, 3)

def wrong():
    return nn.Linear(3, 4)
'''


class ExportTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = Path(self.folder.name)
        self.own = self.out / "own_module.py"
        self.own.write_text(OWN_MODULE)

    def tearDown(self):
        self.folder.cleanup()

    def export(self, *arguments, code=0):
        # In this process: importing torch and transformers takes seconds.
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), \
                contextlib.redirect_stdout(io.StringIO()):
            result = tp_export.main([*map(str, arguments), "--out",
                                     str(self.out)])
        self.assertEqual(result, code, errors.getvalue())
        return errors.getvalue()

    def check_pair(self, name, inputs, outputs):
        """The saved TorchScript, on the saved inputs, gives the outputs."""
        module = torch.jit.load(str(self.out / f"{name}.pt"))
        got = module(*inputs)
        got = got if isinstance(got, tuple) else (got,)
        self.assertEqual(len(got), len(outputs))
        for g, w in zip(got, outputs):
            torch.testing.assert_close(g, w, atol=1e-5, rtol=1e-5)

    def test_test_model_with_alternative_sizes(self):
        self.export("--zoo", "bert")
        inputs = load_file(self.out / "bert.inputs.safetensors")
        outputs = load_file(self.out / "bert.outputs.safetensors")
        self.assertEqual(sorted(inputs), ["input_0", "input_1"])
        self.check_pair("bert", [inputs["input_0"], inputs["input_1"]],
                        [outputs["output_0"], outputs["output_1"]])
        alt = load_file(self.out / "bert.alt.safetensors")
        self.assertNotEqual(alt["input_0"].shape, inputs["input_0"].shape)
        self.check_pair("bert", [alt["input_0"], alt["input_1"]],
                        [alt["output_0"], alt["output_1"]])

    def test_biases_and_norms_are_not_trivial(self):
        self.export("--zoo", "gpt2")
        module = torch.jit.load(str(self.out / "gpt2.pt"))
        for name, weight in module.named_parameters():
            self.assertGreater(float(weight.detach().std()), 0.01, name)

    def test_same_seed_same_files(self):
        self.export("--zoo", "mlp")
        first = (self.out / "mlp.outputs.safetensors").read_bytes()
        self.export("--zoo", "mlp")
        self.assertEqual(
            (self.out / "mlp.outputs.safetensors").read_bytes(), first)

    def test_config_file_with_named_inputs_and_eager_attention(self):
        config = self.out / "config.json"
        config.write_text(json.dumps(dict(
            model_type="llama", hidden_size=32, num_hidden_layers=1,
            num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=40, vocab_size=50)))
        self.export("--hf", config, "--attn", "eager", "--named", "--name",
                    "small", "--outputs", "--alt", "3x7", "--dtype", "fp64",
                    "--set", "intermediate_size=44")
        inputs = load_file(self.out / "small.inputs.safetensors")
        self.assertEqual(sorted(inputs), ["attention_mask", "input_ids"])
        outputs = load_file(self.out / "small.outputs.safetensors")
        self.assertEqual(outputs["output_0"].dtype, torch.float64)
        self.check_pair("small",
                        [inputs["input_ids"], inputs["attention_mask"]],
                        [outputs["output_0"]])
        module = torch.jit.load(str(self.out / "small.pt"))
        self.assertIn((44, 32), [tuple(w.shape) for w in module.parameters()])
        self.assertNotIn("scaled_dot_product_attention",
                         str(module.inlined_graph))

    def test_own_module(self):
        self.export(f"{self.own}:layer", "--outputs", "--alt", "3x7")
        inputs = load_file(self.out / "layer.inputs.safetensors")
        outputs = load_file(self.out / "layer.outputs.safetensors")
        self.check_pair("layer", [inputs["input_0"]], [outputs["output_0"]])
        graph = str(torch.jit.load(str(self.out / "layer.pt")).inlined_graph)
        self.assertNotIn("_transformer_encoder_layer_fwd", graph)

    def test_own_module_scripted(self):
        self.export(f"{self.own}:fixed", "--script", "--named")
        self.assertEqual(list(load_file(self.out / "fixed.inputs.safetensors")),
                         ["input"])

    def test_mistakes_are_named(self):
        for arguments, words in (
                (("--zoo", "gpt5"), "no test model named gpt5"),
                (("--hf", "no_such_model"), "no_such_model"),
                (("--hf", "llama", "--set", "hidden_sizes=3"), "hidden_sizes"),
                (("--hf", "whisper"), "MODULE:FUNCTION"),
                ((f"{self.own}:wrong",), "must return"),
                ((f"{self.own}:missing",), "missing"),
                ((f"{self.own}:fixed", "--alt", "3x7"), "--alt needs")):
            with self.subTest(arguments):
                self.assertIn(words, self.export(*arguments, code=3))


if __name__ == "__main__":
    unittest.main()
