#!/usr/bin/env python3
"""The peer of model_bench: one training step of the same GPT-2 in PyTorch (eager), per line of standard input.

    pip install torch
    echo | python3 tests/bench/torch_step.py --shape 124m --precision fp32 --threads 1

Same shapes, loss, clipping and AdamW; scaled_dot_product_attention and the fused optimizer, PyTorch's fastest eager
ways on a CPU. bf16 is torch.autocast, its usual mixed precision.
"""
import argparse
import contextlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {"124m": (12, 768, 12, 4, 64), "6x384": (6, 384, 6, 8, 256), "small": (2, 128, 4, 2, 32)}
VOCABULARY, CONTEXT = 50257, 1024


class Block(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.qkv, self.proj = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.fc, self.out = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for y in self.qkv(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers, c, heads):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, c), nn.Embedding(CONTEXT, c)
        self.blocks = nn.ModuleList(Block(c, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(c)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", default="124m", choices=SHAPES)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    layers, channels, heads, b, t = SHAPES[arguments.shape]
    model = Gpt2(layers, channels, heads)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
                                  lr=1e-4, betas=(0.9, 0.95), fused=True)
    data = torch.randint(VOCABULARY, (b, t + 1))
    mixed = (torch.autocast("cpu", dtype=torch.bfloat16) if arguments.precision == "bf16"
             else contextlib.nullcontext())

    def step():
        optimizer.zero_grad(set_to_none=True)
        with mixed:
            loss = model(data[:, :-1], data[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    step()
    print(f"ready loss {step():.6f}, torch {torch.__version__}", flush=True)
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        wall, cpu = 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)
        print(f"step {wall:.2f} ms wall, {cpu:.2f} ms cpu, {1e3 * b * t / wall:.1f} tokens/s", flush=True)


if __name__ == "__main__":
    main()
