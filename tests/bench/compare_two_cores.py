#!/usr/bin/env python3
"""Two replicas on two ranks of adaptra-train beside PyTorch with two threads, equal global batch, in turns.

    pip install torch numpy
    python3 tests/bench/compare_two_cores.py build/release/bin/adaptra-train --rounds 3

124M shape, 2 x 2 sequences of 64 random tokens, fp32. Each round starts both programs once and takes the median of
their steps after the first; gradients of the replicas are reduced between the ranks, PyTorch shares its memory.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np

DECK = """
[data]
kind = "nanogpt"
train = ["{folder}/train.bin"]
[training]
steps = {steps}
microbatches = 1
microbatch_sequences = 2
sequence_tokens = 64
[parallel]
data = 2
"""
HERE = os.path.dirname(os.path.abspath(__file__))


def ours(program, folder, steps, place):
    with open(f"{folder}/deck.toml", "w") as deck:
        deck.write(DECK.format(folder=folder, steps=steps))
    out = f"{folder}/run{place}"
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    subprocess.run(["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", program, f"{folder}/deck.toml",
                    f"run.output_dir={out}"], check=True, env=environment, stdout=subprocess.DEVNULL)
    with open(f"{out}/log.jsonl") as log:
        times = [record["step_ms"] for record in map(json.loads, log) if "step_ms" in record]
    return statistics.median(times[1:])


def peer(steps):
    answer = subprocess.run([sys.executable, f"{HERE}/torch_step.py", "--shape", "124m", "--threads", "2"], check=True,
                            input="\n" * (steps - 1), capture_output=True, text=True,
                            env=dict(os.environ, OMP_NUM_THREADS="2"))
    return statistics.median(float(x) for x in re.findall(r"step ([\d.]+) ms wall", answer.stdout))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="path of adaptra-train")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    arguments = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        np.random.default_rng(1).integers(0, 50257, 400000).astype(np.uint16).tofile(f"{folder}/train.bin")
        for place in range(arguments.rounds):
            a, b = ours(arguments.program, folder, arguments.steps, place), peer(arguments.steps)
            ratios.append(b / a)
            print(f"Adaptra {a:.0f} ms, PyTorch {b:.0f} ms per step, ratio {b / a:.2f}", flush=True)
    print(f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} .. {max(ratios):.2f})")


if __name__ == "__main__":
    main()
