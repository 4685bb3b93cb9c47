// Scalars and short vectors that the host passes to a program and reads from it.
//
//   HostValues values;
//   const std::size_t lr = values.add_input({DType::f32, {}, {}}), norm = values.add_output(...);
//   values.allocate();
//   values.set(lr, {1e-3});
//   program.run({values.input(lr)}, {values.output(norm)}, arena);
//   double length = values.get(norm)[0];
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/memory.h"

namespace lamina::program {

// The values are tensors in host memory. If a device does not reach it, Program::run() copies all
// of them with one transfer before the run and one after it. [one thread at a time]
class HostValues {
 public:
  // Returns the number of a new input or output; both are counted from 0. REQUIRES: allocate() was
  // not called; the type is f64, f32, bf16, i64 or i32.
  std::size_t add_input(const Type& type) { return inputs_.add(type); }
  std::size_t add_output(const Type& type) { return outputs_.add(type); }

  // Allocates the tensors, all 0. They do not move afterwards.
  void allocate();

  // REQUIRES: allocate() was called.
  ConstTensorRef input(std::size_t number) const;
  TensorRef output(std::size_t number);

  // Sets the elements of an input, row-major, converted to its type.
  void set(std::size_t input, std::span<const double> elements);
  void set(std::size_t input, std::span<const std::int64_t> elements);
  // Returns the elements of an output. REQUIRES: it is f64, f32 or i32.
  std::vector<double> get(std::size_t output) const;

 private:
  struct Region {
    std::vector<Type> types;
    std::vector<std::size_t> begins;  // bytes
    std::size_t bytes = 0;
    std::vector<std::byte> host;  // empty until allocate()

    std::size_t add(const Type& type);
  };
  Region inputs_, outputs_;
};

// Returns the elements as the bytes of a tensor of that type. REQUIRES: f64, f32, bf16, i64 or i32.
std::vector<std::byte> bytes_of(std::span<const double> elements, DType dtype);

}  // namespace lamina::program
