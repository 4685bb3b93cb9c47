// Wraps a kernel that replaces a library's, which refused the problem: detail() says so.
#pragma once

#include <memory>
#include <string>

#include "runtime/kernel.h"

namespace lamina::cuda {

class DetailedKernel final : public Kernel {
 public:
  // `detail`, eg: "refuses, tiles instead".
  DetailedKernel(std::unique_ptr<Kernel> kernel, std::string detail)
      : kernel_(std::move(kernel)), detail_(std::move(detail)) {}
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void run(const KernelArgs& args) override { kernel_->run(args); }
  std::string detail() const override { return detail_; }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::string detail_;
};

}  // namespace lamina::cuda
