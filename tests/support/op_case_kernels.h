// The comparison of kernels with the definition of their op, on any device.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/backend.h"
#include "support/op_case_build.h"

namespace lamina::testing {

// A device whose kernels are compared.
class CaseDevice {
 public:
  virtual ~CaseDevice() = default;
  virtual const Backend& backend() const = 0;
  // Runs the kernel; null: an absent input, an output that is left out.
  virtual void run(Kernel& kernel, std::span<Array* const> inputs,
                   std::span<Array* const> outputs) const = 0;
  // A second run, `again`, differs in a way that must change no bit.
  virtual void begin_run(bool again) const = 0;
  virtual std::string_view again() const = 0;  // the difference, in words
};

// Evaluates the definition of the op: the case's function, or its smaller ops in f64.
std::vector<Doubles> meaning(const OpCases& list, const OpCase& c, DType dtype);

// The tolerance of a result, by its dtype.
using Allowed = std::function<double(DType)>;
Allowed allowed_errors(const OpCase& c, DType dtype);

// Compares one run with `want`. `what` names the kernel.
void check_numbers(const CaseDevice& device, const KernelChoice& choice, const Built& built,
                   const std::vector<Doubles>& want, const Allowed& allowed,
                   const std::string& what);

// Compares with `want`; in place, with outputs left out, and in a second run the bits must not
// change.
void check_kernel(const CaseDevice& device, const KernelChoice& choice, const Built& built,
                  const std::vector<Doubles>& want, const Allowed& allowed,
                  const std::string& what);

}  // namespace lamina::testing
