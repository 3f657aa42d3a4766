// Files that were cut, changed or never finished: found, named, passed over.

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/file_index.hpp"
#include "checkpoint/fixture.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/writer.hpp"
#include "core/error.hpp"
#include "support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace {

using namespace adaptra;
using testing::HasSubstr;
using testing_support::FakeModel;
using testing_support::state_at;
namespace fs = std::filesystem;

void flip_bit(const fs::path& file, std::uint64_t byte, int bit) {
  std::fstream raw(file, std::ios::in | std::ios::out | std::ios::binary);
  raw.seekg(static_cast<std::streamoff>(byte));
  const int before = raw.get();
  raw.seekp(static_cast<std::streamoff>(byte));
  raw.put(static_cast<char>(before ^ (1 << bit)));
}

class Damage : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = world_.broadcast(world_.rank() == 0 ? own_.path().string() : "", 0);
    FakeModel model(world_.rank(), world_.size());
    for (const int step : {10, 20, 30}) {
      model.fill(step);
      checkpoint::save(world_, folder_, step, model.parts(), state_at(step), {});
    }
  }
  void TearDown() override { world_.barrier(); }

  fs::path file(std::int64_t step) const { return folder_ / checkpoint::file_name(step); }

  // Does something on rank 0, then asks all.
  template <typename F>
  checkpoint::Latest after(F change) {
    if (world_.rank() == 0) change();
    world_.barrier();
    return checkpoint::find_latest(world_, folder_);
  }

  mpi::Communicator world_ = mpi::Communicator::world(60);
  testing_support::TemporaryFolder own_;
  fs::path folder_;
};

TEST_F(Damage, TheNewestIsTaken) {
  const auto latest = checkpoint::find_latest(world_, folder_);
  ASSERT_TRUE(latest.file);
  EXPECT_EQ(latest.step, 30);
  EXPECT_TRUE(latest.skipped.empty());
  EXPECT_FALSE(checkpoint::find_latest(world_, folder_ / "nothing").file);
}

TEST_F(Damage, TruncatedAndEmptyFilesArePassedOver) {
  const auto latest = after([&] {
    fs::resize_file(file(30), fs::file_size(file(30)) - 1);
    fs::resize_file(file(20), 0);
  });
  EXPECT_EQ(latest.step, 10);
  ASSERT_EQ(latest.skipped.size(), 2u);
  EXPECT_THAT(latest.skipped[0],
              testing::AllOf(HasSubstr("step_00000030.h5"), HasSubstr("truncated")));
  EXPECT_THAT(latest.skipped[1], HasSubstr("is empty"));
}

TEST_F(Damage, AnEmptyOrWrongPointerDoesNotMatter) {
  EXPECT_EQ(after([&] { std::ofstream(folder_ / "latest", std::ios::trunc); }).step, 30);
  EXPECT_EQ(after([&] { std::ofstream(folder_ / "latest") << "step_00000099.h5\n"; }).step, 30);
}

TEST_F(Damage, ADamagedTensorIsNamed) {
  const auto index = checkpoint::read_index(file(30));
  const auto& tensor = index.tensors[4];
  world_.barrier();
  const auto latest = after([&] { flip_bit(file(30), tensor.offset + tensor.bytes - 1, 6); });
  EXPECT_EQ(latest.step, 20);
  ASSERT_EQ(latest.skipped.size(), 1u);
  EXPECT_THAT(latest.skipped[0], HasSubstr("tensor " + tensor.full_name() + " is damaged"));
  const auto problems = checkpoint::verify(file(30));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0], HasSubstr(tensor.full_name()));
  FakeModel model(0, 1);
  EXPECT_THROW(checkpoint::load(world_, file(30), model.parts()), Error);
}

TEST_F(Damage, AnotherModelIsRefusedByName) {
  FakeModel other(0, 1, 38);
  try {
    checkpoint::load(world_, file(30), other.parts());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    if (world_.rank() != 0) return;  // the others only know that rank 0 failed
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("wte.weight has shape (111,20)"),
                                             HasSubstr("needs (114,20)")));
  }
}

TEST_F(Damage, GroupsThatAreWhollyAbsentAreReported) {
  FakeModel model(0, 1);
  std::vector<checkpoint::TensorPart> parts;
  for (auto part : model.parts()) {
    if (part.group == "adam_v") part.group = "other";
    parts.push_back(part);
  }
  EXPECT_THAT(checkpoint::load(world_, file(30), parts).absent_groups,
              testing::ElementsAre("other"));
}

// Every byte is under a checksum: also names, shapes, the deck, padding.
TEST_F(Damage, AnyFlippedBitIsFound) {
  if (world_.rank() != 0) return;
  std::mt19937_64 random(4711);
  const auto size = fs::file_size(file(30));
  const auto index = checkpoint::read_index(file(30));
  std::uint64_t structure_end = size;
  for (const auto& tensor : index.tensors) structure_end = std::min(structure_end, tensor.offset);
  for (int i = 0; i < 400; ++i) {
    // Half of them in what is no tensor, which is a small part of the file.
    const std::uint64_t byte = random() % (i % 2 == 0 ? size : structure_end);
    const int bit = static_cast<int>(random() % 8);
    flip_bit(file(30), byte, bit);
    EXPECT_FALSE(checkpoint::verify(file(30)).empty()) << "byte " << byte << " bit " << bit;
    flip_bit(file(30), byte, bit);
  }
  EXPECT_TRUE(checkpoint::verify(file(30)).empty());
}

TEST_F(Damage, AnyTruncationIsFound) {
  if (world_.rank() != 0) return;
  std::mt19937_64 random(4712);
  const auto size = fs::file_size(file(30));
  const auto cut = folder_ / "cut.h5";
  for (int i = 0; i < 60; ++i) {
    fs::copy_file(file(30), cut, fs::copy_options::overwrite_existing);
    fs::resize_file(cut, random() % size);
    EXPECT_FALSE(checkpoint::verify(cut).empty());
  }
}

}  // namespace
