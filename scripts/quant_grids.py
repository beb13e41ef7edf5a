#!/usr/bin/env python3
"""quant_grids.py [OUT] - the grids that the GGUF types of 1 to 3 bits look their values up in, from the gguf module.

Writes src/kernels/grids.c. Needs gguf (pip).
"""
import sys
from pathlib import Path

from gguf import quants

ROOT = Path(__file__).resolve().parent.parent
GRIDS = (("iq2_xxs", quants.IQ2_XXS), ("iq2_xs", quants.IQ2_XS), ("iq2_s", quants.IQ2_S),
         ("iq3_xxs", quants.IQ3_XXS), ("iq3_s", quants.IQ3_S), ("iq1", quants.IQ1_S))


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src/kernels/grids.c"
    lines = ["/* grids - dequantize.h says what they are. Written by scripts/quant_grids.py; a table of ggml's formats. */",
             '#include "kernels/dequantize.h"', "", "/* clang-format off */"]
    for name, cls in GRIDS:
        data = bytes.fromhex(cls.grid_hex.decode())
        entries = [f"0x{data[i] | data[i + 1] << 8:04x}" for i in range(0, len(data), 2)]
        assert len(entries) == cls.grid_shape[0]
        lines.append(f"const uint16_t grid_{name}[{len(entries)}] = {{")
        for i in range(0, len(entries), 14):
            lines.append("    " + ", ".join(entries[i:i + 14]) + ",")
        lines += ["};", ""]
    lines.append("/* clang-format on */")
    out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
