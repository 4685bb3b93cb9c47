// gated_delta_rule, gated_delta_rule_grad and gated_delta_rule_step.
#include <array>
#include <cmath>

#include "backends/cuda/delta_rule/params.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/matrix_scan/recurrence_launch.h"
#include "backends/cuda/typed.h"
#include "core/error.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

// The inputs that all three ops have, at the same places (host/ops/delta_scan.cc).
namespace in = operand::gated_delta_rule;
static_assert(in::kQ == 0);

double scale_of(const NodeView& n) {
  return n.f("scale") != 0 ? n.f("scale")
                           : 1 / std::sqrt(static_cast<double>(n.type(in::kQ).dim(3)));
}

DeltaRuleParams rule_of(const NodeView& n) {
  const Type &q = n.type(in::kQ), &v = n.type(in::kV);
  DeltaRuleParams p{};
  Recurrence& r = p.tokens;
  r.batch = v.dim(0), r.tokens = v.dim(1), r.heads = v.dim(2);
  r.key_width = q.dim(3), r.value_width = v.dim(3);
  r.rank_one = RankOne::delta;
  r.decay_first = 1;
  r.v = typed(v.dtype);
  p.key_heads = q.dim(2);
  p.q = p.k = typed(q.dtype);
  p.g = typed(n.type(in::kG).dtype), p.beta = typed(n.type(in::kBeta).dtype);
  p.normalize = n.i("normalize") != 0;
  p.scale = static_cast<float>(scale_of(n));
  divide_into_blocks(r);
  return p;
}

void set_inputs(DeltaRuleParams& p, const KernelArgs& args) {
  p.q.at = address(args.inputs[in::kQ]);
  p.k.at = address(args.inputs[in::kK]);
  p.tokens.v.at = address(args.inputs[in::kV]);
  p.g.at = address(args.inputs[in::kG]);
  p.beta.at = address(args.inputs[in::kBeta]);
}

// Returns the segments if the state is reset between them.
gpu::Address segments_of(const KernelArgs& args, int input, bool apart) {
  return apart ? address(args.inputs[static_cast<std::size_t>(input)]) : gpu::Address{};
}

namespace gated_delta_rule_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Function tokens = function(context, "delta_rule_tokens");
  const bool apart = n.has(in::kSegments) && !n.i("across");
  const DType dtype = n.out_type().dtype;
  return make_kernel([p = rule_of(n), tokens, apart, dtype](const KernelArgs& args) mutable {
    set_inputs(p, args);
    p.tokens.segments = segments_of(args, in::kSegments, apart);
    p.tokens.y = typed(dtype, args.outputs[0]);
    launch(args, tokens, all_heads(p.tokens), p);
  });
}

constexpr KernelChoice kChoices[] = {{"tokens", recurrence_supports, make}};

}  // namespace gated_delta_rule_op

namespace gated_delta_rule_step_op {

namespace step = operand::gated_delta_rule_step;

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Function tokens = function(context, "delta_rule_tokens");
  const DType dtype = n.out_type().dtype;
  return make_kernel([p = rule_of(n), tokens, dtype](const KernelArgs& args) mutable {
    set_inputs(p, args);
    set_step(p.tokens, args, {step::kStart, step::kCount, step::kState}, dtype);
    launch(args, tokens, all_heads(p.tokens), p);
  });
}

constexpr KernelChoice kChoices[] = {
    {.name = "tokens",
     .supports = recurrence_supports,
     .make = make,
     .in_place = in_place_of(step::kState),
     .writes_all = true},
};

}  // namespace gated_delta_rule_step_op

// In chunks, with the states at their edges; for other types and sizes token by token in f64.
namespace gated_delta_rule_grad_op {

namespace grad = operand::gated_delta_rule_grad;

std::int64_t gradient_shared_bytes(const NodeView& n) {
  const auto row = [](std::int64_t columns) { return columns | 1; };
  const std::int64_t keys = n.type(in::kQ).dim(3), chunk = kDeltaChunk, columns = kDeltaColumns;
  return 4 * (5 * chunk * row(keys) + 7 * chunk * row(chunk) + 7 * chunk * row(columns) +
              2 * keys * row(columns) + 9 * chunk + keys);
}

Verdict supports_chunks(const NodeView& n) { return chunks_support(n, gradient_shared_bytes(n)); }

class GradKernel final : public Kernel {
 public:
  GradKernel(const NodeView& n, Context& context)
      : edges_(function(context, "delta_rule_edges")),
        gradient_(function(context, "delta_rule_gradient")),
        shared_bytes_(static_cast<std::size_t>(gradient_shared_bytes(n))),
        apart_(n.has(grad::kSegments) && !n.i("across")) {
    p_.rule = rule_of(n);
    Recurrence& r = p_.rule.tokens;
    r.chunk = kDeltaChunk;
    r.num_chunks = divide_up(r.tokens, r.chunk);
    r.dy = typed(n.type(grad::kDy).dtype);
    for (int i = 0; gpu::TypedAddress * to : results()) *to = typed(n.out_type(i++).dtype);
    // A pass has whole key heads.
    group_ = r.heads / p_.rule.key_heads;
    const std::int64_t key_heads = r.batch * p_.rule.key_heads, most = kMostSavedBytes / 2;
    const std::int64_t bytes = std::max<std::int64_t>(group_ * saved_bytes_per_head(r), 1);
    key_heads_per_pass_ =
        std::clamp<std::int64_t>(most / bytes, 1, std::max<std::int64_t>(key_heads, 1));
  }

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(2 * half()); }

  void run(const KernelArgs& args) override {
    set_inputs(p_.rule, args);
    Recurrence& r = p_.rule.tokens;
    r.segments = segments_of(args, grad::kSegments, apart_);
    r.dy.at = address(args.inputs[grad::kDy]);
    r.states = address(args.workspace);
    r.flows = address(args.workspace + half());
    for (std::size_t i = 0; gpu::TypedAddress * to : results()) to->at = address(args.outputs[i++]);
    const std::int64_t key_heads = r.tokens == 0 ? 0 : r.batch * p_.rule.key_heads;
    for (std::int64_t first = 0; first < key_heads; first += key_heads_per_pass_) {
      const std::int64_t now = std::min(key_heads_per_pass_, key_heads - first);
      r.first_head = first * group_;
      launch(args, edges_, recurrence_shape(r, now * group_, 2), p_.rule);
      launch(args, gradient_,
             {.blocks = now * r.num_chunks, .threads = 256, .shared_bytes = shared_bytes_}, p_);
    }
  }

 private:
  // Bytes of the states, and of their gradients.
  std::int64_t half() const {
    return key_heads_per_pass_ * group_ * saved_bytes_per_head(p_.rule.tokens);
  }
  std::array<gpu::TypedAddress*, 5> results() {
    return {&p_.dq, &p_.dk, &p_.dv, &p_.dg, &p_.dbeta};
  }

  DeltaRuleGradParams p_{};
  const Function edges_, gradient_;
  const std::size_t shared_bytes_;
  const bool apart_;
  std::int64_t group_ = 1, key_heads_per_pass_ = 1;
};

std::unique_ptr<Kernel> make_chunks(const NodeView& n, Context& context) {
  return std::make_unique<GradKernel>(n, context);
}

Floats floats_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {.at = {}, .type = FloatType::f32};
    case DType::bf16:
      return {.at = {}, .type = FloatType::bf16};
    case DType::f16:
      return {.at = {}, .type = FloatType::f16};
    default:
      LAMINA_ASSERT(dtype == DType::f64);
      return {.at = {}, .type = FloatType::f64};
  }
}

std::unique_ptr<Kernel> make_reference(const NodeView& n, Context& context) {
  const Type &q = n.type(in::kQ), &v = n.type(in::kV);
  DeltaReferenceParams p{};
  p.batch = q.dim(0), p.tokens = q.dim(1), p.key_heads = q.dim(2), p.heads = v.dim(2);
  p.key_width = q.dim(3), p.value_width = v.dim(3);
  p.normalize = n.i("normalize") != 0;
  p.scale = scale_of(n);
  const auto inputs = [](DeltaReferenceParams& of) {
    return std::array{std::pair{int{grad::kQ}, &of.q},       std::pair{int{grad::kK}, &of.k},
                      std::pair{int{grad::kV}, &of.v},       std::pair{int{grad::kG}, &of.g},
                      std::pair{int{grad::kBeta}, &of.beta}, std::pair{int{grad::kDy}, &of.dy}};
  };
  const auto outputs = [](DeltaReferenceParams& of) {
    return std::array{&of.dq, &of.dk, &of.dv, &of.dg, &of.dbeta};
  };
  for (const auto& [input, to] : inputs(p)) *to = floats_of(n.type(input).dtype);
  for (int i = 0; Floats * to : outputs(p)) *to = floats_of(n.out_type(i++).dtype);
  const std::int64_t state = p.key_width * p.value_width;
  p.workspace_doubles =
      (p.tokens + 2) * state + 2 * p.tokens * p.key_width + 2 * p.value_width + p.key_width;
  const std::int64_t heads = p.tokens == 0 ? 0 : p.batch * p.key_heads;
  const std::int64_t blocks =
      std::min(heads, std::max<std::int64_t>(kMostSavedBytes / (8 * p.workspace_doubles), 1));
  const bool apart = n.has(grad::kSegments) && !n.i("across");
  const Function reference = function(context, "delta_rule_reference");
  return make_kernel(
      [=](const KernelArgs& args) mutable {
        for (const auto& [input, to] : inputs(p))
          to->at = address(args.inputs[static_cast<std::size_t>(input)]);
        for (std::size_t i = 0; Floats * to : outputs(p)) to->at = address(args.outputs[i++]);
        p.segments = segments_of(args, grad::kSegments, apart);
        p.workspace = address(args.workspace);
        launch(args, reference, {.blocks = blocks, .threads = 128}, p);
      },
      static_cast<std::size_t>(8 * blocks * p.workspace_doubles));
}

constexpr KernelChoice kChoices[] = {
    {.name = "chunks", .supports = supports_chunks, .make = make_chunks, .writes_all = true},
    {.name = "reference", .supports = always, .make = make_reference, .writes_all = true},
};

}  // namespace gated_delta_rule_grad_op

constexpr OpKernels kOps[] = {
    {"gated_delta_rule", gated_delta_rule_op::kChoices},
    {"gated_delta_rule_step", gated_delta_rule_step_op::kChoices},
    {"gated_delta_rule_grad", gated_delta_rule_grad_op::kChoices},
};

}  // namespace

KernelTable delta_rule_kernels() { return kOps; }

}  // namespace lamina::cuda
