#!/usr/bin/env python3
"""Writes a TorchScript archive of many gigabytes that takes almost no disk.

    make_sparse_archive.py OUT.pt [--gib 6] [--layers 48] [--inputs IN.safetensors]

The model is a chain of linear layers and ReLUs. Every weight is zeros, and its
record in the archive is a hole in the file: stored, with the right checksum
and 64-bit sizes, as torch.jit.save would write it with zeros in it.
"""

import argparse
import json
import math
import os
import struct
import zipfile
import zlib

import torch


class Chain(torch.nn.Module):
    """Linear layers of one width whose weights have no memory of their own."""

    def __init__(self, width, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList()
        for _ in range(layers):
            with torch.device("meta"):
                layer = torch.nn.Linear(width, width, bias=False)
            # One number expanded to the whole shape; made contiguous in the
            # archive below.
            weight = torch.zeros(1, 1).expand(width, width)
            layer.weight = torch.nn.Parameter(weight, requires_grad=False)
            self.layers.append(layer)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def pickled_int(value):
    if 0 <= value < 256:
        return b"K" + struct.pack("<B", value)
    if 0 <= value < 65536:
        return b"M" + struct.pack("<H", value)
    return b"J" + struct.pack("<i", value)


def make_contiguous(pickle, width):
    """Gives each one-element storage width*width elements, strides width, 1."""
    size = pickled_int(width)
    shape = b"(" + size + size + b"t"
    expanded = shape + b"(" + pickled_int(0) * 2 + b"t"
    whole = shape + b"(" + size + pickled_int(1) + b"t"
    count = pickle.count(expanded)
    pickle = pickle.replace(expanded, whole)
    # A storage ends in its number of elements, 1, a tuple and a BINPERSID.
    pickle = pickle.replace(
        pickled_int(1) + b"tQ", pickled_int(width * width) + b"tQ")
    return pickle, count


def crc_of_zeros(size):
    crc, block = 0, bytes(1 << 24)
    while size > 0:
        step = min(size, len(block))
        crc = zlib.crc32(block[:step], crc)
        size -= step
    return crc


class SparseZip:
    """A zip writer whose stored entries may be holes; 64-bit throughout."""

    def __init__(self, path):
        self.file = open(path, "wb")
        self.directory = []

    def add(self, name, data=None, hole=0, hole_crc=0):
        size = hole if data is None else len(data)
        crc = hole_crc if data is None else zlib.crc32(data)
        offset = self.file.tell()
        raw = name.encode()
        # Padding as PyTorch writes it: data starts at a multiple of 64.
        pad = -(offset + 30 + len(raw) + 20 + 4) % 64
        extra = struct.pack("<HHQQ", 1, 16, size, size)
        extra += struct.pack("<2sH", b"FB", pad) + b"Z" * pad
        common = struct.pack("<HHHHHIIIHH", 45, 0x800, 0, 0, 0x21, crc,
                             0xFFFFFFFF, 0xFFFFFFFF, len(raw), len(extra))
        self.file.write(b"PK\x03\x04" + common + raw + extra)
        if data is None:
            self.file.seek(size, os.SEEK_CUR)
        else:
            self.file.write(data)
        extra = struct.pack("<HHQQQ", 1, 24, size, size, offset)
        common = common[:-2] + struct.pack("<H", len(extra))
        self.directory.append(
            b"PK\x01\x02" + struct.pack("<H", 45) + common +
            struct.pack("<HHHII", 0, 0, 0, 0, 0xFFFFFFFF) + raw + extra)

    def close(self):
        start = self.file.tell()
        for entry in self.directory:
            self.file.write(entry)
        end = self.file.tell()
        n = len(self.directory)
        self.file.write(
            struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, n, n,
                        end - start, start) +
            struct.pack("<IIQI", 0x07064B50, 0, end, 1) +
            struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, min(n, 0xFFFF),
                        min(n, 0xFFFF), 0xFFFFFFFF, 0xFFFFFFFF, 0))
        self.file.close()


def write_archive(path, gib, layers):
    width = int(math.sqrt(gib * 2**30 / layers / 4)) // 64 * 64
    model = Chain(width, layers).eval()
    small = path + ".small"
    torch.jit.save(torch.jit.script(model), small)
    weight_bytes = 4 * width * width
    weight_crc = crc_of_zeros(weight_bytes)
    out = SparseZip(path)
    with zipfile.ZipFile(small) as archive:
        for name in archive.namelist():
            record = name.split("/", 1)[1]
            if record.startswith("data/"):
                out.add(name, hole=weight_bytes, hole_crc=weight_crc)
            elif record == "data.pkl":
                data, changed = make_contiguous(archive.read(name), width)
                assert changed == layers, f"{changed} of {layers} weights"
                out.add(name, data)
            else:
                out.add(name, archive.read(name))
    out.close()
    os.remove(small)
    return width


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--gib", type=float, default=6)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--inputs", help="also write example inputs there")
    args = parser.parse_args()
    width = write_archive(args.out, args.gib, args.layers)
    if args.inputs:
        header = json.dumps({"x": {"dtype": "F32", "shape": [2, width],
                                   "data_offsets": [0, 8 * width]}}).encode()
        with open(args.inputs, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            file.write(bytes(8 * width))
    info = os.stat(args.out)
    print(f"{args.out}: {info.st_size / 2**30:.2f} GiB long, "
          f"{info.st_blocks * 512 / 2**20:.2f} MiB on disk, "
          f"{args.layers} weights of {width}x{width}")


if __name__ == "__main__":
    main()
