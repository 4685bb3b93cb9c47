// linear_group: for few rows all weights are streamed in one parallel region; for many each is a
// product of its own.
#include <algorithm>
#include <vector>

#include "backends/cpu/gemm/gemv.h"
#include "backends/cpu/gemm/products.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

// One linear of the group: where its operands are.
struct Member {
  int weight;
  int bias;  // -1: none
};

std::vector<Member> members(const Call& n) {
  const auto& biases = n.list("biases");
  std::vector<Member> out;
  int bias = 1 + static_cast<int>(biases.size());
  for (std::size_t i = 0; i < biases.size(); ++i)
    out.push_back({1 + static_cast<int>(i), biases[i] ? bias++ : -1});
  return out;
}

const Type* bias_type(const NodeView& n, const Member& m) {
  return m.bias < 0 ? nullptr : &n.type(m.bias);
}

const void* bias_data(const KernelArgs& args, const Member& m) {
  return m.bias < 0 ? nullptr : args.inputs[static_cast<std::size_t>(m.bias)];
}

Verdict supports_gemm(const NodeView& n) {
  for (const Member& m : members(n))
    if (Verdict v = gemm_takes(n.type(0).dtype, n.type(0).dtype, bias_type(n, m)); !v) return v;
  return Verdict::yes();
}

Verdict supports_stream(const NodeView& n) {
  if (num_rows(n.type(0)) > kMaxGemvRows)
    return Verdict::no(fmt::format("streams weights for at most {} rows, got {}", kMaxGemvRows,
                                   num_rows(n.type(0))));
  return supports_gemm(n);
}

class StreamKernel final : public Kernel {
 public:
  explicit StreamKernel(const NodeView& n) : members_(members(n)), operands_(members_.size()) {
    GemvGroupSpec spec{.m = num_rows(n.type(0)),
                       .k = n.type(0).dim(-1),
                       .in = n.type(0).dtype,
                       .out = n.type(0).dtype};
    for (const Member& m : members_) {
      GemvMatrix matrix{.n = n.type(m.weight).dim(0)};
      if (const Type* bias = bias_type(n, m)) matrix.bias = bias->dtype;
      spec.matrices.push_back(matrix);
    }
    std::string why;
    group_ = make_gemv_group(spec, &why);
    if (!group_) throw InternalError({"linear_group", "gemv refuses: " + why, {}});
  }

  std::string detail() const override { return std::string(group_->kernel()); }

  void run(const KernelArgs& args) override {
    for (std::size_t i = 0; i < members_.size(); ++i)
      operands_[i] = {.w = args.inputs[static_cast<std::size_t>(members_[i].weight)],
                      .out = args.outputs[i],
                      .bias = bias_data(args, members_[i])};
    group_->run(args.inputs[0], operands_);
  }

 private:
  std::vector<Member> members_;
  std::vector<GemvOperands> operands_;
  std::unique_ptr<GemvGroup> group_;
};

class GemmsKernel final : public Kernel {
 public:
  explicit GemmsKernel(const NodeView& n) : members_(members(n)) {
    for (const Member& m : members_)
      gemms_.push_back(
          make_checked_gemm(linear_spec(n.type(0), n.type(m.weight), bias_type(n, m))));
  }

  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& gemm : gemms_) bytes = std::max(bytes, gemm->workspace_bytes());
    return bytes;
  }
  std::string detail() const override {
    return gemms_.empty() ? "" : std::string(gemms_.front()->kernel());
  }
  void run(const KernelArgs& args) override {
    for (std::size_t i = 0; i < members_.size(); ++i)
      gemms_[i]->run(args.inputs[0], args.inputs[static_cast<std::size_t>(members_[i].weight)],
                     bias_data(args, members_[i]), args.outputs[i], args.workspace);
  }

 private:
  std::vector<Member> members_;
  std::vector<std::unique_ptr<Gemm>> gemms_;
};

std::unique_ptr<Kernel> make_stream(const NodeView& n) { return std::make_unique<StreamKernel>(n); }
std::unique_ptr<Kernel> make_gemms(const NodeView& n) { return std::make_unique<GemmsKernel>(n); }

constexpr KernelChoice kChoices[] = {
    {.name = "stream", .supports = supports_stream, .make = make_stream, .writes_all = true},
    {.name = "gemm", .supports = supports_gemm, .make = make_gemms, .writes_all = true},
};

}  // namespace

std::span<const KernelChoice> linear_group_kernels() { return kChoices; }

}  // namespace lamina::cpu
