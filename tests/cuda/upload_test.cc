// Uploads of weights beside the work that uses them, on both devices of the tests.
#include "runtime/upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "backends/emulated/backend.h"
#include "core/cpu_mask.h"
#include "cuda/gpu.h"
#include "graph/bytes_type.h"
#include "io/mapping_faults.h"
#include "model/load.h"
#include "runtime/host_access.h"
#include "support/device_models.h"
#include "support/expect_error.h"
#include "support/goldens.h"
#include "support/process.h"
#include "support/published_model.h"

namespace lamina::testing {
namespace {

using cuda::emulation::driver_counts;
using cuda::emulation::FaultPlace;
using ::testing::HasSubstr;

// Waits for a condition that other threads make true; an error after a minute.
template <typename Condition>
void await(const Condition& condition) {
  for (int i = 0; !condition(); ++i) {
    if (i == 60000) throw UserError(ExitCode::data, {"the test", "has waited for a minute", {}});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::vector<std::byte> some_bytes(std::size_t count, unsigned first) {
  std::vector<std::byte> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<std::byte>(first + i * 7 + (i >> 13));
  return out;
}

// Memory of a device for tensors of bytes.
class OnDevice {
 public:
  OnDevice(const Backend& backend, std::initializer_list<std::size_t> sizes) : backend_(backend) {
    for (const std::size_t size : sizes) parts_.add(size);
    parts_.allocate(backend);
    for (const std::size_t size : sizes)
      tensors.push_back(parts_.tensor(tensors.size(), bytes_type(size)));
  }
  std::vector<std::byte> read(std::size_t tensor) const {
    return copy_to_host<std::byte>(backend_.context().queue(), tensors[tensor]);
  }

 private:
  const Backend& backend_;
  BufferParts parts_;

 public:
  std::vector<TensorRef> tensors;
};

const Backend& emulated_gpu_of_uploads() { return emulated_gpu(); }

class Uploads : public ::testing::TestWithParam<const Backend& (*)()> {
 protected:
  const Backend& backend = GetParam()();
};

TEST_P(Uploads, Example) {
  const std::size_t large = 5 * Upload::kPieceBytes + 12345;
  const auto first = some_bytes(large, 3), last = some_bytes(100, 5);
  OnDevice memory(backend, {large, 0, 1000, 100});
  Upload upload(backend);
  upload.add(memory.tensors[0], first);
  upload.add(memory.tensors[1], std::span<const std::byte>());
  upload.add(memory.tensors[2], [](const Workers& workers, std::byte* out) {
    work_on_all(workers, 10, [&](std::int64_t part) {
      std::fill_n(out + part * 100, 100, static_cast<std::byte>(part));
    });
  });
  upload.add(memory.tensors[3], last);
  upload.start();
  EXPECT_EQ(memory.read(3), last);
  EXPECT_EQ(memory.read(0), first);
  const auto made = memory.read(2);
  for (std::size_t i = 0; i < made.size(); ++i) ASSERT_EQ(made[i], static_cast<std::byte>(i / 100));
}

// The thread that starts an upload may be pinned to one CPU.
TEST_P(Uploads, ThreadsHaveAllCpusOfTheProcess) {
  const CpuMask* allowed = allowed_cpus();
  ASSERT_NE(allowed, nullptr);
  int first = 0;
  while (!allowed->has(first)) ++first;
  CpuMask one;
  one.add(first);
  OnDevice memory(backend, {100});
  CpuMask seen;
  Upload upload(backend);
  upload.add(memory.tensors[0], [&](const Workers&, std::byte* out) {
    EXPECT_TRUE(seen.read());
    std::fill_n(out, 100, std::byte{9});
  });
  one.apply();
  upload.start();
  unpin_this_thread();
  EXPECT_EQ(memory.read(0), std::vector<std::byte>(100, std::byte{9}));
  for (int cpu = 0; cpu < CpuMask::kMaxCpus; ++cpu)
    ASSERT_EQ(seen.has(cpu), allowed->has(cpu)) << "CPU " << cpu;
}

// The second tensor is made after the first one was read back.
TEST_P(Uploads, WorkWaitsForItsTensorsOnly) {
  OnDevice memory(backend, {100, 100});
  const auto first = some_bytes(100, 1);
  std::atomic<bool> was_read = false;
  Upload upload(backend);
  upload.add(memory.tensors[0], first);
  upload.add(memory.tensors[1], [&](const Workers&, std::byte* out) {
    await([&] { return was_read.load(); });
    std::fill_n(out, 100, std::byte{9});
  });
  upload.start();
  EXPECT_EQ(memory.read(0), first);
  was_read = true;
  EXPECT_EQ(memory.read(1), std::vector<std::byte>(100, std::byte{9}));
}

TEST_P(Uploads, WritesAreOrderedAfterTheUploadToo) {
  const std::size_t large = 3 * Upload::kPieceBytes;
  OnDevice memory(backend, {large});
  Upload upload(backend);
  const auto values = some_bytes(large, 1);
  upload.add(memory.tensors[0], values);
  upload.start();
  backend.context().queue().fill(memory.tensors[0].part(5, bytes_type(1)), std::byte{0});
  auto want = values;
  want[5] = std::byte{0};
  EXPECT_EQ(memory.read(0), want);
}

TEST_P(Uploads, AnErrorOfReadingReachesTheWorkThatNeedsIt) {
  OnDevice memory(backend, {100, 100, 100, 100});
  const auto values = some_bytes(100, 1);
  Upload upload(backend);
  upload.add(memory.tensors[0], values);
  upload.add(memory.tensors[1], [](const Workers& workers, std::byte*) {
    work_on_all(workers, 4, [](std::int64_t part) {
      if (part == 2) user_error(ExitCode::checkpoint, "a file", "is damaged");
    });
  });
  upload.add(memory.tensors[2], values);
  upload.start();
  EXPECT_EQ(memory.read(0), values);
  for (int time = 0; time < 2; ++time)
    EXPECT_ERROR_SAYS(memory.read(1), ExitCode::checkpoint, "a file: is damaged");
  EXPECT_ERROR_SAYS(memory.read(2), ExitCode::checkpoint, "a file: is damaged");
  EXPECT_ERROR_SAYS(upload.wait_until_read(), ExitCode::checkpoint, "a file: is damaged");
  EXPECT_EQ(memory.read(3), std::vector<std::byte>(100));  // was not uploaded
}

TEST_P(Uploads, AreEndedBetweenPieces) {
  OnDevice memory(backend, {8 * Upload::kPieceBytes});
  const auto values = some_bytes(8 * Upload::kPieceBytes, 1);
  std::atomic<int> calls = 0;
  Upload upload(backend);
  upload.add(memory.tensors[0], values);
  upload.start([&] {
    if (++calls >= 3) user_error(ExitCode::interrupted, "a signal", "ends the reading");
  });
  EXPECT_ERROR_SAYS(memory.read(0), ExitCode::interrupted, "a signal: ends the reading");
  EXPECT_LE(calls, 2 + static_cast<int>(Upload::kMostThreads));
}

// No work has used the tensors; their memory can be used again.
TEST_P(Uploads, EndWithTheirObject) {
  OnDevice memory(backend, {8 * Upload::kPieceBytes, 100});
  const auto values = some_bytes(8 * Upload::kPieceBytes, 1);
  std::atomic<bool> begun = false;
  {
    Upload upload(backend);
    upload.add(memory.tensors[0], values);
    upload.add(memory.tensors[1], [&](const Workers&, std::byte*) {
      begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    });
    upload.start();
    await([&] { return begun.load(); });
  }
  backend.context().queue().fill(memory.tensors[1], std::byte{4});
  EXPECT_EQ(memory.read(1), std::vector<std::byte>(100, std::byte{4}));
}

INSTANTIATE_TEST_SUITE_P(All, Uploads,
                         ::testing::Values(&emulated_gpu_of_uploads, &emulated::emulated_backend),
                         [](const auto& test) { return test.index == 0 ? "Gpu" : "Emulated"; });

TEST(CudaUpload, PinsAFewPieces) {
  const std::size_t bytes = 40 * Upload::kPieceBytes;
  const auto values = some_bytes(bytes, 1);
  OnDevice memory(emulated_gpu(), {bytes});
  cuda::emulation::start_pinned_count();
  const std::size_t before = cuda::emulation::most_pinned_bytes();
  Upload upload(emulated_gpu());
  upload.add(memory.tensors[0], values);
  upload.start();
  upload.wait_until_read();
  EXPECT_LE(cuda::emulation::most_pinned_bytes() - before,
            Upload::kMostThreads * Upload::kPiecesPerThread * Upload::kPieceBytes);
  EXPECT_EQ(memory.read(0), values);
}

TEST(CudaUpload, ALostGpuIsAnErrorAndNoHang) {
  for (const int after : {0, 3, 9}) {
    const ResetAfter reset;
    OnDevice memory(emulated_gpu(), {20 * Upload::kPieceBytes});
    const auto values = some_bytes(20 * Upload::kPieceBytes, 1);
    Upload upload(emulated_gpu());
    upload.add(memory.tensors[0], values);
    cuda::emulation::fail_later(FaultPlace::work, after);
    upload.start();
    EXPECT_ERROR_SAYS(memory.read(0), ExitCode::memory, "CUDA_ERROR_LAUNCH_FAILED");
  }
}

// Models in the forms of their files: tied tables, experts in one tensor each, blocks, layers that
// decoding does not use, types that are converted, and matrices that are rounded.
struct Files {
  const char* name;
  const char* golden;
  DType dtype;
  const char* quantise = nullptr;
};

class UploadedModel : public ::testing::TestWithParam<Files> {
 protected:
  model::Loaded load(const std::function<void()>& between = {}) const {
    model::WeightChoice choice;
    if (GetParam().quantise) choice.quantise = {.format = GetParam().quantise};
    choice.between = between;
    return model::load((golden_dir() / "hf" / GetParam().golden).string(), built_plugins(),
                       GetParam().dtype, emulated_gpu(), choice);
  }
  // Logits of a prompt in two calls and of some single tokens, the last of which are replays.
  std::vector<float> decode(const model::Loaded& m) const {
    decode::Session session(m.model(), m.weights.pointers(),
                            {.capacity = 32, .call_tokens = 5, .dtype = GetParam().dtype},
                            emulated_gpu());
    const Rows rows = random_rows(m.model(), 1, 14);
    std::vector<float> out;
    std::span<const std::int32_t> rest = rows.ids;
    for (const std::size_t count : {5, 5, 1, 1, 1, 1}) {
      const auto logits = session.append(rest.first(count));
      out.insert(out.end(), logits.begin(), logits.end());
      rest = rest.subspan(count);
    }
    return out;
  }
};

TEST_P(UploadedModel, GivesTheBitsOfOneThatWasUploadedBefore) {
  const model::Loaded before = load();
  before.weights.wait_until_read();
  for (std::size_t i = 0; i < before.weights.pointers().size(); ++i)
    copy_to_host<std::byte>(emulated_gpu().context().queue(), before.weights.pointers()[i]);
  const std::vector<float> want = decode(before);
  EXPECT_EQ(decode(load()), want);
  // From a slow disk.
  EXPECT_EQ(decode(load([] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); })), want);
}

TEST_P(UploadedModel, IsReadNoFurtherThanAnError) {
  int calls = 0;
  std::mutex mutex;
  const model::Loaded m = load([&] {
    const std::lock_guard lock(mutex);
    if (++calls == 6) user_error(ExitCode::interrupted, "a signal", "ends the reading");
  });
  for (int time = 0; time < 2; ++time)
    EXPECT_ERROR_SAYS(decode(m), ExitCode::interrupted, "a signal: ends the reading");
}

INSTANTIATE_TEST_SUITE_P(All, UploadedModel,
                         ::testing::Values(Files{"Tied", "llama3_gqa", DType::f32},
                                           Files{"Experts", "mixtral_8x", DType::bf16},
                                           Files{"Blocks", "gpt_oss_mxfp4", DType::bf16},
                                           Files{"Fp8", "deepseek_v3_fp8", DType::f32},
                                           Files{"Prediction", "qwen3_next_mtp", DType::bf16},
                                           Files{"Rounded", "train_llama3", DType::bf16, "int4"}),
                         [](const auto& test) { return std::string(test.param.name); });

class CudaUploadedLlama : public ::testing::Test {
 protected:
  const std::string path_ = (golden_dir() / "hf" / "mistral_window").string();
  const decoder::Model model_ = open_model(path_);
  const Rows rows_ = random_rows(model_, 1, 12);

  weights::Weights load(const std::function<void()>& between = {}) const {
    return weights::Weights::load(model_, std::make_shared<io::WeightFiles>(path_), DType::f32,
                                  emulated_gpu(), {}, between);
  }
};

// After the embedding, reading waits until a kernel was launched; before the last piece, the
// kernels must have run.
TEST_F(CudaUploadedLlama, ComputesItsFirstLayersBeforeItsLastWeightsAreRead) {
  std::atomic<int> pieces = 0, calls = 0;
  const weights::Weights before = load([&] { ++pieces; });
  const std::vector<float> want =
      inspect::forward(model_, before.pointers(), rows_, {}, emulated_gpu()).logits;
  const std::int64_t launches = driver_counts().launches;
  const weights::Weights weights = load([&] {
    const int call = ++calls;
    if (call <= 2) return;
    await([&] { return driver_counts().launches > launches; });
    if (call == pieces) emulated_gpu().context().queue().record()->wait();
  });
  EXPECT_EQ(inspect::forward(model_, weights.pointers(), rows_, {}, emulated_gpu()).logits, want);
  EXPECT_EQ(calls, pieces);
}

TEST_F(CudaUploadedLlama, DecodesInReplaysWithoutWaitsForTheUpload) {
  const weights::Weights weights = load();
  decode::Session session(model_, weights.pointers(), {.capacity = 64}, emulated_gpu());
  const auto append = [&](std::size_t i) { session.append(std::span(rows_.ids).subspan(i, 1)); };
  for (std::size_t i = 0; i < 3; ++i) append(i);
  const auto before = driver_counts();
  for (std::size_t i = 3; i < 11; ++i) append(i);
  const auto after = driver_counts();
  EXPECT_EQ(after.replays - before.replays, 8);
  EXPECT_EQ(after.waits - before.waits, 8);  // for the logits
  EXPECT_EQ(after.captures, before.captures);
  EXPECT_EQ(after.launches, before.launches);
  EXPECT_EQ(after.allocations, before.allocations);
}

// Other weights at the same addresses: a graph of the first ones reads them when they have arrived.
TEST_F(CudaUploadedLlama, AGraphOfEarlierWeightsWaitsForNewOnes) {
  std::optional<weights::Weights> weights(load());
  decode::Session session(model_, weights->pointers(), {.capacity = 64}, emulated_gpu());
  const auto decode = [&] {
    session.reset();
    std::vector<float> out;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto logits = session.append(std::span(rows_.ids).subspan(i, 1));
      out.insert(out.end(), logits.begin(), logits.end());
    }
    return out;
  };
  const std::vector<float> want = decode();
  const Address place = weights->pointers()[0].address();
  weights.reset();
  weights.emplace(load([] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }));
  ASSERT_EQ(weights->pointers()[0].address(), place);
  EXPECT_EQ(decode(), want);
}

// A file that becomes shorter while it is read.
TEST_F(CudaUploadedLlama, ATruncatedFileEndsTheProgramWithItsCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto truncate = [&] {
    io::report_mapping_faults();
    TempDir folder;
    const std::string path = add_golden_model(folder, "mistral_window");
    std::atomic<int> calls = 0;
    const weights::Weights weights = weights::Weights::load(
        model_, std::make_shared<io::WeightFiles>(path), DType::f32, emulated_gpu(), {}, [&] {
          if (++calls == 3) std::filesystem::resize_file(path + "/model.safetensors", 0);
        });
    inspect::forward(model_, weights.pointers(), rows_, {}, emulated_gpu());
  };
  EXPECT_EXIT(truncate(), ::testing::ExitedWithCode(4), "model.safetensors: can no longer be read");
}

TEST(CudaUploadProgram, ShowsSizeAndTimeOfTheUpload) {
  const Finished run = run_process({LAMINA_BUILD_DIR "/bin/lamina_emulated", "decode", "-m",
                                    (golden_dir() / "hf" / "mistral_window").string(), "--ids",
                                    "1,2", "-n", "2", "--device", "cuda", "--stats"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, ::testing::ContainsRegex("uploaded [0-9.]+ .iB of weights in [0-9.,]+ [mu]s "
                                                "beside other work, which waited [0-9.,]+ [mu]s"));
}

// The last matrix of a model is not a number.
TEST(CudaUploadProgram, AWeightThatIsNotFiniteEndsItBeforeItPrints) {
  TempDir folder;
  const std::string model = add_golden_model(folder, "train_llama3");
  {
    const io::WeightFiles files(model);
    const auto bytes = files.tensor("model.layers.1.mlp.up_proj.weight").bytes;
    const std::string values(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::string file = folder.read("model/model.safetensors");
    const std::size_t begin = file.find(values);
    ASSERT_NE(begin, file.npos);
    file.replace(begin, values.size(), values.size(), '\xff');
    folder.write("model/model.safetensors", file);
  }
  for (const char* echo : {"--echo", "--no-echo"}) {
    std::vector<std::string> words = {LAMINA_BUILD_DIR "/bin/lamina_emulated",
                                      "decode",
                                      "-m",
                                      model,
                                      "-p",
                                      "the light",
                                      "-n",
                                      "2",
                                      "--quantize",
                                      "int4",
                                      "--device",
                                      "cuda"};
    if (echo == std::string("--echo")) words.emplace_back(echo);
    const Finished run = run_process(words);
    EXPECT_EQ(run.code, 4) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, HasSubstr("'layers.1.feed_forward.w3.weight' has values in row "));
    EXPECT_THAT(run.err, HasSubstr("not finite"));
  }
}

}  // namespace
}  // namespace lamina::testing
