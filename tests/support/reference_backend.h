// The CPU backend reduced to its definitions: ops with a lowering have no kernel, and primitives
// only their last and plainest one.
#pragma once

#include "backends/cpu/backend.h"
#include "ops/op.h"

namespace lamina::testing {

inline const Backend& reference_backend() {
  class ReferenceBackend final : public Backend {
   public:
    std::string_view name() const override { return "reference"; }
    std::span<const KernelChoice> kernels(const Op& op) const override {
      std::span<const KernelChoice> all = cpu::cpu_backend().kernels(op);
      if (op.def->lower && op.name != "fused_map") return {};
      return all.empty() ? all : all.last(1);
    }
    std::unique_ptr<Buffer> allocate(std::size_t bytes) const override {
      return cpu::cpu_backend().allocate(bytes);
    }
    std::unique_ptr<Buffer> allocate_for_copies(std::size_t bytes) const override {
      return cpu::cpu_backend().allocate_for_copies(bytes);
    }
    Context& context() const override { return cpu::cpu_backend().context(); }
    bool reaches(MemoryKind kind) const override { return cpu::cpu_backend().reaches(kind); }
  };
  static const ReferenceBackend backend;
  return backend;
}

}  // namespace lamina::testing
