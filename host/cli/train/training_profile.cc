#include "cli/train/training_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cli/bench/bench_text.h"
#include "core/error.h"
#include "core/log.h"
#include "io/durable_file.h"

namespace lamina::cli {

std::pair<std::int64_t, std::int64_t> parse_profiled_steps(const std::string& text) {
  constexpr std::string_view kSteps = "steps=";
  std::int64_t first = 0, last = 0;
  if (text.starts_with(kSteps)) {
    const char* end = text.data() + text.size();
    const auto colon = std::from_chars(text.data() + kSteps.size(), end, first);
    if (colon.ec == std::errc() && colon.ptr != end && *colon.ptr == ':') {
      const auto stop = std::from_chars(colon.ptr + 1, end, last);
      if (stop.ec == std::errc() && stop.ptr == end && 1 <= first && first <= last)
        return {first, last};
    }
  }
  throw UserError(ExitCode::usage,
                  {"--profile",
                   fmt::format("got '{}'; expected the first step, at least 1, and the last, "
                               "which is not before it, eg steps=10:12",
                               text),
                   {}});
}

void check_profiled_steps(std::pair<std::int64_t, std::int64_t> steps, std::int64_t done,
                          std::int64_t last) {
  if (steps.first <= last && steps.second > done) return;
  const std::string left = done < last ? fmt::format("the run has steps {} to {}", done + 1, last)
                                       : fmt::format("the run has done all {} steps", last);
  throw UserError(ExitCode::usage,
                  {"--profile",
                   fmt::format("got steps {} to {}; {}", steps.first, steps.second, left),
                   {"name steps of the run, or raise train.steps"}});
}

std::string kernel_table(const std::vector<inspect::KernelTime>& kernels, double read_bandwidth,
                         double peak_f32, double peak_bf16, double copy_bandwidth) {
  constexpr double kShortestTime = 1e-6;
  double total = 0;
  for (const inspect::KernelTime& k : kernels)
    if (!k.is_copy) total += k.seconds;
  if (total == 0) return "";
  std::string out = fmt::format("{:>10} {:>6} {:>7}  {:>14} {:>6}  {:<18} {:<20} {}\n", "time",
                                "share", "calls", "rate", "limit", "op", "kernel", "result");
  for (const inspect::KernelTime& k : kernels) {
    const bool computes = k.flops > 0;
    const double rate = (computes ? k.flops : k.bytes) / std::max(k.seconds, kShortestTime);
    const double limit = k.is_copy  ? copy_bandwidth
                         : computes ? (k.dtype == DType::bf16 ? peak_bf16 : peak_f32)
                                    : read_bandwidth;
    const std::string share =
        k.is_copy ? "beside" : fmt::format("{:5.1f}%", 100 * k.seconds / total);
    // Below the clock's step a rate says nothing.
    const bool has_rate = k.seconds >= kShortestTime;
    out += fmt::format("{:7.3f} ms {:>6} {:7}  {:>14} {:>6}  {:<18} {:<20} {}\n", 1e3 * k.seconds,
                       share, k.calls,
                       !has_rate  ? "-"
                       : computes ? flops_text(rate)
                                  : bandwidth_text(rate),
                       has_rate ? fmt::format("{:.1f}%", limit > 0 ? 100 * rate / limit : 0) : "-",
                       k.op, k.kernel, k.type);
  }
  return out;
}

// On the clock of the device, when all work so far has run.
double TrainingProfile::now() const {
  return device_.backend().context().queue().record()->seconds();
}

void TrainingProfile::begin_step(std::int64_t step) {
  if (step < steps_.first || step > steps_.second) return;
  if (phases_.empty()) trace_.begin = now();
  loop_.step().set_trace(&trace_);
  phases_.push_back({fmt::format("step {}", step), now() - trace_.begin, 0});
}

void TrainingProfile::end_step(std::int64_t step) {
  if (phases_.empty() || step < steps_.first || step > steps_.second) return;
  loop_.step().set_trace(nullptr);
  phases_.back().seconds = now() - trace_.begin - phases_.back().begin_seconds;
  if (step == steps_.second) finish();
}

void TrainingProfile::finish() {
  if (is_done_) return;
  is_done_ = true;
  if (phases_.empty()) {
    log::warning(
        "no profile: none of the steps {} to {} ran; choose other steps with "
        "--profile",
        steps_.first, steps_.second);
    return;
  }
  const std::string path = run_ + "/profile.json";
  loop_.check_directory();
  io::write_durably(path, inspect::chrome_trace(trace_, phases_));
  const device::Device& device = device_;
  const bool copies = std::ranges::any_of(trace_.events, &TraceEvent::is_copy);
  log::info("{}", kernel_table(inspect::kernel_times(trace_), device.read_bandwidth(),
                               device.peak_flops(DType::f32), device.peak_flops(DType::bf16),
                               copies ? device.copy_bandwidth() : 0));
  log::info("profile of {} {} in {}; chrome://tracing and ui.perfetto.dev show it", phases_.size(),
            phases_.size() == 1 ? "step" : "steps", path);
  trace_.events.clear();
}

}  // namespace lamina::cli
