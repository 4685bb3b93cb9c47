// A prediction of the time of a program by the limits of a device, before anything has been
// measured.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "inspect/cost/required_work.h"
#include "runtime/program.h"

namespace lamina::inspect {

struct Roofline {
  double bytes_per_second;                                         // of the memory
  std::function<double(const ProductOperands&)> flops_per_second;  // of products of these operands
};

// The nodes of one op.
struct PredictedOp {
  std::string op;
  std::int64_t count = 0;
  double seconds = 0;          // together
  double compute_seconds = 0;  // the share of nodes that are limited by operations
};

struct PredictedTime {
  double seconds = 0;
  std::vector<PredictedOp> ops;  // longest first
};

// A node takes the longer of two times: its required operations at the peak of its operands, and
// the bytes of its operands and results, each moved once. Nodes run one after the other;
// launches, waits and caches cost and save nothing. `start`: tokens in the decode state.
PredictedTime predict(const Program& program, const Roofline& limits, std::int64_t start);

}  // namespace lamina::inspect
