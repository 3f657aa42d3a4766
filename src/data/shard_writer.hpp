#pragma once
// Writes a row of tokens as llm.c shards of a given size (llmc/dataloader.h).

#include "data/prepare.hpp"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace adaptra::data {

class ShardWriter {
 public:
  /// Throws Error{file} where shards of this prefix exist and may not be replaced.
  ShardWriter(std::string prefix, std::int64_t shard_tokens, std::int64_t validation_tokens,
              ExistingShards existing);
  ~ShardWriter();  // an unfinished shard is removed
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Ids below 65536. Throws Error{file}, e.g. when the disk is full.
  void add(std::span<const std::int32_t> tokens);
  /// Closes the last shard; tells all.
  std::vector<Shard> close();

 private:
  void open();
  void finish();
  void write(const void* data, std::size_t bytes);
  [[noreturn]] void failed(const char* what) const;

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string prefix_;
  std::int64_t shard_tokens_, validation_tokens_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::string path_;
  std::int64_t room_ = 0;  // of the open shard
  std::vector<Shard> shards_;
};

}  // namespace adaptra::data
