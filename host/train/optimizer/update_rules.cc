#include "train/optimizer/update_rules.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/round_up.h"
#include "ops/tensor.h"

namespace lamina::train {
namespace {

using config::OptimizerSection;
using decoder::Parameter;

constexpr double kAdafactorFloor = 1e-30;  // of squared gradients
constexpr double kAdafactorClip = 1;       // of the root mean square of an update

bool is_matrix(const Parameter& p) {
  return p.desc.shape.ndim() >= 2 &&
         (p.desc.role == registry::Role::weight || p.desc.role == registry::Role::router);
}

// Returns the tensors of a moment with this prefix.
std::vector<StateSpec> moment(const std::string& prefix, const Shape& shape,
                              const OptimizerSection& config) {
  if (config.moments == "float32") return {{prefix + ".", {DType::f32, shape, {}}}};
  if (config.moments == "bfloat16") return {{prefix + ".", {DType::bf16, shape, {}}}};
  const Shape blocks{divide_up(shape.num_elements(), kBlock)};
  return {{prefix + ".", {prefix == "m" ? DType::i8 : DType::u8, shape, {}}},
          {prefix + "_scale.", {DType::f32, blocks, {}}}};
}

// The graph of one update while it is built.
class Update {
 public:
  Update(const UpdateKind& kind, const OptimizerSection& config) : kind_(kind), config_(config) {}

  Graph build() {
    const Type type{DType::f32, {kind_.batch, kind_.rows, kind_.width}, {}};
    Tensor p = input(type), g = input(type);
    declare_states(type.shape);
    scalars_ = input({DType::f32, {static_cast<std::int64_t>(kNumScalars)}, {}});
    g = g * scalar(kGradientScale);
    const Tensor before = p;
    p = p - p * ops::scale(scalar(0), kind_.weight_decay) - scalar(0) * direction(g);
    if (kind_.skips) {
      p = if_it_may_change(p, before);
      for (std::size_t i = 0; i < next_.size(); ++i)
        next_[i] = if_it_may_change(next_[i], states_[i]);
    }
    graph_.add_output("p", p, 0);
    for (std::size_t i = 0; i < next_.size(); ++i)
      graph_.add_output("state", next_[i], static_cast<int>(i) + 2);
    if (kind_.copy) graph_.add_output("copy", ops::cast(p, DType::bf16));
    return std::move(graph_);
  }

 private:
  Tensor input(Type type) { return graph_.add_input("x", type); }
  Tensor if_it_may_change(Tensor now, Tensor before) {
    Tensor may_change = scalar(kMayChange);
    return ops::select(ops::less(ops::number_like(may_change, 0), may_change), now, before);
  }
  Tensor scalar(std::size_t number) {
    const auto i = static_cast<std::int64_t>(number);
    return ops::reshape(ops::slice(scalars_, 0, i, 1), {});
  }
  bool in_8_bits() const { return config_.moments == "8bit"; }

  void declare_states(const Shape& shape) {
    if (kind_.rule == UpdateRule::adafactor && kind_.rows > 1) {
      states_ = {input({DType::f32, {kind_.batch, kind_.rows, 1}, {}}),
                 input({DType::f32, {kind_.batch, 1, kind_.width}, {}})};
      return;
    }
    if (kind_.rule == UpdateRule::adafactor) {
      states_ = {input({DType::f32, shape, {}})};
      return;
    }
    auto declare = [&](DType code) {
      if (!in_8_bits()) {
        const DType dtype = config_.moments == "bfloat16" ? DType::bf16 : DType::f32;
        states_.push_back(input({dtype, shape, {}}));
        return;
      }
      states_.push_back(input({code, shape, {}}));
      states_.push_back(input({DType::f32, {kind_.batch, kind_.rows, 1}, {}}));
    };
    if (kind_.rule != UpdateRule::sgd || config_.used_momentum() > 0) declare(DType::i8);
    if (kind_.rule == UpdateRule::adamw) declare(DType::u8);
  }

  // Returns the next moment: decay * moment + rate * by. In 8 bits, an element x of a block with
  // the largest magnitude s has the code 127 sign(x) sqrt(|x| / s) if the moment has a sign.
  // Without a sign it has the code 255 (x / s)^(1/4), rounded up: updates divide by it, so only
  // zero may become zero. `earlier`, unless it is null, receives the moment.
  Tensor decayed(bool has_sign, double decay, Tensor by, double rate, Tensor* earlier = nullptr) {
    Tensor before = states_[next_.size()];
    if (!in_8_bits()) {
      Tensor was = ops::cast(before, DType::f32);
      if (earlier) *earlier = was;
      Tensor now = ops::scale(was, decay) + ops::scale(by, rate);
      next_.push_back(ops::cast(now, before.dtype()));
      return now;
    }
    Tensor largest = states_[next_.size() + 1];
    const double codes = has_sign ? 127 : 255;
    Tensor share = ops::scale(ops::cast(before, DType::f32), 1 / codes);
    share = has_sign ? share * ops::abs(share) : ops::square(ops::square(share));
    Tensor was = share * largest;
    if (earlier) *earlier = was;
    Tensor now = ops::scale(was, decay) + ops::scale(by, rate);
    constexpr double kSmallest = 1e-37;
    Tensor size = ops::abs(now);
    Tensor peak = ops::reduce_max(size, {2}, true);
    Tensor root = ops::sqrt(size / ops::maximum(peak, like(peak, kSmallest)));
    Tensor code = has_sign ? ops::round(ops::scale(ops::sign(now) * root, codes))
                           : ops::ceil(ops::scale(ops::sqrt(root), codes));
    next_.push_back(ops::cast(code, before.dtype()));
    next_.push_back(peak);
    return now;
  }

  Tensor like(Tensor x, double value) { return ops::constant(graph_, x.type(), value); }

  Tensor direction(Tensor g) {
    switch (kind_.rule) {
      case UpdateRule::adamw: {
        Tensor m = decayed(true, config_.beta1, g, 1 - config_.beta1);
        Tensor v = decayed(false, config_.beta2, ops::square(g), 1 - config_.beta2);
        Tensor root = ops::sqrt(ops::shift(v / scalar(3), config_.eps_root));
        return first(m, g, config_.beta1, 5) / ops::shift(root, config_.eps);
      }
      case UpdateRule::sgd: {
        const double momentum = config_.used_momentum();
        return momentum > 0 ? decayed(true, momentum, g, 1) : g;
      }
      case UpdateRule::lion: {
        const double beta1 = config_.beta1, beta2 = config_.beta2;
        // The moment decays by beta2; the update mixes it with the gradient by beta1.
        Tensor was;
        decayed(true, beta2, g, 1 - beta2, &was);
        return ops::sign(ops::scale(was, beta1) + ops::scale(g, 1 - beta1));
      }
      case UpdateRule::muon:
        return muon(g);
      case UpdateRule::adafactor:
        return adafactor(g);
    }
    return {};
  }

  // Returns the first moment, corrected for its start at zero. With Nesterov's momentum it is the
  // moment one step later, corrected by scalar `next`.
  Tensor first(Tensor m, Tensor g, double beta, std::size_t next) {
    if (config_.name != "muon") return m / scalar(2);
    return ops::scale(m, beta) / scalar(next) + ops::scale(g, 1 - beta) / scalar(2);
  }

  Tensor muon(Tensor g) {
    const double beta = config_.used_momentum();
    Tensor m = decayed(true, beta, g, 1 - beta);
    Tensor x = first(m, g, beta, 3);
    if (kind_.split_rows.empty()) return orthogonal(x);
    std::vector<Tensor> parts;
    std::int64_t at = 0;
    for (std::int64_t rows : kind_.split_rows) {
      parts.push_back(orthogonal(ops::slice(x, 1, at, rows)));
      at += rows;
    }
    LAMINA_ASSERT(at == kind_.rows);
    return ops::concat(parts, {.dim = 1});
  }

  // Returns approximately U V^T of the singular value decomposition of each matrix, times a scale.
  Tensor orthogonal(Tensor x) {
    struct Coefficients {
      double first, third, fifth;  // of powers of the singular values
    };
    constexpr Coefficients kQuick = {3.4445, -4.7750, 2.0315}, kStable = {2.0, -1.5, 0.5};
    const auto rows = static_cast<double>(x.shape()[1]), width = static_cast<double>(x.shape()[2]);
    const bool tall = rows > width;
    if (tall) x = ops::transpose(x, {0, 2, 1});
    Tensor norm = ops::sqrt(ops::reduce_sum(ops::square(x), {1, 2}, true));
    x = x / ops::shift(norm, config_.eps);
    const std::int64_t quick = config_.newton_schulz_steps;
    for (std::int64_t i = 0; i < quick + config_.newton_schulz_stable_steps; ++i) {
      const Coefficients& c = i < quick ? kQuick : kStable;
      Tensor a = ops::matmul(x, x, false, true);
      Tensor b = ops::scale(a, c.third) + ops::scale(ops::matmul(a, a), c.fifth);
      x = ops::scale(x, c.first) + ops::matmul(b, x);
    }
    if (tall) x = ops::transpose(x, {0, 2, 1});
    const double scale = config_.consistent_rms
                             ? *config_.consistent_rms * std::sqrt(std::max(rows, width))
                             : std::sqrt(std::max(1.0, rows / width));
    return ops::scale(x, scale);
  }

  Tensor adafactor(Tensor g) {
    Tensor g2 = ops::shift(ops::square(g), kAdafactorFloor);
    Tensor keep = scalar(2), add = ops::shift(-keep, 1);
    auto mean = [](Tensor x, std::vector<std::int64_t> dims) {
      double count = 1;
      for (std::int64_t dim : dims) count *= static_cast<double>(x.shape()[static_cast<int>(dim)]);
      return ops::scale(ops::reduce_sum(x, std::move(dims), true), 1 / count);
    };
    Tensor u;
    if (states_.size() == 2) {
      Tensor r = states_[0] * keep + mean(g2, {2}) * add;
      Tensor c = states_[1] * keep + mean(g2, {1}) * add;
      next_ = {r, c};
      u = g * ops::rsqrt(r / mean(r, {1})) * ops::rsqrt(c);
    } else {
      Tensor v = states_[0] * keep + g2 * add;
      next_ = {v};
      u = g * ops::rsqrt(v);
    }
    Tensor rms = ops::scale(ops::sqrt(mean(ops::square(u), {0, 1, 2})), 1 / kAdafactorClip);
    return u / ops::maximum(rms, like(rms, 1));
  }

  const UpdateKind& kind_;
  const OptimizerSection& config_;
  Graph graph_;
  std::vector<Tensor> states_, next_;
  Tensor scalars_;
};

}  // namespace

UpdateRule rule_of(const Parameter& p, const OptimizerSection& config) {
  if (config.name == "sgd") return UpdateRule::sgd;
  if (config.name == "lion") return UpdateRule::lion;
  if (config.name == "adafactor") return UpdateRule::adafactor;
  return config.name == "muon" && is_matrix(p) ? UpdateRule::muon : UpdateRule::adamw;
}

std::vector<StateSpec> state_of(const Parameter& p, const OptimizerSection& config) {
  const Shape& shape = p.desc.shape;
  std::vector<StateSpec> out;
  auto add = [&](const std::string& prefix) {
    for (StateSpec& state : moment(prefix, shape, config)) out.push_back(std::move(state));
  };
  switch (rule_of(p, config)) {
    case UpdateRule::adamw:
      add("m");
      add("v");
      break;
    case UpdateRule::sgd:
      if (config.used_momentum() > 0) add("m");
      break;
    case UpdateRule::muon:
    case UpdateRule::lion:
      add("m");
      break;
    case UpdateRule::adafactor:
      // For one row r / mean(r) is 1, and c is the mean of one square.
      if (shape.ndim() < 2 || shape[-2] == 1) return {{"v.", {DType::f32, shape, {}}}};
      Shape rows = shape, columns = shape;
      rows[-1] = 1;
      columns[-2] = 1;
      return {{"r.", {DType::f32, rows, {}}}, {"c.", {DType::f32, columns, {}}}};
  }
  return out;
}

bool is_elementwise(UpdateRule rule) {
  return rule != UpdateRule::muon && rule != UpdateRule::adafactor;
}

Graph update_graph(const UpdateKind& kind, const OptimizerSection& config) {
  return Update(kind, config).build();
}

std::array<float, kNumScalars> update_scalars(UpdateRule rule, const OptimizerSection& config,
                                              double lr, double gradient_scale, std::int64_t step) {
  const auto t = static_cast<double>(step);
  double third = 1 - std::pow(config.beta1, t), fourth = 1 - std::pow(config.beta2, t);
  if (rule == UpdateRule::muon) {
    const double beta = config.used_momentum();
    third = 1 - std::pow(beta, t);
    fourth = 1 - std::pow(beta, t + 1);
  } else if (rule == UpdateRule::adafactor) {
    third = 1 - std::pow(t, -0.8);
  }
  return {static_cast<float>(lr),
          static_cast<float>(gradient_scale),
          static_cast<float>(third),
          static_cast<float>(fourth),
          1,
          static_cast<float>(1 - std::pow(config.beta1, t + 1))};
}

}  // namespace lamina::train
