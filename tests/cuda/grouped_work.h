// Work on many tensors by one program, compared with one program for each tensor.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "backends/cuda/emulation/grid.h"
#include "cuda/gpu_memory.h"
#include "ops/tensor.h"
#include "support/run_graph.h"

namespace lamina::testing {

// A small graph with its operands, eg: an update. They begin `shift` bytes after a multiple of
// 16.
struct Work {
  std::vector<Array> inputs;
  std::size_t shift = 0;
  // Returns the results, and for each the input that it overwrites, or -1.
  std::function<std::vector<std::pair<Tensor, int>>(const std::vector<Tensor>&)> add;
};

inline Graph graph_of(std::span<const Work> all) {
  Graph graph;
  for (const Work& work : all) {
    const auto first = static_cast<int>(graph.inputs().size());
    std::vector<Tensor> inputs;
    for (const Array& input : work.inputs) inputs.push_back(graph.add_input("x", input.type));
    for (const auto& [result, over] : work.add(inputs))
      graph.add_output("y", result, over < 0 ? -1 : first + over);
  }
  return graph;
}

using Bytes = std::vector<std::byte>;

// Returns the results of all work, computed by one program.
inline std::vector<Bytes> run_together(std::span<const Work> all) {
  const Graph graph = graph_of(all);
  Program program(graph, test_gpu());
  std::vector<GpuMemory> memory;
  std::vector<ConstTensorRef> in;
  std::vector<TensorRef> out;
  for (const Work& work : all)
    for (const Array& input : work.inputs)
      in.emplace_back(memory.emplace_back(input, work.shift).tensor());
  std::vector<std::size_t> places;
  for (const GraphOutput& output : graph.outputs()) {
    if (output.alias_input < 0)
      memory.emplace_back(static_cast<std::size_t>(graph.type(output.value).bytes()));
    places.push_back(output.alias_input < 0 ? memory.size() - 1
                                            : static_cast<std::size_t>(output.alias_input));
    out.push_back(memory[places.back()].tensor());
  }
  const auto arena = test_gpu().allocate(program.arena_bytes());
  program.run(in, out, *arena);
  std::vector<Bytes> results;
  for (const std::size_t place : places) results.push_back(memory[place].bytes());
  return results;
}

// In two orders of threads.
inline void expect_bits_of_one_at_a_time(const std::vector<Work>& all) {
  std::vector<Bytes> want;
  for (const Work& work : all)
    for (Bytes& bytes : run_together({&work, 1})) want.push_back(std::move(bytes));
  for (const std::uint64_t seed : {1, 2}) {
    cuda::emulation::set_seed(seed);
    const std::vector<Bytes> got = run_together(all);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i], want[i]) << "result " << i;
  }
}

// Returns the number of kernels that the program of all work launches.
inline std::int64_t launches_of(std::span<const Work> all) {
  const Graph graph = graph_of(all);
  Program program(graph, emulated_gpu());
  std::vector<Array> inputs;
  for (const Work& work : all) inputs.insert(inputs.end(), work.inputs.begin(), work.inputs.end());
  const std::int64_t before = cuda::emulation::driver_counts().launches;
  run(program, emulated_gpu(), inputs);
  return cuda::emulation::driver_counts().launches - before;
}

}  // namespace lamina::testing
