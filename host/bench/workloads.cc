#include "bench/workloads.h"

#include <algorithm>
#include <cmath>

#include "bench/random_state.h"
#include "bench/random_weights.h"
#include "bench/some_tokens.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "decode/sampler.h"
#include "decode/session.h"
#include "inspect/cost/required_work.h"
#include "passes/pipeline.h"
#include "runtime/host_access.h"
#include "train/loop/train_step.h"

namespace lamina::bench {
namespace {

double seconds_of(const std::function<void()>& work) {
  const Stopwatch watch;
  work();
  return watch.seconds();
}

using Work = std::vector<inspect::ProductWork>;

double sum_of(const Work& work) {
  double flops = 0;
  for (const inspect::ProductWork& one : work) flops += one.flops;
  return flops;
}

// The peak of the operations of a workload: all of them, divided by the time that they take if each
// is computed at the peak of its operands. It may be measured several times; larger values count.
class Peak {
 public:
  Peak(const device::Device& device, Work work)
      : device_(device), work_(std::move(work)), peaks_(work_.size()) {
    measure();
  }
  void measure() {
    for (std::size_t i = 0; i < work_.size(); ++i)
      peaks_[i] = std::max(peaks_[i],
                           device_.peak_flops(work_[i].operands.dtype, work_[i].operands.storage));
  }
  double flops_per_second() const {
    double seconds = 0;
    for (std::size_t i = 0; i < work_.size(); ++i) seconds += work_[i].flops / peaks_[i];
    return sum_of(work_) / seconds;
  }

 private:
  const device::Device& device_;
  Work work_;
  std::vector<double> peaks_;
};

// The limits of the machine, measured before and after the work; the larger values count.
class Limits {
 public:
  Limits(const device::Device& device, const Work& work) : device_(device), peak_(device, work) {
    bandwidth_ = device_.read_bandwidth();
  }
  void measure() {
    bandwidth_ = std::max(bandwidth_, device_.read_bandwidth());
    peak_.measure();
  }
  double bandwidth() const { return bandwidth_; }
  double peak() const { return peak_.flops_per_second(); }

 private:
  const device::Device& device_;
  Peak peak_;
  double bandwidth_ = 0;
};

void repeat(BenchResult& result, const Work& operations, int repeats, const device::Device& device,
            const std::function<void()>& prepare, const std::function<void()>& work) {
  Limits limits(device, operations);
  for (int i = 0; i < repeats; ++i) {
    prepare();
    result.repeats.push_back({.seconds = seconds_of(work)});
  }
  limits.measure();
  for (BenchResult::Repeat& r : result.repeats)
    r.bandwidth = limits.bandwidth(), r.peak = limits.peak();
  result.best_bandwidth = limits.bandwidth();
}

decode::Session make_session(const decoder::Model& model, const BenchWeights& weights,
                             const BenchOptions& options, const decoder::StateSize& state,
                             const Backend& backend) {
  return decode::Session(model, weights.pointers(),
                         {.batch = options.batch,
                          .capacity = state.capacity,
                          .call_tokens = state.max_call_tokens,
                          .dtype = options.dtype},
                         backend);
}

void append_to_all(decode::Session& session, std::int64_t batch,
                   std::span<const std::int32_t> tokens) {
  std::vector<std::span<const std::int32_t>> rows(static_cast<std::size_t>(batch), tokens);
  session.append(rows);
}

// Bytes that a training step must read and write. Each weight: read in the forward and in the
// backward pass in the compute type; its gradient in float32, written and read; in the update the
// weight and both moments in float32, read and written, and the copy in the compute type, written.
// A table that is only looked up counts in the update alone, and not at all in a lazy one: the rows
// of a step are few.
double required_step_bytes(const decoder::Model& model, const BenchOptions& options,
                           const train::GradientLists& lists) {
  const double compute = size_bytes(options.dtype), f32 = size_bytes(DType::f32);
  const double moment = options.moments == "8bit" ? 1 : options.moments == "bfloat16" ? 2 : f32;
  const double update = 2 * f32 + 2 * 2 * moment + (options.dtype == DType::f32 ? 0 : compute);
  double bytes = 0;
  for (std::size_t i = 0; i < model.parameters().all().size(); ++i) {
    const bool looked_up = lists.microbatch[i] > 0;
    double per_weight = looked_up && options.lazy_embeddings ? 0 : update;
    if (!looked_up) per_weight += 2 * compute + 2 * f32;
    bytes +=
        per_weight * static_cast<double>(model.parameters().all()[i].desc.shape.num_elements());
  }
  return bytes;
}

}  // namespace

const BenchResult::Repeat& BenchResult::median() const {
  std::vector<const Repeat*> sorted;
  for (const Repeat& r : repeats) sorted.push_back(&r);
  std::ranges::sort(sorted, {}, [this](const Repeat* r) { return ratio(*r); });
  return *sorted[sorted.size() / 2];
}

BenchResult bench_decode(const decoder::Model& model, const BenchOptions& options,
                         const Backend& backend, const device::Device& device) {
  const std::int64_t capacity = options.context + options.tokens;
  BenchWeights weights(model, options.files, options.dtype, backend, device);
  const decoder::GraphShape shape{options.batch, 1, options.dtype};
  // A ring for calls of one token has no slots but those that the token reads. If rotations depend
  // on the length, all tokens may be read in one call.
  const decoder::StateSize state{capacity, model.length_dependent_from() ? capacity : 1};
  decode::Session session = make_session(model, weights, options, state, backend);
  decoder::ModelGraph graph = model.decode_graph(shape, state);
  graph.graph = passes::simplify(std::move(graph.graph));
  double mean_length =
      static_cast<double>(options.context) + (static_cast<double>(options.tokens) + 1) / 2;

  BenchResult result;
  result.tokens = static_cast<double>(options.batch * options.tokens);
  result.bytes_per_token =
      inspect::required_read_bytes(graph, model.states(shape, state), mean_length) /
      static_cast<double>(options.batch);
  const Work work =
      inspect::flops_by_operands(graph.graph, static_cast<std::int64_t>(mean_length) - 1);
  result.flops_per_token = sum_of(work) / static_cast<double>(options.batch);

  std::vector<std::int32_t> next(static_cast<std::size_t>(options.batch));
  std::vector<std::span<const std::int32_t>> rows;
  for (const std::int32_t& id : next) rows.push_back(std::span(&id, 1));
  auto vocab = static_cast<std::size_t>(model.vocab_size());
  session.set_shortlists({.likeliest = 1});
  auto write_one = [&] {
    std::span<const float> logits = session.append(rows);
    for (std::size_t b = 0; b < next.size(); ++b)
      next[b] = session.has_shortlists()
                    ? std::get<decode::LikeliestTokens>(session.shortlist(std::int64_t(b))).ids[0]
                    : decode::argmax(logits.subspan(b * vocab, vocab));
  };
  // The state of the context is random, except for its last tokens: they warm up the program.
  constexpr std::int64_t kWarmTokens = 16;
  const std::int64_t skipped = std::max<std::int64_t>(0, options.context - kWarmTokens);
  const std::vector<std::int32_t> prompt = some_tokens(skipped, model.vocab_size());
  const std::vector<std::span<const std::int32_t>> prompts(next.size(), prompt);
  // Bandwidth changes within a second if other programs use the memory: only reads that alternate
  // with the tokens measure the bandwidth that was available to them.
  const std::unique_ptr<device::MemoryPasses> memory = device.memory();
  const auto pass_bytes = static_cast<double>(memory->bytes());
  Peak peak(device, work);
  for (int i = 0; i < options.repeats; ++i) {
    session.restore(prompts, [&](const decoder::StateTensor& s, const TensorRef& tensor) {
      write_random(backend.context().queue(), s, model.vocab_size(), tensor, device);
    });
    // Into the same memory: rows refers to it.
    std::ranges::copy(some_tokens(options.batch, model.vocab_size()), next.begin());
    for (std::int64_t token = skipped; token < options.context; ++token) write_one();
    // The first calls of a kernel may load it.
    if (i == 0) session.program(1).program().set_profiling(options.profile != nullptr);
    BenchResult::Repeat r;
    double read_seconds = 0;
    for (std::int64_t token = 0; token < options.tokens; ++token) {
      r.seconds += seconds_of(write_one);
      const double pass = memory->pass();
      read_seconds += pass;
      result.best_bandwidth = std::max(result.best_bandwidth, pass_bytes / pass);
    }
    r.bandwidth = pass_bytes * static_cast<double>(options.tokens) / read_seconds;
    result.repeats.push_back(r);
  }
  peak.measure();
  for (BenchResult::Repeat& r : result.repeats) r.peak = peak.flops_per_second();
  if (options.profile) options.profile(session.program(1).program().profile());
  return result;
}

BenchResult bench_prefill(const decoder::Model& model, const BenchOptions& options,
                          const Backend& backend, const device::Device& device) {
  BenchWeights weights(model, options.files, options.dtype, backend, device);
  const decoder::GraphShape shape{options.batch, options.tokens, options.dtype};
  const decoder::StateSize state{options.tokens, options.tokens};
  decode::Session session = make_session(model, weights, options, state, backend);
  decoder::ModelGraph graph = model.decode_graph(shape, state);
  graph.graph = passes::simplify(std::move(graph.graph));

  BenchResult result;
  result.tokens = static_cast<double>(options.batch * options.tokens);
  result.bytes_per_token =
      inspect::required_read_bytes(graph, model.states(shape, state), 0) / result.tokens;
  const Work work = inspect::flops_by_operands(graph.graph);
  result.flops_per_token = sum_of(work) / result.tokens;
  std::vector<std::int32_t> prompt = some_tokens(options.tokens, model.vocab_size());
  append_to_all(session, options.batch, prompt);  // compiles, touches all memory
  Program& program = session.program(options.tokens).program();
  program.set_profiling(options.profile != nullptr);
  repeat(
      result, work, options.repeats, device, [&] { session.reset(); },
      [&] { append_to_all(session, options.batch, prompt); });
  if (options.profile) options.profile(program.profile());
  return result;
}

BenchResult bench_train(const decoder::Model& model, const BenchOptions& options,
                        const Backend& backend, const device::Device& device) {
  const decoder::GraphShape shape{options.batch, options.tokens, options.dtype};
  Graph graph = passes::simplify(model.loss_graph(shape, {.training = true}).graph);
  BenchResult result;
  result.tokens = static_cast<double>(options.batch * options.tokens);
  Work work = inspect::flops_by_operands(graph);
  for (inspect::ProductWork& one : work) one.flops *= inspect::kTrainingFactor;
  result.flops_per_token = sum_of(work) / result.tokens;

  const train::TrainStepOptions step_options{
      .shape = shape,
      .features = train::all_losses(false),
      .remat = train::find_remat_policy(options.remat, {},
                                        [](std::string_view) { return std::string("--remat"); })
                   .name,
      .clip_norm = 1};
  decoder::ModelGraph step_graph = train::step_graph(model, step_options);
  train::GradientLists lists = train::gradient_lists(step_graph, model.parameters(), 1);
  if (options.lazy_embeddings && !lists.any())
    throw UserError(ExitCode::usage, {"--lazy-embeddings",
                                      "this model has no lookup-only table",
                                      {"remove it; the head reads a tied token table completely"}});
  result.bytes_per_token = required_step_bytes(model, options, lists) / result.tokens;
  const config::OptimizerSection optimizer{.moments = options.moments,
                                           .lazy_embeddings = options.lazy_embeddings,
                                           .offload = options.offload};
  train::TrainState state(model.parameters(), options.dtype, false, backend, std::move(lists),
                          optimizer);
  for (std::size_t i = 0; i < state.masters().size(); ++i)
    write_random(state.queue(), model.parameters().all()[i], state.masters()[i], device);
  state.refresh_copies();
  train::TrainStep step(model, std::move(step_graph), state, step_options, optimizer, backend);
  std::int64_t count = options.batch * options.tokens;
  std::vector<std::int32_t> tokens = some_tokens(count, model.vocab_size());
  std::vector<std::int32_t> labels(tokens.begin() + 1, tokens.end());
  labels.push_back(0);
  std::vector<std::int32_t> positions, segments(tokens.size(), 1);
  for (std::int64_t i = 0; i < count; ++i)
    positions.push_back(static_cast<std::int32_t>(i % options.tokens));
  program::Microbatch batch{tokens.data(), labels.data(), positions.data(), segments.data()};
  std::int64_t number = 0;
  auto one_step = [&] { step.run(std::span(&batch, 1), 1e-6, number++); };
  one_step();
  step.program().program().set_profiling(options.profile != nullptr);
  repeat(
      result, work, options.repeats, device, [] {}, one_step);
  if (options.profile) options.profile(step.program().program().profile());
  return result;
}

}  // namespace lamina::bench
