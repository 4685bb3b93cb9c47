#include "cli/explain/prediction_text.h"

#include <fmt/format.h>

#include "inspect/cost/roofline.h"

namespace lamina::cli {

namespace {

// `whole`: the sum of such times, which decides the unit of all.
std::string time_text(double seconds, double whole) {
  return whole < 1e-3 ? fmt::format("{:.3f} us", 1e6 * seconds)
                      : fmt::format("{:.3f} ms", 1e3 * seconds);
}

}  // namespace

std::string prediction_text(const Program& program, const device::Device& device,
                            const Subject& subject) {
  const inspect::Roofline limits{.bytes_per_second = device.read_bandwidth(),
                                 .flops_per_second = [&](const inspect::ProductOperands& operands) {
                                   return device.peak_flops(operands.dtype, operands.storage);
                                 }};
  const std::int64_t start = subject.phase == "decode" ? subject.capacity - 1 : 0;
  const inspect::PredictedTime predicted = inspect::predict(program, limits, start);
  std::string out = fmt::format(
      "== predicted time on {}: {}\n"
      "A roofline by the data sheet, not a measurement: each node takes the longer of its products "
      "at {:.0f} TFLOP/s\n({} in {}) and its operands and results at {:.2f} TB/s, one after the "
      "other; launches cost nothing.\n  {:<28} {:>7} {:>14} {:>22}\n",
      device.name(), time_text(predicted.seconds, predicted.seconds),
      1e-12 * device.peak_flops(subject.dtype), "peak", long_name(subject.dtype),
      1e-12 * limits.bytes_per_second, "op", "nodes", "time", "limited by operations");
  for (const inspect::PredictedOp& op : predicted.ops)
    out += fmt::format("  {:<28} {:>7} {:>14} {:>21.0f}%\n", op.op, op.count,
                       time_text(op.seconds, predicted.seconds),
                       op.seconds > 0 ? 100 * op.compute_seconds / op.seconds : 0.0);
  return out;
}

}  // namespace lamina::cli
