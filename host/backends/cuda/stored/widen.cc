#include "backends/cuda/stored/widen.h"

#include <cctype>
#include <vector>

#include "backends/cuda/stored/params.h"
#include "core/round_up.h"

namespace lamina::cuda {

std::string kernel_name(const formats::BlockFormat& format) {
  std::string out(format.name);
  for (char& c : out) c = static_cast<char>(std::tolower(c));
  return out;
}

Widener::Widener(Context& context, const formats::BlockFormat& format, DType dtype)
    : function_(function(context, "widen_" + kernel_name(format), dtype)) {}

void Widener::run(const KernelArgs& args, const void* from, std::int64_t count, void* to) const {
  constexpr int kThreads = 256, kValues = 8;  // of a block, of a thread
  launch(args, function_, {.blocks = grid_for(count, kThreads * kValues), .threads = kThreads},
         WidenParams{.x = address(from), .y = address(to), .count = count});
}

namespace {

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(const Type& type, int input, Context& context, std::unique_ptr<Kernel> kernel)
      : widener_(context, *type.storage, type.dtype),
        input_(static_cast<std::size_t>(input)),
        num_elements_(type.num_elements()),
        widened_bytes_(aligned(static_cast<std::size_t>(type.stored_as(nullptr).bytes()))),
        kernel_(std::move(kernel)) {}

  std::size_t workspace_bytes() const override {
    return widened_bytes_ + kernel_->workspace_bytes();
  }
  std::string detail() const override { return kernel_->detail(); }
  void run(const KernelArgs& args) override {
    widener_.run(args, args.inputs[input_], num_elements_, args.workspace);
    inputs_.assign(args.inputs.begin(), args.inputs.end());
    inputs_[input_] = args.workspace;
    kernel_->run({.inputs = inputs_,
                  .outputs = args.outputs,
                  .workspace = args.workspace + widened_bytes_,
                  .queue = args.queue});
  }

 private:
  Widener widener_;
  std::size_t input_;
  std::int64_t num_elements_;
  std::size_t widened_bytes_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<const void*> inputs_;
};

}  // namespace

std::unique_ptr<Kernel> with_widened(const Type& type, int input, Context& context,
                                     std::unique_ptr<Kernel> kernel) {
  if (!type.storage) return kernel;
  return std::make_unique<WidenedKernel>(type, input, context, std::move(kernel));
}

}  // namespace lamina::cuda
