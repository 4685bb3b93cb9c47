// Checks kernels of plugins: each is run several times, in guarded memory, and compared with the
// lowering of its op.
#pragma once

#include <set>
#include <string>

#include "conformance/subjects/model_case.h"
#include "runtime/backend.h"

namespace lamina::conformance {

// The backend of `compute`; where it would run a kernel of a plugin, that throws a Failure when the
// kernel gives other numbers than the lowering, other bits with other threads or in other memory,
// or writes outside of its results. One at a time.
class ComparingBackend final : public Backend {
 public:
  explicit ComparingBackend(const Compute& compute);
  ~ComparingBackend() override;

  std::string_view name() const override { return inner().name(); }
  std::span<const KernelChoice> kernels(const Op& op) const override;
  std::unique_ptr<Buffer> allocate(std::size_t bytes) const override {
    return inner().allocate(bytes);
  }
  std::unique_ptr<Buffer> allocate_for_copies(std::size_t bytes) const override {
    return inner().allocate_for_copies(bytes);
  }
  Context& context() const override { return inner().context(); }
  bool reaches(MemoryKind kind) const override { return inner().reaches(kind); }

  // Ops whose kernels ran.
  const std::set<std::string>& ran() const { return ran_; }

  // The number of threads for which programs are compiled.
  static constexpr int kMostThreads = 3;

 private:
  const Backend& inner() const { return *compute_.backend; }
  static Verdict supports(const NodeView& n);
  static std::unique_ptr<Kernel> make(const NodeView& n, Context& context);

  const Compute& compute_;
  std::set<std::string> ran_;
};

}  // namespace lamina::conformance
