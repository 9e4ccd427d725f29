#!/usr/bin/env python3
"""tp-compile plans a 6 GB model within 1 GiB of address space.

Weights must never be read, copied or mapped whole for planning. The archive is
sparse: it takes next to no disk.
"""

import os
import resource
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 1 << 30


def main():
    tp_compile = os.path.join(os.environ["TP_BIN"], "tp-compile")
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "sparse.pt")
        inputs = os.path.join(folder, "inputs.safetensors")
        subprocess.run(
            [sys.executable, os.path.join(HERE, "make_sparse_archive.py"),
             model, "--gib", "6", "--inputs", inputs], check=True)
        size = os.stat(model).st_size
        assert size > 5.9 * 2**30, f"the archive has only {size} bytes"
        done = subprocess.run(
            [tp_compile, model, "--inputs", inputs, "--tp", "2",
             "--plan-only", "--json"],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS,
                                                  (LIMIT, LIMIT)),
            capture_output=True, text=True)
        print(done.stderr[-4000:])
        assert done.returncode == 0, f"exit code {done.returncode}"
        assert "layers.47.weight" in done.stdout, done.stdout[:2000]
    print("planned 6 GB of weights within 1 GiB")


if __name__ == "__main__":
    main()
