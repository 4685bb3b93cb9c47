#include "bench/compile_time.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "autodiff/remat.h"
#include "program/bound_program.h"
#include "train/train_step.h"

namespace lamina::cli {
namespace {

using Phase = std::function<decoder::ModelGraph(const decoder::Model&, std::int64_t tokens)>;

}  // namespace

CompileTimes bench_compile(const std::function<std::unique_ptr<decoder::Model>()>& open,
                           const CompileOptions& options, const Backend& backend) {
  auto median = [&](const Phase& trace) {
    std::vector<double> seconds;
    for (int i = 0; i < options.repeats; ++i) {
      std::unique_ptr<decoder::Model> model = open();
      std::int64_t tokens =
          std::min(options.tokens, model->config().max_positions().value_or(options.tokens));
      auto start = std::chrono::steady_clock::now();
      decoder::BoundProgram program(trace(*model, tokens), backend);
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::ranges::sort(seconds);
    return seconds[seconds.size() / 2];
  };
  auto decoding = [&](std::int64_t call, std::int64_t capacity) {
    return decoder::DecodeGraphOptions{
        .tokens = call, .capacity = capacity, .max_call_tokens = capacity, .dtype = options.dtype};
  };
  CompileTimes out;
  out.train = median([&](const decoder::Model& model, std::int64_t tokens) {
    return train::step_graph(
        model,
        {.rows = 1, .tokens = tokens, .dtype = options.dtype, .remat = "minimal", .mtp = false});
  });
  out.prefill = median([&](const decoder::Model& model, std::int64_t tokens) {
    return model.decode_graph(decoding(tokens, tokens));
  });
  out.decode = median([&](const decoder::Model& model, std::int64_t tokens) {
    return model.decode_graph(decoding(1, tokens));
  });
  return out;
}

}  // namespace lamina::cli
