#!/usr/bin/env python3
"""Writes tests/model/data/gpt2_golden.bin: what PyTorch and Hugging Face's GPT-2 say of a small model.

    pip install torch transformers numpy
    python3 tests/reference/make_gpt2_golden.py tests/model/data/gpt2_golden.bin

Content: one line of JSON, then little-endian float64 arrays as the JSON lists them ("arrays": [name, count]).
Everything is computed in float64 and again in float32; the largest difference of the two, per tensor, is in the
JSON ("errors"): it is the yardstick for our own float32 (docs/model.md).
"""
import json
import sys

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

L, C, H, V, T, B, N = 3, 24, 3, 61, 12, 2, 3  # layers, channels, heads, vocabulary, tokens, sequences, microbatches
STEPS = 10
ADAM = dict(lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
DECAY, CLIP = 0.1, 0.5


def make(dtype):
    torch.manual_seed(7)
    config = GPT2Config(vocab_size=V, n_positions=T, n_embd=C, n_layer=L, n_head=H, resid_pdrop=0.0, embd_pdrop=0.0,
                        attn_pdrop=0.0, attn_implementation="eager")
    model = GPT2LMHeadModel(config).to(torch.float32)
    with torch.no_grad():  # larger weights than GPT-2's, so that nothing is nearly linear
        for name, p in model.named_parameters():
            p.add_(torch.randn_like(p) * 0.15)
    return model.to(dtype)


def names(model):
    return [n.removeprefix("transformer.") for n, _ in model.named_parameters()]


def step(model, tokens, targets):
    """Gradients of the mean loss over the global batch, accumulated microbatch by microbatch."""
    model.zero_grad(set_to_none=True)
    total, logits = 0.0, []
    for k in range(N):
        out = model(tokens[k]).logits
        loss = torch.nn.functional.cross_entropy(out.reshape(-1, V), targets[k].reshape(-1), reduction="sum")
        (loss / (N * B * T)).backward()
        total += loss.detach()
        logits.append(out.detach())
    return total / (N * B * T), torch.stack(logits)


def run(dtype):
    model = make(dtype)
    start = {n: p.detach().clone() for n, p in zip(names(model), model.parameters())}
    gen = torch.Generator().manual_seed(11)
    tokens = torch.randint(0, V, (STEPS, N, B, T + 1), generator=gen)
    loss, logits = step(model, tokens[0, ..., :-1], tokens[0, ..., 1:])
    grads = {n: p.grad.clone() for n, p in zip(names(model), model.parameters())}
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY},
                                   {"params": others, "weight_decay": 0.0}], **ADAM)
    losses, norms = [], []
    for s in range(STEPS):
        loss_s, _ = step(model, tokens[s, ..., :-1], tokens[s, ..., 1:])
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)))
        optimizer.step()
        losses.append(float(loss_s))
    final = {n: p.detach().clone() for n, p in zip(names(model), model.parameters())}
    return dict(start=start, tokens=tokens, loss=float(loss), logits=logits, grads=grads, losses=losses, norms=norms,
                final=final)


def main(path):
    exact, single = run(torch.float64), run(torch.float32)
    arrays, data, errors = [], [], {}

    def put(name, value, other=None):
        value = np.asarray(value, dtype=np.float64).reshape(-1)
        arrays.append([name, int(value.size)])
        data.append(value)
        if other is not None:
            errors[name] = float(np.abs(np.asarray(other, dtype=np.float64).reshape(-1) - value).max())

    put("tokens", exact["tokens"].numpy())
    put("logits", exact["logits"].numpy(), single["logits"].numpy())
    put("losses", exact["losses"], single["losses"])
    put("norms", exact["norms"], single["norms"])
    for name in exact["start"]:
        put("start/" + name, exact["start"][name].numpy())
        put("gradient/" + name, exact["grads"][name].numpy(), single["grads"][name].numpy())
        put("final/" + name, exact["final"][name].numpy(), single["final"][name].numpy())
    header = dict(layers=L, channels=C, heads=H, vocabulary=V, tokens=T, sequences=B, microbatches=N, steps=STEPS,
                  learning_rate=ADAM["lr"], beta1=ADAM["betas"][0], beta2=ADAM["betas"][1], epsilon=ADAM["eps"],
                  weight_decay=DECAY, clip_norm=CLIP, torch=torch.__version__, arrays=arrays, errors=errors)
    with open(path, "wb") as file:
        file.write(json.dumps(header).encode() + b"\n")
        for value in data:
            file.write(value.tobytes())


if __name__ == "__main__":
    main(sys.argv[1])
