// The private parts of Program, shared by its planner and its runner.
#pragma once

#include "runtime/program.h"

namespace lamina {

// A scan: the program of its body, and where its operands and results lie outside.
struct Program::Scan {
  std::shared_ptr<Program> body;
  std::int64_t times = 1;
  std::size_t num_consts = 0;
  std::size_t num_carries = 0;
  bool reverse = false;
  std::vector<std::int64_t> input_strides;  // bytes from one layer to the next; 0 for consts
  std::vector<std::int64_t> output_strides;
  // In the step's workspace: two buffers per carry, used alternately, then the arena of the body.
  std::vector<std::size_t> carry_offsets;
  std::size_t carry_gap_bytes = 0;  // from a carry's first buffer to its second
  std::size_t body_arena_offset = 0;
  // Filled for each iteration, kept to avoid allocation.
  std::vector<Binding> inputs, outputs;
};

struct Program::Step {
  NodeId node = kNoNode;
  std::unique_ptr<Kernel> kernel;  // null for a scan
  std::unique_ptr<Scan> scan;
  std::string kernel_name;
  std::vector<Refusal> refusals;
  std::vector<Location> inputs, outputs;
  Location workspace;
  std::vector<const void*> in_pointers;  // filled for each run
  std::vector<void*> out_pointers;
  double seconds = 0;
  std::int64_t calls = 0;
};

}  // namespace lamina
