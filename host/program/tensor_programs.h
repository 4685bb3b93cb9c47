// Small programs over a few tensors, compiled when they are first used.
//
//   ProgramArena arena(backend);
//   TensorPrograms<Key> programs(arena, [](const Key& key) { return graph_of(key); });
//   programs.run(key, inputs, outputs);
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>

#include "program/compile.h"
#include "runtime/program.h"

namespace lamina::program {

// Shared temporaries of programs that run one after another, as large as the largest program needs.
// [one thread at a time]
class ProgramArena {
 public:
  explicit ProgramArena(const Backend& backend) : backend_(backend) {}

  const Backend& backend() const { return backend_; }
  void run(Program& program, std::span<const ConstTensorRef> inputs,
           std::span<const TensorRef> outputs) {
    const std::size_t bytes = program.arena_bytes();
    if (!memory_ || memory_->bytes() < bytes) memory_ = backend_.allocate(bytes);
    program.set_trace(trace_);
    program.run(inputs, outputs, *memory_);
  }

  // Changes if a larger program runs; 0 before the first one.
  Address address() const { return memory_ ? memory_->address() : 0; }

  // Programs add their events to the trace; null: no trace.
  void set_trace(Trace* trace) { trace_ = trace; }

 private:
  const Backend& backend_;
  std::unique_ptr<Buffer> memory_;
  Trace* trace_ = nullptr;
};

// One program for each key, compiled from the graph that `make` returns. The arena outlives it.
template <typename Key>
class TensorPrograms {
 public:
  TensorPrograms(ProgramArena& arena, std::function<Graph(const Key&)> make)
      : arena_(arena), make_(std::move(make)) {}

  // Returns the program of the key; compiles it at its first use.
  Program& get(const Key& key) {
    std::unique_ptr<Program>& program = programs_[key];
    if (!program) program = compile(make_(key), arena_.backend());
    return *program;
  }
  void run(const Key& key, std::span<const ConstTensorRef> inputs,
           std::span<const TensorRef> outputs) {
    arena_.run(get(key), inputs, outputs);
  }

 private:
  ProgramArena& arena_;
  std::function<Graph(const Key&)> make_;
  std::map<Key, std::unique_ptr<Program>> programs_;
};

}  // namespace lamina::program
