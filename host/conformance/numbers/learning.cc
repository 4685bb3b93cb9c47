#include "conformance/numbers/learning.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "conformance/check.h"
#include "conformance/numbers/choices.h"
#include "conformance/numbers/compare.h"
#include "conformance/subjects/rows.h"
#include "runtime/host_access.h"
#include "train/loop/train_step.h"

namespace lamina::conformance {
namespace {

using Tensors = std::vector<std::vector<float>>;
using decoder::Parameter;

// Batches of random rows until a part counts as unused: an expert may miss the first ones.
constexpr unsigned kMostBatches = 8;
// Layers behind a gate that starts as zero learn from the second step on.
constexpr int kFirstSteps = 3;

// Trains a model on random rows, one document in each.
class Learner {
 public:
  explicit Learner(const ModelCase& c)
      : c_(c),
        model_(c.open(true)),
        tokens_(row_tokens(model_)),
        choosing_(parameters_that_only_choose(model_)),
        state_(c.load_state(model_)),
        step_(model_, *state_,
              {.shape = {.batch = 2, .tokens = tokens_},
               .features = train::all_losses(false),
               .seed = 11},
              {}, c.backend()) {}

  const decoder::Model& model() const { return model_; }
  const std::vector<Parameter>& parameters() const { return model_.parameters().all(); }

  // Leaves out routers: a single expert has weight 1 for any logit.
  bool must_learn(std::size_t i) const {
    const Parameter& p = parameters()[i];
    return p.desc.trained && is_floating(p.used_dtype(DType::f32)) && !choosing_[i] &&
           p.desc.role != registry::Role::router;
  }

  void start_as_in_training() {
    const weights::Weights weights =
        weights::Weights::initialise(model_, 1, DType::f32, c_.backend());
    const Tensors values = copy_of(model_, weights.pointers(), c_.backend());
    for (std::size_t i = 0; i < values.size(); ++i)
      if (state_->masters()[i])
        state_->queue().copy(state_->masters()[i], host_tensor(std::span(values[i])));
    state_->queue().finish();
    state_->refresh_copies();
  }

  // Moves the elements of every parameter, so that other experts and channels are chosen.
  void rotate_weights() {
    for (const TensorRef& master : state_->masters())
      if (master)
        change_tensor<float>(state_->queue(), master, [](std::span<float> values) {
          std::ranges::rotate(values, values.begin() + std::ssize(values) * 3 / 7);
        });
    state_->refresh_copies();
  }

  Tensors gradients(unsigned seed) {
    const program::Rows rows = random_rows(model_, 2, tokens_, seed);
    const program::Microbatch batch = rows.microbatch();
    // Another step draws other dropout masks.
    result_ = step_.gradients(std::span(&batch, 1), seed);
    return copy_of(model_, state_->gradients(), c_.backend());
  }
  // REQUIRES: the gradients of this step.
  void update() { step_.update(result_, 1e-3, 3); }

 private:
  const ModelCase& c_;
  const decoder::Model model_;
  const std::int64_t tokens_;
  const std::vector<bool> choosing_;
  const std::unique_ptr<train::TrainState> state_;
  train::TrainStep step_;
  train::StepResult result_;
};

// The parts of a parameter along each dim, and which of them have a gradient.
class Parts {
 public:
  explicit Parts(const Shape& shape) {
    for (const std::int64_t size : shape.dims())
      live_.emplace_back(static_cast<std::size_t>(size), false);
  }

  void add(const std::vector<float>& gradient) {
    any_ = any_ || largest_magnitude(gradient) > 0;
    std::size_t stride = gradient.size();
    for (std::size_t d = 0; d < live_.size(); ++d) {
      const std::size_t size = live_[d].size();
      stride /= std::max<std::size_t>(size, 1);
      for (std::size_t e = 0; e < gradient.size(); ++e)
        if (gradient[e] != 0) live_[d][e / stride % size] = true;
    }
  }

  // Adds the parts with a gradient in another layer.
  void add(const Parts& other) {
    any_ = any_ || other.any_;
    for (std::size_t d = 0; d < live_.size(); ++d)
      for (std::size_t i = 0; i < live_[d].size(); ++i)
        live_[d][i] = live_[d][i] || other.live_[d][i];
  }

  bool any() const { return any_; }
  // The first part without a gradient along dim `from` and later ones, "index 3 of dim 0"; empty:
  // all have one.
  std::string first_dead(std::size_t from) const {
    for (std::size_t d = from; d < live_.size(); ++d)
      if (const auto dead = std::ranges::find(live_[d], false); dead != live_[d].end())
        return fmt::format("index {} of dim {}", dead - live_[d].begin(), d);
    return {};
  }

 private:
  std::vector<std::vector<bool>> live_;
  bool any_ = false;
};

// Rows of a table belong to tokens or positions that need not occur.
std::size_t first_judged_dim(const Parameter& p) {
  return p.desc.role == registry::Role::embedding ? 1 : 0;
}

bool starts_as_zero(const Parameter& p) {
  using Kind = registry::InitSpec::Kind;
  return p.desc.init.kind == Kind::zeros ||
         (p.desc.init.kind == Kind::constant && p.desc.init.a == 0);
}

// The gradients of all parameters, in batches until every part has one.
class Search {
 public:
  explicit Search(const ModelCase& c) : learner_(c) {
    const std::vector<Parameter>& all = learner_.parameters();
    for (const Parameter& p : all) parts_.emplace_back(p.desc.shape);
    for (unsigned seed = 1; seed <= kMostBatches; ++seed) {
      if (seed > 2) learner_.rotate_weights();
      const Tensors gradients = learner_.gradients(seed);
      for (std::size_t i = 0; i < all.size(); ++i) parts_[i].add(gradients[i]);
      join_layers();
      if (!unused() && !partly_used()) return;
    }
  }

  const Parameter* unused() const {
    return find([&](std::size_t i) { return !parts_[i].any(); });
  }
  const Parameter* partly_used() const {
    return find([&](std::size_t i) {
      const Parameter& p = parameter(i);
      return is_judged_in_part(p) && !dead_part_of(p).empty();
    });
  }
  std::string dead_part_of(const Parameter& p) const {
    return of_layers_.at(key(p)).first_dead(first_judged_dim(p));
  }

 private:
  using Key = std::tuple<std::uint32_t, std::string, std::vector<std::int64_t>>;
  // In the first layer, streams that are still equal may be mixed in any way. So a parameter of a
  // model with an exit block, which joins streams, is judged by several layers together.
  bool is_judged_in_part(const Parameter& p) const {
    const bool may_have_streams = learner_.model().options().head.exit != 0;
    return p.block != 0 && (!may_have_streams || in_several_layers_.contains(key(p)));
  }
  // The same parameter in other layers.
  static Key key(const Parameter& p) {
    return {p.block, p.desc.name, {p.desc.shape.dims().begin(), p.desc.shape.dims().end()}};
  }

  void join_layers() {
    of_layers_.clear();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const auto [at, fresh] = of_layers_.emplace(key(parameter(i)), parts_[i]);
      if (fresh) continue;
      at->second.add(parts_[i]);
      in_several_layers_.insert(key(parameter(i)));
    }
  }
  const Parameter& parameter(std::size_t i) const { return learner_.parameters()[i]; }
  template <typename Wrong>
  const Parameter* find(Wrong&& is_wrong) const {
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (learner_.must_learn(i) && is_wrong(i)) return &parameter(i);
    return nullptr;
  }

  Learner learner_;
  std::vector<Parts> parts_;
  std::map<Key, Parts> of_layers_;
  std::set<Key> in_several_layers_;
};

}  // namespace

void check_every_part_learns(const ModelCase& c) {
  const Search search(c);
  if (const Parameter* p = search.unused())
    fail(
        "parameter '{}' is trained and its gradient is 0 for all rows; use it, or declare it "
        "with LAMINA_PARAM_BUFFER",
        p->name);
  if (const Parameter* p = search.partly_used())
    fail(
        "use all of parameter '{}', {}, or make it smaller: {} has gradient 0 for all rows, in "
        "every layer",
        p->name, to_string(p->desc.shape), search.dead_part_of(*p));
}

void check_learning_begins(const ModelCase& c) {
  Learner learner(c);
  learner.start_as_in_training();
  const std::vector<Parameter>& all = learner.parameters();
  std::vector<bool> learns(all.size());
  for (int step = 0; step < kFirstSteps; ++step) {
    const Tensors gradients = learner.gradients(static_cast<unsigned>(step + 1));
    bool done = true;
    for (std::size_t i = 0; i < all.size(); ++i) {
      learns[i] = learns[i] || !learner.must_learn(i) || largest_magnitude(gradients[i]) > 0;
      done = done && learns[i];
    }
    if (done) return;
    learner.update();
  }
  std::vector<std::string> zeros, others;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!learns[i])
      (starts_as_zero(all[i]) ? zeros : others).push_back(fmt::format("'{}'", all[i].name));
  constexpr std::size_t kMostNames = 3;
  std::vector<std::string>& named = zeros.empty() ? others : zeros;
  const std::size_t count = zeros.size() + others.size();
  if (named.size() > kMostNames) named.resize(kMostNames);
  if (zeros.empty())
    fail(
        "let {} learn from the start: with the weights with which training starts, {} parameter(s) "
        "have gradient 0 in each of the first {} steps",
        fmt::join(named, ", "), count, kFirstSteps);
  fail(
      "do not start {} as zeros (the default of ParamOptions::init): {} parameter(s) have gradient "
      "0 in each of the first {} steps, so they never learn",
      fmt::join(named, ", "), count, kFirstSteps);
}

}  // namespace lamina::conformance
