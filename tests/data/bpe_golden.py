#!/usr/bin/env python3
"""GPT-2 tokens against tiktoken, an independent implementation (needs the Python packages named below).

  bpe_golden.py make
      trains a small byte-level vocabulary (package tokenizers) on this project's pages and writes
      tests/data/small_bpe/: vocab.json, merges.txt, and golden.json: texts and tiktoken's ids of them.
  bpe_golden.py compare ADAPTRA_DATA VOCAB.json MERGES.txt FILE...
      runs `adaptra-data prepare` on UTF-8 files and compares every id, e.g. with the published files of GPT-2.
"""
import array
import json
import pathlib
import subprocess
import sys
import tempfile

import tiktoken

HERE = pathlib.Path(__file__).resolve().parent
PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
TEXTS = [
    "", " ", "  ", "\n", "a", " a", "  a", "a ", "a  b", "a\n\nb", "a \n b", "\n\n\nx", "x\t\ty\r\nz",
    "It's we'll they've I'm you're he'd don't 'tis ''s 'S 'x", "'", "''", " 's", "s's'",
    "pipeline stages, microbatches and links; 12345 tokens/s at 3.14 %", "x=[1,2,3];//comment!!! ???",
    "<|endoftext|> is text here", "    indented\n        more\n", "word" * 40, "." * 100, " " * 70 + "end",
    "Grüße, žluťoučký kůň, Ελλάδα, Москва, 東京タワー, مرحبا, हिन्दी", "naïve café coöperate",
    "½ ² Ⅷ ٣ ५ 一二三", "emoji 🙂👩‍👩‍👧 and ✓", "nbsp\u00a0here\u2003em\u3000ideographic\u2028line\u0085nel",
    "zero\u200bwidth \ufeffbom e\u0301 combining", "\u001c\u001d control \u0000 zero",
]


def tiktoken_of(vocabulary, merges):
    spelled = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    byte_of = {chr(b): b for b in spelled}
    for n, b in enumerate(b for b in range(256) if b not in spelled):
        byte_of[chr(256 + n)] = b
    ranks = {bytes([b]): vocabulary[c] for c, b in byte_of.items()}
    for line in merges.splitlines():
        if line and not line.startswith("#version"):
            token = line.replace(" ", "")
            ranks[bytes(byte_of[c] for c in token)] = vocabulary[token]
    return tiktoken.Encoding("own", pat_str=PATTERN, mergeable_ranks=ranks,
                             special_tokens={"<|endoftext|>": vocabulary["<|endoftext|>"]})


def make():
    import tokenizers
    folder = HERE / "small_bpe"
    trainer = tokenizers.ByteLevelBPETokenizer()
    pages = sorted(str(p) for p in (HERE.parents[1] / "docs").glob("*.md"))
    trainer.train(pages, vocab_size=600, min_frequency=2, show_progress=False)
    trainer.add_special_tokens(["<|endoftext|>"])
    (folder / "vocab.json").write_text(json.dumps(trainer.get_vocab(), ensure_ascii=False, sort_keys=True))
    trainer.save_model(str(folder))
    vocabulary = dict(json.loads((folder / "vocab.json").read_text()))
    vocabulary.setdefault("<|endoftext|>", len(vocabulary))
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False, indent=0) + "\n")
    own = tiktoken_of(vocabulary, (folder / "merges.txt").read_text())
    golden = [{"text": text, "ids": own.encode_ordinary(text)} for text in TEXTS]
    (folder / "golden.json").write_text("[\n" + ",\n".join(json.dumps(g) for g in golden) + "\n]\n")


def compare(program, vocabulary_path, merges_path, *files):
    vocabulary = json.loads(pathlib.Path(vocabulary_path).read_text())
    own = tiktoken_of(vocabulary, pathlib.Path(merges_path).read_text())
    wrong = 0
    for file in files:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([program, "prepare", file, "-o", folder + "/x", "--tokens", "gpt2", "--vocab",
                            vocabulary_path, "--merges", merges_path], check=True, stdout=subprocess.DEVNULL)
            ids = array.array("H", pathlib.Path(folder, "x_train_000001.bin").read_bytes()[1024:]).tolist()
        expected = [vocabulary["<|endoftext|>"]] + own.encode_ordinary(pathlib.Path(file).read_bytes().decode())
        same = ids == expected
        print(f"{file}: {len(expected)} tokens, {'equal' if same else 'DIFFERENT'}")
        wrong += not same
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["make"]:
        sys.exit(make())
    if len(sys.argv) > 5 and sys.argv[1] == "compare":
        sys.exit(compare(*sys.argv[2:]))
    sys.exit(__doc__)
