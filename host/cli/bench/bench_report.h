// The output of `lamina bench decode`, `prefill` and `train`.
#pragma once

#include <string>
#include <string_view>

#include "bench/workloads.h"
#include "cli/shell/command.h"

namespace lamina::cli {

std::string bench_text(const bench::BenchResult& r, const device::Device& device);
// One JSON object, with the options of the command line.
std::string bench_json(const Arguments& a, std::string_view workload, const bench::BenchResult& r,
                       const Device& device);

}  // namespace lamina::cli
