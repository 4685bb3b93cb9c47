// The kernels of gated_delta_rule, gated_delta_rule_step and gated_delta_rule_grad.
#include <cmath>
#include <vector>

#include "backends/cpu/delta_rule/delta_rule.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {
namespace {

double delta_rule_scale(const NodeView& n) {
  return n.f("scale") != 0 ? n.f("scale") : 1 / std::sqrt(static_cast<double>(n.type(0).dim(3)));
}

DeltaRule delta_rule_of(const NodeView& n) {
  const Type& q = n.type(0);
  const Type& v = n.type(2);
  auto typed = [&](int i) { return ConstNumbers{nullptr, n.type(i).dtype}; };
  return {.batch = q.dim(0),
          .tokens = q.dim(1),
          .key_heads = q.dim(2),
          .heads = v.dim(2),
          .key_width = q.dim(3),
          .value_width = v.dim(3),
          .scale = static_cast<float>(delta_rule_scale(n)),
          .normalize = n.i("normalize") != 0,
          .q = typed(0),
          .k = typed(1),
          .v = typed(2),
          .g = typed(3),
          .beta = typed(4)};
}

// Sets inputs 0 to 4.
void set_delta_rule_inputs(DeltaRule& p, const KernelArgs& args) {
  ConstNumbers* const numbers[] = {&p.q, &p.k, &p.v, &p.g, &p.beta};
  for (std::size_t i = 0; i < 5; ++i) numbers[i]->data = args.inputs[i];
}

// Computes chunks of 64 tokens.
namespace gated_delta_rule_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  DeltaRuleForward p;
  static_cast<DeltaRule&>(p) = delta_rule_of(n);
  p.y.dtype = n.out_type().dtype;
  const bool apart = n.has(operand::gated_delta_rule::kSegments) && !n.i("across");
  return make_kernel(
      [p, apart](const KernelArgs& args) mutable {
        set_delta_rule_inputs(p, args);
        p.segments = apart ? static_cast<const std::int32_t*>(
                                 args.inputs[operand::gated_delta_rule::kSegments])
                           : nullptr;
        p.y.data = args.outputs[0];
        p.workspace = reinterpret_cast<float*>(args.workspace);
        delta_rule_forward(p);
      },
      delta_rule_forward_workspace_bytes(p));
}

constexpr KernelChoice kChoices[] = {{"chunks", only_f32_and_bf16, make}};

}  // namespace gated_delta_rule_op

// Computes few tokens one by one with the state in place, many in chunks.
namespace gated_delta_rule_step_op {

namespace in = operand::gated_delta_rule_step;

class StepKernel final : public Kernel {
 public:
  explicit StepKernel(const NodeView& n) : state_bytes_(n.type(in::kState).bytes()) {
    static_cast<DeltaRule&>(p_) = delta_rule_of(n);
    p_.y.dtype = n.out_type().dtype;
    // The workspace depends on the presence of a state, not on its address.
    static float anywhere = 0;
    DeltaRuleForward sized = p_;
    sized.state = &anywhere;
    workspace_bytes_ = delta_rule_forward_workspace_bytes(sized);
  }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::string detail() const override {
    return delta_rule_is_recurrent(p_.tokens) ? "token by token" : "in chunks";
  }
  void run(const KernelArgs& args) override {
    parallel_copy(args.outputs[1], args.inputs[in::kState], state_bytes_);  // no copy when in place
    set_delta_rule_inputs(p_, args);
    p_.start = static_cast<const std::int32_t*>(args.inputs[in::kStart]);
    p_.count = static_cast<const std::int32_t*>(args.inputs[in::kCount]);
    p_.state = static_cast<float*>(args.outputs[1]);
    p_.y.data = args.outputs[0];
    p_.workspace = reinterpret_cast<float*>(args.workspace);
    delta_rule_forward(p_);
  }

 private:
  DeltaRuleForward p_;
  std::int64_t state_bytes_;
  std::size_t workspace_bytes_;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<StepKernel>(n);
}

constexpr KernelChoice kChoices[] = {
    {.name = "state",
     .supports = only_f32_and_bf16,
     .make = make,
     .in_place = in_place_of(in::kState),
     .writes_all = true},
};

}  // namespace gated_delta_rule_step_op

// In chunks for f32 and bf16; for other types in plain loops over tokens in the widest arithmetic
// of the type, which save the state before each token.
namespace gated_delta_rule_grad_op {

namespace in = operand::gated_delta_rule_grad;

std::unique_ptr<Kernel> make_chunks(const NodeView& n, Context&) {
  DeltaRuleBackward p;
  static_cast<DeltaRule&>(p) = delta_rule_of(n);
  p.dy.dtype = n.type(in::kDy).dtype;
  Numbers* const results[] = {&p.dq, &p.dk, &p.dv, &p.dg, &p.dbeta};
  for (int i = 0; i < 5; ++i) results[i]->dtype = n.out_type(i).dtype;
  const bool apart = n.has(in::kSegments) && !n.i("across");
  return make_kernel(
      [p, apart](const KernelArgs& args) mutable {
        set_delta_rule_inputs(p, args);
        p.segments = apart ? static_cast<const std::int32_t*>(args.inputs[in::kSegments]) : nullptr;
        p.dy.data = args.inputs[in::kDy];
        Numbers* const outs[] = {&p.dq, &p.dk, &p.dv, &p.dg, &p.dbeta};
        for (std::size_t i = 0; i < 5; ++i) outs[i]->data = args.outputs[i];
        p.workspace = reinterpret_cast<float*>(args.workspace);
        delta_rule_backward(p);
      },
      delta_rule_backward_workspace_bytes(p));
}

double read(const void* data, DType dtype, std::int64_t i) {
  return with_floating(dtype, [&](auto type) {
    using T = decltype(type);
    return static_cast<double>(Number<T>::load(static_cast<const T*>(data)[i]));
  });
}
void write(void* data, DType dtype, std::int64_t i, double value) {
  with_floating(dtype, [&](auto type) {
    using T = decltype(type);
    static_cast<T*>(data)[i] = Number<T>::store(static_cast<typename Number<T>::Wide>(value));
  });
}

// One token of q or k after scaling and normalisation.
struct Key {
  std::vector<double> x;  // scaled, and divided by the length if requested
  double factor;          // the factor by which it was multiplied
};

class Loops {
 public:
  Loops(const DeltaRule& p, const KernelArgs& args, double scale, bool apart)
      : p_(p), args_(args), scale_(scale), apart_(apart) {}

  // Computes one key head; its dq and dk are sums over its heads.
  void run(std::int64_t b, std::int64_t key_head, double* states) {
    const std::int64_t width = p_.key_width, group = p_.heads / p_.key_heads;
    std::vector<double> dq(static_cast<std::size_t>(p_.tokens * width)), dk = dq;
    for (std::int64_t r = 0; r < group; ++r)
      one_head(b, key_head, key_head * group + r, states, dq.data(), dk.data());
    for (std::int64_t t = 0; t < p_.tokens; ++t) {
      put(0, b, t, key_head, key(p_.q, b, t, key_head, scale_), scale_, dq.data() + t * width);
      put(1, b, t, key_head, key(p_.k, b, t, key_head, 1), 1, dk.data() + t * width);
    }
  }

 private:
  Key key(const ConstNumbers& from, std::int64_t b, std::int64_t t, std::int64_t head,
          double scale) const {
    Key out{std::vector<double>(static_cast<std::size_t>(p_.key_width)), scale};
    double squares = 0;
    std::int64_t at = ((b * p_.tokens + t) * p_.key_heads + head) * p_.key_width;
    for (double& x : out.x) {
      x = read(from.data, from.dtype, at++);
      squares += x * x;
    }
    if (p_.normalize) out.factor /= std::sqrt(squares + 1e-6);
    for (double& x : out.x) x *= out.factor;
    return out;
  }

  void put(std::size_t output, std::int64_t b, std::int64_t t, std::int64_t head, const Key& used,
           double scale, const double* gradient) const {
    double along = 0;
    const std::int64_t at = ((b * p_.tokens + t) * p_.key_heads + head) * p_.key_width;
    for (std::int64_t i = 0; p_.normalize && i < p_.key_width; ++i)
      along += used.x[static_cast<std::size_t>(i)] * gradient[i] / (scale * scale);
    for (std::int64_t i = 0; i < p_.key_width; ++i)
      write(args_.outputs[output], p_.q.dtype, at + i,
            used.factor * (gradient[i] - along * used.x[static_cast<std::size_t>(i)]));
  }

  bool forgets(std::int64_t b, std::int64_t t) const {
    if (t == 0) return true;
    const auto* row = static_cast<const std::int32_t*>(args_.inputs[in::kSegments]);
    if (!apart_) return false;
    return row[b * p_.tokens + t] != row[b * p_.tokens + t - 1];
  }

  void one_head(std::int64_t b, std::int64_t key_head, std::int64_t n, double* states, double* dq,
                double* dk) const {
    const std::int64_t H = p_.key_width, V = p_.value_width, size = H * V;
    auto number = [&](const ConstNumbers& x, std::int64_t t) {
      return read(x.data, x.dtype, (b * p_.tokens + t) * p_.heads + n);
    };
    auto value = [&](const void* x, std::int64_t t, std::int64_t c) {
      return read(x, p_.v.dtype, ((b * p_.tokens + t) * p_.heads + n) * V + c);
    };
    // states[t] is the decayed state before token t; the update of token t is added in the next
    // iteration.
    std::vector<double> state(static_cast<std::size_t>(size)), raw(static_cast<std::size_t>(V));
    auto known = [&](const double* s, const Key& k, std::int64_t t) {
      for (std::int64_t c = 0; c < V; ++c) {
        double sum = value(args_.inputs[2], t, c);
        for (std::int64_t h = 0; h < H; ++h) sum -= s[h * V + c] * k.x[static_cast<std::size_t>(h)];
        raw[static_cast<std::size_t>(c)] = sum;
      }
    };
    for (std::int64_t t = 0; t < p_.tokens; ++t) {
      const double decay = forgets(b, t) ? 0 : std::exp(number(p_.g, t)), beta = number(p_.beta, t);
      const Key k = key(p_.k, b, t, key_head, 1);
      double* before = states + t * size;
      for (std::int64_t i = 0; i < size; ++i)
        before[i] = decay * state[static_cast<std::size_t>(i)];
      known(before, k, t);
      for (std::int64_t i = 0; i < size; ++i)
        state[static_cast<std::size_t>(i)] = before[i] + k.x[static_cast<std::size_t>(i / V)] *
                                                             beta *
                                                             raw[static_cast<std::size_t>(i % V)];
    }
    std::vector<double> dstate(static_cast<std::size_t>(size));
    for (std::int64_t t = p_.tokens; t-- > 0;) {
      const double decay = forgets(b, t) ? 0 : std::exp(number(p_.g, t)), beta = number(p_.beta, t);
      const Key k = key(p_.k, b, t, key_head, 1), q = key(p_.q, b, t, key_head, scale_);
      const double* before = states + t * size;
      known(before, k, t);
      double dg = 0, dbeta = 0;
      for (std::int64_t c = 0; c < V; ++c) {
        const double u = beta * raw[static_cast<std::size_t>(c)],
                     dy = value(args_.inputs[in::kDy], t, c);
        double du = 0;
        for (std::int64_t h = 0; h < H; ++h) {
          const auto at = static_cast<std::size_t>(h * V + c), row = static_cast<std::size_t>(h);
          dq[t * H + h] += (before[at] + k.x[row] * u) * dy;
          dstate[at] += q.x[row] * dy;
          du += dstate[at] * k.x[row];
          dk[t * H + h] += dstate[at] * u;
        }
        dbeta += du * raw[static_cast<std::size_t>(c)];
        write(args_.outputs[2], p_.v.dtype, ((b * p_.tokens + t) * p_.heads + n) * V + c,
              beta * du);
        for (std::int64_t h = 0; h < H; ++h) {
          const auto at = static_cast<std::size_t>(h * V + c);
          dk[t * H + h] -= before[at] * beta * du;
          dstate[at] -= k.x[static_cast<std::size_t>(h)] * beta * du;
          dg += dstate[at] * before[at];
          dstate[at] *= decay;
        }
      }
      const std::int64_t at = (b * p_.tokens + t) * p_.heads + n;
      write(args_.outputs[3], p_.g.dtype, at, dg);
      write(args_.outputs[4], p_.beta.dtype, at, dbeta);
    }
  }

  const DeltaRule& p_;
  const KernelArgs& args_;
  const double scale_;
  const bool apart_;
};

std::unique_ptr<Kernel> make_loops(const NodeView& n, Context&) {
  DeltaRule p = delta_rule_of(n);
  const std::int64_t states = p.tokens * p.key_width * p.value_width;
  const double scale = delta_rule_scale(n);
  const bool apart = n.has(in::kSegments) && !n.i("across");
  return make_kernel(
      [=](const KernelArgs& args) mutable {
        set_delta_rule_inputs(p, args);
        Loops loops(p, args, scale, apart);
        parallel_tasks(p.batch * p.key_heads, [&](std::int64_t task, int thread) {
          loops.run(task / p.key_heads, task % p.key_heads,
                    reinterpret_cast<double*>(args.workspace) + thread * states);
        });
      },
      static_cast<std::size_t>(states * num_threads()) * sizeof(double));
}

constexpr KernelChoice kChoices[] = {
    {.name = "chunks", .supports = only_f32_and_bf16, .make = make_chunks, .writes_all = true},
    {.name = "reference", .supports = always, .make = make_loops, .writes_all = true},
};

}  // namespace gated_delta_rule_grad_op

constexpr OpKernels kOps[] = {
    {"gated_delta_rule", gated_delta_rule_op::kChoices},
    {"gated_delta_rule_step", gated_delta_rule_step_op::kChoices},
    {"gated_delta_rule_grad", gated_delta_rule_grad_op::kChoices},
};

}  // namespace

KernelTable delta_rule_kernels() { return kOps; }

}  // namespace lamina::cpu
