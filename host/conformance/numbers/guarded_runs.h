// Runs a kernel in guarded memory, and refuses what a kernel must not do.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/check.h"
#include "conformance/numbers/tensor_bytes.h"
#include "conformance/subjects/model_case.h"
#include "registry/process_guard.h"
#include "runtime/kernel.h"

namespace lamina::conformance {

class GuardedRuns {
 public:
  GuardedRuns(const NodeView& n, std::unique_ptr<Kernel> kernel, const Compute& compute);

  const std::string& op() const { return op_; }
  // True for each operand of the op that the node has.
  const std::vector<bool>& is_given() const { return is_given_; }
  // The types of these operands.
  const std::vector<Type>& operand_types() const { return operand_types_; }
  const std::vector<Type>& result_types() const { return result_types_; }
  bool is_on_device() const { return !compute_.backend->reaches(MemoryKind::host); }

  // Runs the kernel with `threads` threads in memory filled with `fill`, and returns its results.
  // Throws Failure if the kernel writes to its inputs or outside its results and workspace, starts
  // threads or processes, keeps files open, or keeps memory in each run.
  std::vector<TensorBytes> run(const std::vector<TensorBytes>& operands, int threads,
                               std::byte fill);

  // Copy a tensor of a running program from and to the memory of the backend. They wait for the
  // work before this kernel.
  TensorBytes contents(const void* at, const Type& type) const;
  void put(void* at, const TensorBytes& bytes, const Type& type) const;

  // Throws Failure: the kernel does what the text says.
  template <typename... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) const {
    fail("the kernel of op '{}' for {}{} {}", op_,
         operand_types_.empty() ? "nothing" : to_string(operand_types_.front()), place_,
         fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  Queue& queue() const { return compute_.backend->context().queue(); }
  void look_at_rest(const registry::ProcessCounts& before, std::size_t kept);

  const std::string op_, place_;
  const std::unique_ptr<Kernel> kernel_;
  const Compute& compute_;
  std::vector<bool> is_given_;
  std::vector<Type> operand_types_, result_types_;
  int num_runs_ = 0, num_keeping_runs_ = 0;  // by one thread
};

}  // namespace lamina::conformance
