#!/usr/bin/env python3
"""Training steps of model_bench and of PyTorch in turns, on the same cores; prints tokens/s and their ratio.

    pip install torch
    python3 tests/bench/compare_peers.py build/release/bench/model_bench --shape 124m --precision fp32

Both programs stay alive and make one step when asked, A B A B; the median, least and largest of the rounds' ratios are
printed, by wall time and by CPU time (the latter is what to look at on a machine that others use too; it is meaningful
for one thread). A ratio above 1 means that Adaptra is faster.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
STEP = re.compile(r"step ([\d.]+) ms wall, ([\d.]+) ms cpu, ([\d.]+) tokens/s")


class Program:
    def __init__(self, command, threads):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_PROC_BIND="false")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)
        self.ready = self.process.stdout.readline().strip()
        if not self.ready.startswith("ready"):
            sys.exit(f"{command[0]} did not start: {self.ready!r}")

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        match = STEP.match(line)
        if not match:
            sys.exit(f"unexpected answer: {line!r}")
        return tuple(float(x) for x in match.groups())

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} .. {max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", help="path of model_bench")
    parser.add_argument("--shape", default="124m", choices=["124m", "6x384", "small"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    common = ["--shape", arguments.shape, "--precision", arguments.precision, "--threads", str(arguments.threads)]
    ours = Program([arguments.bench, *common, "--on-request"], arguments.threads)
    peer = Program([sys.executable, os.path.join(HERE, "torch_step.py"), *common], arguments.threads)
    print(f"ours: {ours.ready}\npeer: {peer.ready}", flush=True)
    rounds = [(ours.step(), peer.step()) for _ in range(arguments.rounds)]
    ours.close()
    peer.close()
    print(f"{arguments.shape} {arguments.precision}, {arguments.threads} thread(s), {arguments.rounds} rounds, "
          "median (least .. largest)")
    print(f"  Adaptra  {spread([a[2] for a, _ in rounds])} tokens/s")
    print(f"  PyTorch  {spread([b[2] for _, b in rounds])} tokens/s")
    print(f"  ratio by wall time  {spread([b[0] / a[0] for a, b in rounds])}")
    print(f"  ratio by CPU time   {spread([b[1] / a[1] for a, b in rounds])}")


if __name__ == "__main__":
    main()
