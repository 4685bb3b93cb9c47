// Training on several emulated GPUs: the losses of one GPU, and the same bits on all ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cuda/context.h"
#include "cuda/gpu.h"
#include "cuda/gpu_group.h"
#include "inspect/plan/train_plan.h"
#include "model/teacher.h"
#include "model/training.h"
#include "runtime/host_access.h"
#include "support/expect_error.h"
#include "support/small_runs.h"

namespace lamina::testing {
namespace {

struct ParallelRun {
  friend std::ostream& operator<<(std::ostream& out, const ParallelRun& c) { return out << c.name; }
  const char* name;
  int gpus;
  std::string model;
  std::vector<std::string> sets;
  double tolerance;  // relative, of losses and gradient norms
};

const std::string kMoe =
    "family = \"mixtral\"\n[model]\nvocab_size = 258\nhidden_size = 16\nintermediate_size = 24\n"
    "num_hidden_layers = 2\nnum_attention_heads = 2\nnum_key_value_heads = 2\n"
    "num_local_experts = 4\nnum_experts_per_tok = 2\n";

const std::vector<ParallelRun> kRuns = {
    // The gradient of the token table is a list of rows.
    {"Plain", 2, kSmallLlama, {"train.dtype=float32"}, 1e-6},
    {"FourGpus", 4, kSmallLlama, {"train.dtype=float32"}, 1e-6},
    {"Microbatches", 2, kSmallLlama, {"train.dtype=float32", "train.microbatch_size=1"}, 1e-6},
    {"LazyEmbeddings",
     2,
     kSmallLlama,
     {"train.dtype=float32", "optimizer.lazy_embeddings=true", "train.microbatch_size=1"},
     1e-6},
    {"Bf16AndAverage",
     2,
     kSmallLlama,
     {"train.dtype=bfloat16", "train.ema=0.75", "train.eval_weights=ema", "checkpoint.async=true"},
     1e-2},
    {"Offload",
     2,
     kSmallLlama,
     {"train.dtype=bfloat16", "optimizer.offload=true", "train.remat=minimal_offloaded"},
     1e-2},
    {"Remat", 2, kSmallLlama, {"train.dtype=float32", "train.remat=full"}, 1e-6},
    {"UnrolledLayers", 2, kSmallLlama, {"train.dtype=float32", "train.scan_layers=false"}, 1e-6},
    {"Muon", 2, kSmallLlama, {"train.dtype=float32", "optimizer.name=muon"}, 1e-5},
    {"SmallMoments", 2, kSmallLlama, {"train.dtype=float32", "optimizer.moments=8bit"}, 1e-4},
    {"Experts", 2, kMoe, {"train.dtype=float32", "train.microbatch_size=1"}, 1e-6},
    {"Adapter",
     2,
     "",
     {"train.from=model", "lora.rank=4", "lora.use_dora=true", "train.dtype=float32"},
     1e-6},
    {"InBackward",
     2,
     kSmallLlama,
     {"train.dtype=float32", "optimizer.in_backward=true", "train.clip_norm=0"},
     1e-6},
    {"InBackwardAndClipEach",
     4,
     kSmallLlama,
     {"train.dtype=float32", "optimizer.in_backward=true", "train.clip_each=true",
      "train.clip_norm=0.05", "train.scan_layers=false"},
     1e-6},
    {"InBackwardOffloaded",
     2,
     kSmallLlama,
     {"train.dtype=bfloat16", "optimizer.in_backward=true", "train.clip_norm=0",
      "optimizer.offload=true", "train.ema=0.75"},
     1e-2},
    {"InBackwardMuon",
     2,
     kSmallLlama,
     {"train.dtype=float32", "optimizer.in_backward=true", "train.clip_norm=0",
      "optimizer.name=muon"},
     1e-5},
    {"InBackwardSmallMoments",
     2,
     kSmallLlama,
     {"train.dtype=float32", "optimizer.in_backward=true", "train.clip_norm=0",
      "optimizer.moments=8bit"},
     1e-4},
    {"InBackwardExperts",
     2,
     kMoe,
     {"train.dtype=float32", "optimizer.in_backward=true", "train.clip_norm=0",
      "optimizer.name=adafactor"},
     1e-5},
    {"InBackwardAdapter",
     2,
     "",
     {"train.from=model", "lora.rank=4", "lora.use_dora=true", "train.dtype=float32",
      "optimizer.in_backward=true", "train.clip_norm=0"},
     1e-6},
    {"Distillation",
     2,
     "",
     {"train.from=model", "train.dtype=float32", "distillation.teacher=model",
      "distillation.dtype=float32", "distillation.alpha=0.5", "distillation.top_k=8"},
     1e-6},
    {"DistillationOfLayers",
     4,
     "",
     {"train.from=model", "train.dtype=float32", "distillation.teacher=model",
      "distillation.dtype=float32", "distillation.alpha=0.5", "distillation.temperature=2",
      "distillation.hidden_layers=[\"0:1\", \"last:last\"]"},
     1e-6},
};

// A folder with the files of a run.
class RunFolder {
 public:
  explicit RunFolder(const ParallelRun& c) : sets_(c.sets) {
    if (c.model.empty()) add_golden_model(folder_, "llama3_gqa");
    folder_.write("text.txt", text_of_words(60));
    file_ = folder_.write("run.toml",
                          c.model + "[data]\n" + kSmallText + "validation_fraction = 0.2\n" +
                              "[train]\nsteps = 4\nbatch_size = 4\neval_every_steps = 2\n" +
                              "[optimizer]\nlr = 5e-3\n[checkpoint]\nevery_steps = 2\n" +
                              "[run]\nout = \"out\"\nseed = 5\n");
    for (std::string& set : sets_)
      if (set.ends_with("=model")) set.replace(set.size() - 5, 5, folder_ / "model");
  }
  // On `gpus` GPUs, or with null on one. Every rank has the same bits afterwards.
  std::vector<train::StepResult> train(GpuGroup* gpus, std::int64_t steps = 4) {
    RunOfFile run(file_, sets_, gpus ? gpus->first() : emulated_gpu(),
                  gpus ? gpus->get() : nullptr);
    std::vector<train::StepResult> out;
    train::LoopEvents events;
    events.step = [&](const train::LoopEvents::Step& step) { out.push_back(step.result); };
    events.should_stop = [&] { return run.run->loop().progress().step >= steps; };
    validation_ = run.run->loop().run(events).validation_loss.value_or(0);
    if (gpus) expect_equal_states(*run.run->loop().replicas(), **gpus);
    checkpoint_ = run.checkpoint();
    return out;
  }
  // Trains, and expects each GPU to allocate no more than the plan of the run contains.
  void expect_planned_memory(GpuGroup& gpus) {
    config::RunConfig config = config::load_run(file_, {sets_, {}});
    train::share_among(config, (*gpus).size());
    const auto model = model::open_trained(config, built_plugins());
    const inspect::TrainPlan plan = inspect::plan_training(
        *model, config, gpus.first(), model::describe_teacher(config, built_plugins(), *model),
        (*gpus).size());
    const auto used = [&] {
      std::vector<std::size_t> out;
      for (const auto& rank : (*gpus).ranks) {
        static_cast<cuda::CudaContext&>(rank->backend().context()).enter();
        std::size_t free = 0, total = 0;
        EXPECT_EQ(cuda::emulation::driver().memory_info(&free, &total),
                  cuda::DriverResult::success);
        out.push_back(total - free);
      }
      return out;
    };
    const std::vector<std::size_t> before = used();
    RunOfFile run(file_, sets_, gpus.first(), gpus.get());
    run.train();
    const std::vector<std::size_t> after = used();
    // Copies for checkpoints are in the memory of the host.
    const std::size_t planned = plan.memory_bytes() - plan.memory.checkpoint;
    // The first GPU also has a few KiB for norms and validation that no plan counts.
    constexpr std::size_t kUnplanned = 8192;
    for (std::size_t rank = 0; rank < after.size(); ++rank) {
      SCOPED_TRACE(fmt::format("rank {}", rank));
      EXPECT_LE(after[rank] - before[rank], planned + (rank == 0 ? kUnplanned : 0));
      EXPECT_GT(after[rank] - before[rank], planned / 2);
    }
  }
  double validation() const { return validation_; }
  std::map<std::string, std::vector<std::byte>> tensors() const {
    std::map<std::string, std::vector<std::byte>> out;
    for (const char* stem : {"model", "optimizer"}) {
      const io::WeightFiles files(checkpoint_, stem);
      for (const std::string_view name : files.names()) {
        const auto bytes = files.tensor(name).bytes;
        out[fmt::format("{}/{}", stem, name)] = {bytes.begin(), bytes.end()};
      }
    }
    return out;
  }
  const std::string& file() const { return file_; }

 private:
  // All but the lists of rows of one microbatch.
  static std::vector<std::vector<std::byte>> bytes_of(const train::TrainState& state) {
    std::vector<std::vector<std::byte>> out;
    const auto add = [&](const ConstTensorRef& tensor) {
      if (!tensor) return;
      read_tensor<std::byte>(state.queue(), tensor, [&](std::span<const std::byte> bytes) {
        out.emplace_back(bytes.begin(), bytes.end());
      });
    };
    for (const ConstTensorRef& tensor : state.used()) add(tensor);
    for (const auto tensors : {state.masters(), state.averages(), state.gradients(),
                               state.gradient_ids(), state.copies()})
      for (const TensorRef& tensor : tensors) add(tensor);
    for (const train::OptimizerState& kept : state.optimizer_states())
      for (const TensorRef& tensor : kept.data) add(tensor);
    return out;
  }
  static void expect_equal_states(const train::Replicas& replicas, const CommunicatorGroup& group) {
    const auto first = bytes_of(replicas.state(0));
    for (int rank = 1; rank < group.size(); ++rank)
      EXPECT_TRUE(bytes_of(replicas.state(rank)) == first) << "rank " << rank;
  }

  TempDir folder_;
  std::vector<std::string> sets_;
  std::string file_, checkpoint_;
  double validation_ = 0;
};

void expect_same_curve(const std::vector<train::StepResult>& got,
                       const std::vector<train::StepResult>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i].loss, want[i].loss, tolerance * std::abs(want[i].loss)) << "step " << i + 1;
    EXPECT_NEAR(got[i].total, want[i].total, tolerance * std::abs(want[i].total));
    EXPECT_NEAR(got[i].gradient_norm, want[i].gradient_norm,
                10 * tolerance * want[i].gradient_norm);
    EXPECT_EQ(got[i].num_labels, want[i].num_labels);
    ASSERT_EQ(got[i].terms.size(), want[i].terms.size());
    for (std::size_t t = 0; t < want[i].terms.size(); ++t)
      EXPECT_NEAR(got[i].terms[t].mean, want[i].terms[t].mean,
                  10 * tolerance * std::abs(want[i].terms[t].mean) + 1e-7)
          << want[i].terms[t].term.name;
  }
}

class CudaParallel : public ::testing::TestWithParam<ParallelRun> {};

TEST_P(CudaParallel, GivesTheCurveOfOneGpu) {
  RunFolder one(GetParam()), several(GetParam());
  const auto want = one.train(nullptr);
  GpuGroup gpus(GetParam().gpus);
  const auto got = several.train(&gpus);
  expect_same_curve(got, want, GetParam().tolerance);
  EXPECT_NEAR(several.validation(), one.validation(),
              10 * GetParam().tolerance * std::abs(one.validation()));
}

INSTANTIATE_TEST_SUITE_P(All, CudaParallel, ::testing::ValuesIn(kRuns),
                         [](const auto& test) { return std::string(test.param.name); });

class CudaParallelMemory : public ::testing::TestWithParam<const char*> {};

TEST_P(CudaParallelMemory, IsAsPlanned) {
  const auto of = std::ranges::find(kRuns, std::string_view(GetParam()), &ParallelRun::name);
  ASSERT_NE(of, kRuns.end());
  GpuGroup gpus(of->gpus);
  RunFolder(*of).expect_planned_memory(gpus);
}

INSTANTIATE_TEST_SUITE_P(All, CudaParallelMemory,
                         ::testing::Values("Plain", "Microbatches", "LazyEmbeddings", "Offload",
                                           "InBackward", "InBackwardOffloaded", "Muon",
                                           "Distillation"),
                         [](const auto& test) { return std::string(test.param); });

// A run with the proposed settings has the memory of the proposal, for every budget.
TEST(CudaParallelFit, ProposesWhatThePlanContains) {
  const RunFolder folder(kRuns[0]);
  for (const int gpus : {1, 2}) {
    config::RunConfig run = config::load_run(folder.file(), {});
    train::share_among(run, gpus);
    const auto model = model::open_trained(run, built_plugins());
    std::size_t budget = std::size_t{1} << 40;
    int proposals = 0;
    while (const auto fit =
               inspect::fit_training(*model, run, budget, emulated_gpu(), nullptr, gpus).fit) {
      EXPECT_EQ(fit->microbatches * fit->microbatch_size, 4 / gpus);
      config::RunConfig proposed = run;
      proposed.train.microbatch_size = fit->microbatch_size;
      proposed.train.remat = fit->remat;
      proposed.checkpoint.async = fit->async_checkpoints;
      const inspect::TrainPlan plan =
          inspect::plan_training(*model, proposed, emulated_gpu(), nullptr, gpus);
      EXPECT_EQ(plan.memory_bytes(), fit->memory_bytes) << fit->microbatch_size << fit->remat;
      EXPECT_GT(plan.transfer_bytes, 0u);
      budget = fit->memory_bytes - 1;
      ++proposals;
    }
    EXPECT_GT(proposals, 2);
  }
}

TEST(CudaParallelRuns, HaveTheSameBitsEachTime) {
  std::map<std::string, std::vector<std::byte>> first;
  for (int round = 0; round < 2; ++round) {
    RunFolder folder(kRuns[2]);
    GpuGroup gpus(2);
    folder.train(&gpus);
    if (round == 0)
      first = folder.tensors();
    else
      EXPECT_TRUE(folder.tensors() == first);
  }
}

TEST(CudaParallelRuns, ContinueOnAnotherNumberOfGpus) {
  const ParallelRun& c = kRuns[2];
  RunFolder whole(c), to_two(c), to_one(c);
  const auto want = whole.train(nullptr);
  const std::vector<train::StepResult> last(want.begin() + 2, want.end());
  to_two.train(nullptr, 2);
  {
    GpuGroup gpus(2);
    expect_same_curve(to_two.train(&gpus), last, c.tolerance);
    to_one.train(&gpus, 2);
  }
  expect_same_curve(to_one.train(nullptr), last, c.tolerance);
}

TEST(CudaParallelRuns, UpdatesInBackwardContinueOnAnotherNumberOfGpus) {
  const auto c = std::ranges::find(kRuns, std::string_view("InBackward"), &ParallelRun::name);
  RunFolder whole(*c), parts(*c);
  const auto want = whole.train(nullptr);
  const auto step = [&](std::size_t i) { return std::vector{want[i]}; };
  expect_same_curve(parts.train(nullptr, 1), step(0), c->tolerance);
  {
    GpuGroup gpus(2);
    expect_same_curve(parts.train(&gpus, 2), step(1), c->tolerance);
  }
  expect_same_curve(parts.train(nullptr, 3), step(2), c->tolerance);
}

// Bit for bit, as on one GPU.
TEST(CudaParallelRuns, ContinueToTheSameBits) {
  const ParallelRun& c = kRuns[1];
  RunFolder whole(c), parts(c);
  GpuGroup gpus(4);
  whole.train(&gpus);
  parts.train(&gpus, 2);
  parts.train(&gpus);
  EXPECT_TRUE(parts.tensors() == whole.tensors());
}

TEST(CudaParallelRuns, PreferencesCompareWithTheStart) {
  TempDir folder;
  folder.write("pairs.jsonl", pairs_text());
  const std::string text = kSmallLlama +
                           "[data]\ntrain = [\"pairs.jsonl\"]\nform = \"preference\"\n"
                           "sequence_length = 64\n[train]\nsteps = 3\nbatch_size = 2\n"
                           "dtype = \"float32\"\n[preference]\nloss = \"dpo\"\n[run]\nseed = 5\n";
  const auto train = [&](const char* out, GpuGroup* gpus) {
    return RunOfFile(folder.write(std::string(out) + ".toml", text + "out = \"" + out + "\"\n"), {},
                     gpus ? gpus->first() : emulated_gpu(), gpus ? gpus->get() : nullptr)
        .steps();
  };
  const auto want = train("one", nullptr);
  GpuGroup gpus(2);
  expect_same_curve(train("two", &gpus), want, 1e-6);
}

TEST(CudaParallelRuns, AStepThatIsNotFiniteEndsAllBeforeAnUpdate) {
  RunFolder folder(kRuns[0]);
  GpuGroup gpus(2);
  RunOfFile run(folder.file(),
                {"train.dtype=float32", "optimizer.lr=1e30", "train.clip_norm=0", "train.steps=20"},
                gpus.first(), gpus.get());
  EXPECT_ERROR_SAYS(run.train(), ExitCode::numerical, "nothing was updated");
}

void expect_refused(const std::vector<std::string>& sets, const char* text) {
  RunFolder folder(kRuns[0]);
  EXPECT_ERROR_SAYS(
      {
        config::RunConfig config = config::load_run(folder.file(), {sets, {}});
        train::share_among(config, 2);
      },
      ExitCode::usage, text);
}

TEST(CudaParallelRuns, RefuseABatchThatTheyCannotShare) {
  expect_refused({"train.batch_size=3"},
                 "train.batch_size: is 3 rows, which 2 devices cannot share\n"
                 "  use a multiple of 2");
  expect_refused({"train.batch_size=8", "train.microbatch_size=8"},
                 "train.microbatch_size: is 8; each of 2 devices has 4 of the 8 rows of a step\n"
                 "  use a divisor of 4");
}

}  // namespace
}  // namespace lamina::testing
