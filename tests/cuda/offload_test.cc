// Values and optimizer state in pinned host memory, on the emulated GPU: the same bits as without
// offloading, and less memory on the GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/emulation/blas.h"
#include "cuda/gpu.h"
#include "graph/bytes_type.h"
#include "support/device_models.h"
#include "support/expect_error.h"
#include "support/small_runs.h"

namespace lamina::testing {
namespace {

using cuda::emulation::driver_counts;
using cuda::emulation::DriverCounts;

SmallRun with(SmallRun run, const std::vector<std::string>& sets) {
  run.sets.insert(run.sets.end(), sets.begin(), sets.end());
  return run;
}

void expect_same(const Trained& got, const Trained& want) {
  EXPECT_EQ(got.losses, want.losses);
  ASSERT_EQ(got.tensors.size(), want.tensors.size());
  for (const auto& [name, bytes] : want.tensors) EXPECT_EQ(got.tensors.at(name), bytes) << name;
}

// ---- values between the passes

const std::string kLlama =
    "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 16\nintermediate_size = 24\n"
    "num_attention_heads = 2\n";
const std::string kDeepLlama = kLlama + "num_hidden_layers = 7\n";
const std::string kShallowLlama = kLlama + "num_hidden_layers = 2\n";

std::vector<std::string> tags_in(const std::string& place) {
  std::vector<std::string> out{"train.dtype=float32", "train.remat=custom"};
  for (const char* tag : {"query_proj", "mlpwi_0", "mlpwo", "context", "decoder_layer_input"})
    out.push_back(fmt::format("train.remat_tags.{}={}", tag, place));
  return out;
}

TEST(OffloadedValues, HaveTheBitsOfValuesThatStay) {
  for (const char* scans : {"true", "false"}) {
    const SmallRun run{"", kDeepLlama, kSmallText, {std::string("train.scan_layers=") + scans}};
    expect_same(train_on(test_gpu(), with(run, tags_in("offload"))),
                train_on(test_gpu(), with(run, tags_in("device"))));
  }
}

// Loss and gradients of a step, and its program.
struct Step {
  Step(const decoder::Model& model, const train::TrainStepOptions& step_options,
       const config::OptimizerSection& optimizer = {}, const Backend& gpu = emulated_gpu())
      : options(step_options),
        rows(random_rows(model, 2, options.shape.tokens)),
        graph(train::step_graph(model, options)),
        state(model.parameters(), options.shape.dtype, false, gpu,
              train::gradient_lists(graph, model.parameters(), 1), optimizer),
        step(model, std::move(graph), state, options, optimizer, gpu) {
    initialise(state, model);
  }
  double run(int number) {
    const program::Microbatch batch = rows.microbatch();
    return step.run({&batch, 1}, 1e-3, number).loss;
  }
  Program& program() { return step.program().program(); }

  train::TrainStepOptions options;
  Rows rows;
  decoder::ModelGraph graph;
  train::TrainState state;
  train::TrainStep step;
};

train::TrainStepOptions options_of(const std::string& place, DType dtype = DType::f32) {
  return {.shape = {2, 16, dtype},
          .features = train::all_losses(false),
          .remat = "custom",
          .remat_tags = {{"query_proj", place}, {"mlpwi_0", place}, {"context", place}}};
}

TEST(OffloadedValues, LeaveTheMemoryOfTheGpu) {
  const decoder::Model model = open_description(kDeepLlama);
  Step kept(model, options_of("device")), offloaded(model, options_of("offload"));
  const std::size_t bytes = offloaded.program().host_bytes();
  EXPECT_EQ(kept.program().host_bytes(), 0u);
  // 7 layers of queries, inner values, and the context with its log-sum-exp.
  EXPECT_GE(bytes, 7u * 2 * 16 * (16 + 24 + 16) * sizeof(float));
  EXPECT_EQ(offloaded.program().stored_bytes(), static_cast<double>(bytes));
  EXPECT_EQ(offloaded.program().loaded_bytes(), static_cast<double>(bytes));
  // Two of the layers have buffers.
  EXPECT_LE(offloaded.program().arena_bytes() + bytes / 7 * 5, kept.program().arena_bytes());
}

TEST(OffloadedValues, StayInMemoryOnTheCpu) {
  const decoder::Model model = open_description(kDeepLlama);
  Step kept(model, options_of("device"), {}, cpu::cpu_backend()),
      offloaded(model, options_of("offload"), {}, cpu::cpu_backend());
  EXPECT_EQ(offloaded.program().host_bytes(), 0u);
  EXPECT_EQ(offloaded.program().arena_bytes(), kept.program().arena_bytes());
}

// Copies are forked branches of the graph of a step; its branches run in any order that events
// allow.
TEST(OffloadedValues, AreCopiedInReplayedGraphs) {
  const decoder::Model model = open_description(kDeepLlama);
  Step kept(model, options_of("device")), offloaded(model, options_of("offload"));
  for (int i = 0; i < 6; ++i) {
    const double want = kept.run(i);
    const DriverCounts before = driver_counts();
    cuda::emulation::poison_at_replay(offloaded.program().arena_bytes());
    EXPECT_EQ(offloaded.run(i), want);
    cuda::emulation::stop_poison();
    if (i < 3) continue;
    EXPECT_GE(driver_counts().replays - before.replays, 1);
    EXPECT_EQ(driver_counts().captures, before.captures);
    EXPECT_EQ(driver_counts().allocations, before.allocations);
  }
}

TEST(OffloadedValues, AreCopiesInATrace) {
  const decoder::Model model = open_description(kDeepLlama);
  Step step(model, options_of("offload"));
  Trace trace;
  step.step.set_trace(&trace);
  step.run(0);
  step.step.set_trace(nullptr);
  double to = 0, from = 0;
  for (const TraceEvent& event : trace.events) {
    if (!event.is_copy()) continue;
    EXPECT_GE(event.seconds, 0);
    (*event.kernel == "to host memory" ? to : from) += event.copied_bytes;
  }
  EXPECT_EQ(to, step.program().stored_bytes());
  EXPECT_EQ(from, step.program().loaded_bytes());
}

// ---- state of the optimizer

class OffloadedState : public ::testing::TestWithParam<SmallRun> {};

TEST_P(OffloadedState, HasTheBitsOfStateThatStays) {
  expect_same(train_on(test_gpu(), with(GetParam(), {"optimizer.offload=true"})),
              train_on(test_gpu(), GetParam()));
}

std::vector<SmallRun> runs_with_offload() {
  std::vector<SmallRun> out = kSmallRuns;
  const auto add = [&](const char* name, std::vector<std::string> sets) {
    out.push_back({name, kSmallLlama, kSmallText, std::move(sets)});
  };
  add("Bf16", {"train.dtype=bfloat16"});
  add("Bf16InBackward",
      {"train.dtype=bfloat16", "optimizer.in_backward=true", "train.clip_norm=0"});
  add("Bf16Muon", {"train.dtype=bfloat16", "optimizer.name=muon"});
  add("Lion", {"train.dtype=bfloat16", "optimizer.name=lion"});
  add("Adafactor", {"train.dtype=bfloat16", "optimizer.name=adafactor"});
  add("LazyEmbeddings", {"train.dtype=bfloat16", "optimizer.lazy_embeddings=true"});
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, OffloadedState, ::testing::ValuesIn(runs_with_offload()),
                         [](const auto& test) { return std::string(test.param.name); });

// Two moments, and the weights in f32 that have a copy in `dtype`.
std::size_t state_bytes(const decoder::Model& model, DType dtype) {
  std::size_t out = 0;
  for (const decoder::Parameter& p : model.parameters().all())
    out += static_cast<std::size_t>(p.num_elements()) * sizeof(float) *
           (p.used_dtype(dtype) == DType::f32 ? 2 : 3);
  return out;
}

TEST(OffloadedStates, LeaveTheMemoryOfTheGpu) {
  const decoder::Model model = open_description(kDeepLlama);
  Step kept(model, options_of("device", DType::bf16)),
      offloaded(model, options_of("device", DType::bf16), {.offload = true});
  EXPECT_GE(offloaded.state.offloaded_bytes(), state_bytes(model, DType::bf16));
  EXPECT_EQ(offloaded.state.bytes() + offloaded.state.offloaded_bytes(), kept.state.bytes());
  Step in_f32(model, options_of("device"), {.offload = true});
  EXPECT_GE(in_f32.state.offloaded_bytes(), state_bytes(model, DType::f32));
  EXPECT_LT(in_f32.state.offloaded_bytes(), offloaded.state.offloaded_bytes());
}

// The copies of a step have room in a stream; the copies of deep models wait for it.
TEST(OffloadedStates, AreUpdatedWithoutWaitsOrAllocations) {
  const decoder::Model model = open_description(kShallowLlama);
  Step kept(model, options_of("device", DType::bf16)),
      offloaded(model, options_of("device", DType::bf16), {.offload = true});
  const auto waits_of_a_step = [](Step& step) {
    for (int i = 0; i < 3; ++i) step.run(i);
    const DriverCounts before = driver_counts();
    step.run(3);
    EXPECT_EQ(driver_counts().allocations, before.allocations);
    return driver_counts().waits - before.waits;
  };
  const auto waits = waits_of_a_step(kept);
  EXPECT_EQ(waits_of_a_step(offloaded), waits);
}

// QK-clip changes weights between updates, through the memory of the host.
TEST(OffloadedStates, AreThereForOtherChangesOfWeights) {
  const decoder::Model model = open_model(test_model("deepseek_v2_predicts").path);
  train::TrainStepOptions options{.shape = {2, test_tokens(model), DType::bf16},
                                  .features = train::all_losses(false)};
  options.features.max_logits = true;
  Step kept(model, options, {.qk_clip = 1e-5}),
      offloaded(model, options, {.offload = true, .qk_clip = 1e-5}),
      unclipped(model, options, {.offload = true});
  bool differs = false;
  for (int i = 0; i < 3; ++i) {
    const double want = kept.run(i);
    EXPECT_EQ(offloaded.run(i), want);
    differs = unclipped.run(i) != want || differs;
  }
  EXPECT_TRUE(differs);
  for (int i = 0; i < std::ssize(model.parameters().all()); ++i)
    EXPECT_EQ(offloaded.state.values(i), kept.state.values(i));
}

// The embedding has more elements than a group, the layers have less.
TEST(OffloadedStates, AreUpdatedInGroupsOfUpTo4MiElements) {
  const decoder::Model model = open_description(
      "family = \"llama2\"\n[model]\nvocab_size = 70000\nhidden_size = 64\n"
      "intermediate_size = 160\nnum_hidden_layers = 40\nnum_attention_heads = 2\n");
  const decoder::ParameterTable& parameters = model.parameters();
  const auto groups_with = [&](bool offload, const train::GradientLists& lists) {
    return train::fused_groups(parameters, {.offload = offload}, lists,
                               [](int parameter) { return parameter % 2 == 0; });
  };
  EXPECT_EQ(groups_with(false, {}).size(), 1u);
  train::GradientLists lists;
  lists.step.assign(parameters.all().size(), 0);
  for (const bool has_list : {false, true}) {
    int table = -1;
    for (int i = 0; i < std::ssize(parameters.all()); ++i)
      if (parameters[i].num_elements() == 70000 * 64) table = i;
    ASSERT_GE(table, 0);
    if (has_list) lists.step[static_cast<std::size_t>(table)] = 100;
    std::map<int, std::int64_t> covered;
    std::size_t most_parts = 0;
    for (const std::vector<train::FusedPart>& group : groups_with(true, lists)) {
      std::int64_t elements = 0;
      for (const train::FusedPart& part : group) {
        EXPECT_EQ(part.first, covered[part.parameter]);
        EXPECT_EQ(part.kind.copy, part.parameter % 2 == 0);
        EXPECT_EQ(part.kind.slots, has_list && part.parameter == table ? 100 : 0);
        covered[part.parameter] += part.num_elements();
        elements += part.num_elements();
      }
      if (group.front().kind.slots > 0) {
        EXPECT_EQ(group.size(), 1u);
      } else {
        EXPECT_LE(elements, train::kMaxPiece);
      }
      most_parts = std::max(most_parts, group.size());
    }
    EXPECT_EQ(covered.size(), parameters.all().size());
    for (const auto& [parameter, elements] : covered)
      EXPECT_EQ(elements, parameters[parameter].num_elements());
    EXPECT_GT(most_parts, 40u);
  }
}

// A whole table is copied alone: nothing else fits into the buffers.
TEST(OffloadedStates, LargeTablesHaveAllBuffers) {
  train::StateSizes sizes;
  sizes.add(100);
  EXPECT_EQ(sizes.bytes(), 300u);
  sizes.add(train::StateSizes::kMostBytes + 1);
  EXPECT_EQ(sizes.buffer_bytes(), 100u);
  EXPECT_EQ(sizes.bytes(), train::StateSizes::kMostBytes + 1);
}

// Sizes in bytes; those above 512 are copied alone. Every third update changes its copy only.
TEST(OffloadedStates, AreCopiedBesideLargeTables) {
  const std::vector<std::int64_t> all = {100, 64, 700, 512, 900, 800, 3, 512, 100, 512};
  const Backend& gpu = test_gpu();
  Queue& queue = gpu.context().queue();
  const auto bytes_of = [&](const TensorRef& tensor) {
    std::vector<std::byte> out(tensor.bytes());
    queue.copy(host_tensor(out.data(), tensor.type()), tensor);
    queue.finish();
    return out;
  };
  train::StateSizes sizes(512);
  std::vector<std::unique_ptr<Buffer>> memory;
  std::vector<TensorRef> homes, seen;
  std::vector<std::vector<std::byte>> want;
  for (const std::int64_t count : all) {
    const auto bytes = static_cast<std::size_t>(count);
    const Type type = bytes_type(bytes);
    sizes.add(aligned(bytes));
    homes.emplace_back(*memory.emplace_back(gpu.allocate_for_copies(bytes)), 0, type);
    seen.emplace_back(*memory.emplace_back(gpu.allocate(bytes)), 0, type);
    want.emplace_back(bytes, static_cast<std::byte>(100 + want.size()));
    queue.copy(homes.back(), host_tensor(std::as_const(want.back()).data(), type));
    queue.finish();
  }
  train::StateBuffers buffers(gpu);
  for (int series = 1; series <= 3; ++series) {
    buffers.begin(sizes);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const TensorRef here = buffers.load({&homes[i], 1})[0];
      queue.copy(seen[i], here);
      queue.fill(here, static_cast<std::byte>(16 * series + static_cast<int>(i)));
      i % 3 == 1 ? buffers.release() : buffers.store();
    }
    buffers.end();
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(bytes_of(seen[i]), want[i]) << i;
      if (i % 3 != 1)
        want[i].assign(want[i].size(), static_cast<std::byte>(16 * series + static_cast<int>(i)));
      EXPECT_EQ(bytes_of(homes[i]), want[i]) << i;
    }
  }
}

TEST(OffloadedStates, AreCopiesInATrace) {
  const decoder::Model model = open_description(kDeepLlama);
  Step step(model, options_of("device", DType::bf16), {.offload = true});
  Trace trace;
  step.step.set_trace(&trace);
  step.run(0);
  step.step.set_trace(nullptr);
  double to = 0, from = 0;
  for (const TraceEvent& event : trace.events)
    if (event.is_copy()) (*event.kernel == "to host memory" ? to : from) += event.copied_bytes;
  EXPECT_EQ(to, static_cast<double>(state_bytes(model, DType::bf16)));
  EXPECT_EQ(from, to);
}

// A run may change the key when it is resumed.
TEST(OffloadedStates, ContinueARunWithoutAndTheOtherWayRound) {
  const auto train = [](const char* first, const char* then) {
    TempDir folder;
    folder.write("text.txt", text_of_words(40));
    const std::string file = folder.write(
        "run.toml", kSmallLlama + "[data]\n" + kSmallText +
                        "[train]\nsteps = 4\nbatch_size = 2\ndtype = \"bfloat16\"\n[run]\n"
                        "out = \"out\"\nseed = 5\n");
    RunOfFile(file, {first}, test_gpu()).train(2);
    RunOfFile second(file, {then}, test_gpu());
    EXPECT_EQ(second.run->loop().progress().step, 2);
    return second.train().last_loss;
  };
  const char *on = "optimizer.offload=true", *off = "optimizer.offload=false";
  const double want = train(off, off);
  EXPECT_EQ(train(off, on), want);
  EXPECT_EQ(train(on, off), want);
}

TEST(OffloadedStates, StayInMemoryOnTheCpu) {
  const decoder::Model model = open_description(kDeepLlama);
  Step step(model, options_of("device"), {.offload = true}, cpu::cpu_backend());
  EXPECT_EQ(step.state.offloaded_bytes(), 0u);
}

// ---- faults

struct Sets {
  const char* name;
  std::vector<std::string> sets;
};
class OffloadFaults : public ::testing::TestWithParam<Sets> {};

std::string write_run(const TempDir& folder) {
  folder.write("text.txt", text_of_words(40));
  return folder.write("run.toml",
                      kDeepLlama + "[data]\n" + kSmallText +
                          "[train]\nsteps = 6\nbatch_size = 2\n[checkpoint]\nevery_steps = 2\n"
                          "[run]\nout = \"out\"\nseed = 5\n");
}

// Every piece of work of a step, copies among them, may be the one that fails.
TEST_P(OffloadFaults, AFailedCopyEndsTheRunAndItContinues) {
  const ResetAfter reset;
  double want = 0;
  {
    TempDir folder;
    want = RunOfFile(write_run(folder), GetParam().sets, emulated_gpu()).train().last_loss;
  }
  for (const int after : {1, 3, 8, 21}) {
    TempDir folder;
    const std::string file = write_run(folder);
    {
      RunOfFile run(file, GetParam().sets, emulated_gpu());
      train::LoopEvents events;
      events.step = [&](const train::LoopEvents::Step& done) {
        if (done.step == 5)
          cuda::emulation::fail_later(cuda::emulation::FaultPlace::work, after, 0,
                                      cuda::DriverResult::launch_failed);
      };
      EXPECT_ERROR_SAYS(run.run->loop().run(events), ExitCode::memory, "cuda");
    }
    cuda::emulation::reset_gpu();
    RunOfFile again(file, GetParam().sets, emulated_gpu());
    EXPECT_EQ(again.run->loop().progress().step, 4);
    EXPECT_EQ(again.train().last_loss, want);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OffloadFaults,
    ::testing::Values(Sets{"Values", tags_in("offload")},
                      Sets{"State", {"train.dtype=bfloat16", "optimizer.offload=true"}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(OffloadMemory, PinnedMemoryThatIsMissingIsAClearError) {
  const decoder::Model model = open_description(kDeepLlama);
  cuda::DriverApi api = cuda::emulation::driver();
  api.allocate_host = [](void**, std::size_t, unsigned) {
    return cuda::DriverResult::out_of_memory;
  };
  const std::unique_ptr<Backend> gpu =
      cuda::open_backend(api, cuda::emulation::images(), 0, {.blas = cuda::emulation::blas_api});
  EXPECT_ERROR_SAYS(
      train::TrainState(model.parameters(), DType::bf16, false, *gpu, {}, {.offload = true}),
      ExitCode::memory, "cuda: out of pinned host memory asking for ");
  EXPECT_ERROR_SAYS(Step(model, options_of("offload"), {}, *gpu), ExitCode::memory,
                    "cuda: out of pinned host memory asking for ");
}

}  // namespace
}  // namespace lamina::testing
