// Maps on the CPU: programs of runtime/map, compiled to tiles of registers.
//
//   MapPlan plan(program);
//   plan.run({gate_data, up_data}, {y_data});
#pragma once

#include <initializer_list>
#include <memory>
#include <span>

#include "runtime/map/program.h"

namespace lamina::cpu {

struct MapCompiled;

// A program prepared to run with best_isa(). Immutable.
class MapPlan {
 public:
  // Throws InternalError for a program that breaks the rules of runtime/map/program.h.
  explicit MapPlan(const MapProgram& program);
  ~MapPlan();
  MapPlan(MapPlan&&) noexcept;
  MapPlan& operator=(MapPlan&&) noexcept;

  // Pointers in the order of the program's inputs and outputs. An output may be exactly an input
  // (same strides, same dtype); otherwise they must not overlap. Allocates nothing. [any thread]
  void run(std::span<const void* const> inputs, std::span<void* const> outputs) const;
  void run(std::initializer_list<const void*> inputs, std::initializer_list<void*> outputs) const {
    run(std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()));
  }

 private:
  std::unique_ptr<const MapCompiled> compiled_;
};

}  // namespace lamina::cpu
