#include "bench/compile_time.h"

#include <algorithm>
#include <vector>

#include "core/stopwatch.h"
#include "program/bound_program.h"
#include "train/loop/train_step.h"

namespace lamina::bench {
namespace {

using Phase = std::function<decoder::ModelGraph(const decoder::Model&, std::int64_t tokens)>;

}  // namespace

CompileTimes bench_compile(const std::function<std::unique_ptr<decoder::Model>()>& open,
                           const CompileOptions& options, const Backend& backend) {
  auto median = [&](const Phase& trace) {
    std::vector<double> seconds;
    for (int i = 0; i < options.repeats; ++i) {
      std::unique_ptr<decoder::Model> model = open();
      std::int64_t tokens = std::min(options.tokens, model->max_length().value_or(options.tokens));
      const Stopwatch watch;
      program::BoundProgram program(trace(*model, tokens), backend);
      seconds.push_back(watch.seconds());
    }
    std::ranges::sort(seconds);
    return seconds[seconds.size() / 2];
  };
  CompileTimes out;
  out.train = median([&](const decoder::Model& model, std::int64_t tokens) {
    train::TrainStepOptions step{.shape = {1, tokens, options.dtype}, .remat = "minimal"};
    step.features.mtp = false;
    return train::step_graph(model, step);
  });
  out.prefill = median([&](const decoder::Model& model, std::int64_t tokens) {
    return model.decode_graph({1, tokens, options.dtype}, {tokens, tokens});
  });
  out.decode = median([&](const decoder::Model& model, std::int64_t tokens) {
    return model.decode_graph({1, 1, options.dtype}, {tokens, tokens});
  });
  return out;
}

}  // namespace lamina::bench
