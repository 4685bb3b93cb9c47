// Graphs whose results have the same bytes on the emulated GPU and on the CPU.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "cuda/gpu.h"
#include "support/run_graph.h"

namespace lamina::testing {

inline void expect_bytes_of_the_cpu(const Graph& graph, const std::vector<Array>& inputs) {
  const std::vector<Array> got = run(graph, inputs, test_gpu()), want = run(graph, inputs);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].bytes, want[i].bytes) << i;
}

}  // namespace lamina::testing
