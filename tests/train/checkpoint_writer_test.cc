// Checkpoints written during training contain the state at the start of the save.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <future>
#include <numeric>
#include <thread>
#include <utility>

#include "backends/cpu/backend.h"
#include "support/expect_error.h"
#include "support/models.h"
#include "support/temp_dir.h"
#include "train/checkpoint/checkpoint_writer.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

// The token table alone is more than one chunk of a snapshot.
constexpr const char* kModel = R"(family = "llama2"
[model]
vocab_size = 4097
hidden_size = 96
intermediate_size = 24
num_hidden_layers = 1
num_attention_heads = 2
)";

class Writing : public ::testing::Test {
 protected:
  Writing() { fill(1); }

  // Sets every master weight, optimizer state and average to a count from `first`.
  void fill(float first) {
    each([&](int, float* data, std::size_t count) {
      std::iota(data, data + count, first);
      first += 1;
    });
  }
  template <typename Do>
  void each(Do act) {
    const auto& parameters = model.parameters().all();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      for (const std::span<const TensorRef> kind :
           {state.masters(), state.first_moments(), state.second_moments(), state.averages()})
        act(static_cast<int>(i), floats(kind[i]),
            static_cast<std::size_t>(parameters[i].num_elements()));
  }
  // Changes all values, like an optimizer step.
  void change_all() {
    each([&](int parameter, float* data, std::size_t count) {
      state.will_change(parameter);
      std::fill_n(data, count, -1.0f);
    });
  }
  train::CheckpointContents contents() { return {model, state, *tokenizer, "run", "model"}; }
  void expect_in_files(const std::string& checkpoint, float first) {
    train::TrainState loaded = make_state();
    train::load_checkpoint(checkpoint, model, loaded);
    fill(first);
    const auto& parameters = model.parameters().all();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto count = static_cast<std::size_t>(parameters[i].num_elements());
      EXPECT_TRUE(std::equal(floats(state.masters()[i]), floats(state.masters()[i]) + count,
                             floats(loaded.masters()[i])));
      EXPECT_TRUE(std::equal(floats(state.second_moments()[i]),
                             floats(state.second_moments()[i]) + count,
                             floats(loaded.second_moments()[i])));
      EXPECT_TRUE(std::equal(floats(state.averages()[i]), floats(state.averages()[i]) + count,
                             floats(loaded.averages()[i])));
    }
  }

  train::TrainState make_state() const {
    return {model.parameters(),      DType::f32, false, cpu::cpu_backend(), {}, {},
            train::KeptAverage::kept};
  }

  TempDir folder;
  decoder::Model model = open_description(kModel);
  std::unique_ptr<text::Tokenizer> tokenizer = text::make_byte_tokenizer();
  train::TrainState state = make_state();
};

TEST_F(Writing, ASnapshotKeepsValuesThatChangeBeforeTheyAreRead) {
  std::vector<std::vector<float>> before;
  each([&](int, float* data, std::size_t count) { before.emplace_back(data, data + count); });
  train::Snapshot snapshot(model.parameters(), state);
  std::vector<std::vector<float>> found;
  std::vector<TensorRef> tensors;
  each([&](int, float* data, std::size_t count) {
    tensors.push_back(host_tensor(std::span(data, count)));
  });
  for (const TensorRef& tensor : tensors) {
    std::vector<float>& values = found.emplace_back();
    snapshot.read(tensor, [&](std::span<const std::byte> bytes) {
      const auto* first = reinterpret_cast<const float*>(bytes.data());
      values.insert(values.end(), first, first + bytes.size() / sizeof(float));
      // In the middle of the first tensor, which has several pieces.
      if (found.size() == 1 && values.size() < before[0].size() &&
          values.size() == bytes.size() / 4)
        change_all();
    });
  }
  EXPECT_TRUE(found == before);
  EXPECT_EQ(snapshot.num_read(), snapshot.num_bytes());
  EXPECT_EQ(snapshot.num_copied(), snapshot.num_bytes() - (std::size_t{1} << 20));
  each([&](int, const float* data, std::size_t) { EXPECT_EQ(*data, -1.0f); });
}

TEST_F(Writing, ReadValuesAreNotCopied) {
  train::Snapshot snapshot(model.parameters(), state);
  each([&](int, float* data, std::size_t count) {
    snapshot.read(host_tensor(std::span(data, count)), [](auto) {});
  });
  change_all();
  EXPECT_EQ(snapshot.num_copied(), 0u);
}

TEST_F(Writing, TrainingContinuesWhileACheckpointIsWritten) {
  const std::string path = folder / "checkpoints/step-00000007";
  train::CheckpointWriter writer(state);
  std::promise<void> changed;
  std::vector<std::string> called;
  std::thread::id begun_on;
  writer.start(path, contents(), {.step = 7},
               {.begin_thread =
                    [&] {
                      called.emplace_back("begin_thread");
                      begun_on = std::this_thread::get_id();
                    },
                .before =
                    [&] {
                      called.emplace_back("before");
                      changed.get_future().wait();
                    },
                .after = [] { return std::vector<std::string>{"said"}; }});
  EXPECT_TRUE(writer.busy());
  EXPECT_FALSE(writer.take_result());
  change_all();  // before the first byte is written
  EXPECT_FALSE(fs::exists(path));
  changed.set_value();
  while (!writer.wait_for(1)) {
  }
  const auto saved = writer.take_result();
  ASSERT_TRUE(saved);
  EXPECT_FALSE(writer.busy());
  EXPECT_EQ(saved->error, nullptr);
  EXPECT_THAT(saved->problems, ::testing::ElementsAre("said"));
  EXPECT_EQ(saved->num_copied,
            4u * 4 * static_cast<std::uint64_t>(model.parameters().num_elements()));
  EXPECT_EQ(saved->num_copied,
            train::max_snapshot_bytes(model.parameters(), {}, train::KeptAverage::kept));
  EXPECT_THAT(called, ::testing::ElementsAre("begin_thread", "before"));
  EXPECT_NE(begun_on, std::this_thread::get_id());
  expect_in_files(path, 1);
}

TEST_F(Writing, WeightsThatAreNotFiniteAreNoCheckpoint) {
  const std::string path = folder / "step-1";
  const std::size_t last = model.parameters().all().size() - 1;
  const std::pair<float*, const char*> spoilt[] = {
      {floats(state.masters()[0]) + 300'001,
       "after the update the weight 'embed.weight' is nan at element "
       "300001 of [4097, 96]"},
      {floats(state.masters()[last]), "after the update the weight '"},
      {floats(state.averages()[last]), "after the update the average of the weight '"}};
  for (const auto& [value, says] : spoilt) {
    const float before = std::exchange(*value, std::nanf(""));
    EXPECT_ERROR_SAYS(train::save_checkpoint(path, contents(), {.step = 1}), ExitCode::numerical,
                      says);
    EXPECT_FALSE(fs::exists(path));
    *value = before;
  }
  train::save_checkpoint(path, contents(), {.step = 1});
}

TEST_F(Writing, TheGuardIsCalledBeforeAndAfterTheFilesAreWritten) {
  for (const int allowed : {0, 1}) {
    const std::string path = folder / fmt::format("step-{}", allowed);
    train::CheckpointContents guarded = contents();
    int asked = 0;
    guarded.guard = [&] {
      if (asked++ == allowed) throw UserError(ExitCode::checkpoint, {"out", "was moved", {}});
    };
    EXPECT_THROW(train::save_checkpoint(path, guarded, {.step = 1}), UserError);
    EXPECT_EQ(asked, allowed + 1);
    EXPECT_TRUE(fs::is_empty(folder.path())) << "of that step nothing is left";
  }
}

TEST_F(Writing, DiskErrorsAreReportedAndTheStateIsReleased) {
  const std::string path = folder / "step-1";
  fs::create_directories(path);  // blocks the path
  train::CheckpointWriter writer(state);
  writer.start(path, contents(), {.step = 1},
               {.before = [] {}, .after = [] { return std::vector<std::string>{"not called"}; }});
  while (!writer.wait_for(1)) {
  }
  const auto saved = writer.take_result();
  ASSERT_TRUE(saved && saved->error);
  EXPECT_THROW(std::rethrow_exception(saved->error), DeviceError);
  EXPECT_TRUE(saved->problems.empty());
  change_all();  // copies nothing: the snapshot no longer exists
  EXPECT_TRUE(fs::is_empty(path));
}

}  // namespace
}  // namespace lamina::testing
