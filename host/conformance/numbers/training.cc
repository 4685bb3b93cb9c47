#include "conformance/numbers/training.h"

#include <algorithm>
#include <cmath>

#include "conformance/check.h"
#include "conformance/numbers/compare.h"
#include "conformance/subjects/rows.h"
#include "runtime/host_access.h"
#include "train/loop/train_step.h"

namespace lamina::conformance {
namespace {

using program::Rows;
using Tensors = std::vector<std::vector<float>>;

// One document in each row.
const decoder::GraphFeatures kAlone = train::all_losses(false);

struct Result {
  train::StepResult step;
  Tensors gradients, updated;
  std::size_t arena_bytes = 0;
};

class Step {
 public:
  explicit Step(const ModelCase& c) : c_(c), model(c.open(true)), tokens(row_tokens(model)) {}

  // The gradients of the mean loss of `rows`, and one AdamW update with them.
  Result run(const Rows& rows, train::TrainStepOptions options,
             const decoder::Model* instead = nullptr, double disturbance = 0) const {
    const decoder::Model& of = instead ? *instead : model;
    auto state = c_.load_state(of, options.shape.dtype, options.microbatches > 1);
    if (disturbance > 0) {
      for (std::size_t i = 0; i < state->masters().size(); ++i)
        change_tensor<float>(state->queue(), state->masters()[i],
                             [&](std::span<float> values) { disturb(values, disturbance); });
      state->refresh_copies();
    }
    options.shape.batch = rows.batch / options.microbatches;
    options.shape.tokens = rows.tokens;
    options.seed = 11;
    train::TrainStep step(of, *state, options, {}, c_.backend());
    std::vector<program::Microbatch> batches;
    for (std::int64_t m = 0; m < options.microbatches; ++m)
      batches.push_back(rows.microbatch(m * options.shape.batch));
    Result out;
    out.arena_bytes = step.arena_bytes();
    out.step = step.gradients(batches, 3);
    out.gradients = copy_of(of, state->gradients(), c_.backend());
    step.update(out.step, 1e-3, 3);
    out.updated = copy_of(of, state->masters(), c_.backend());
    return out;
  }

  // Per tensor, relative to its largest element or to rounding of the largest gradient: a key bias
  // has a gradient of rounding only. Also allows eight times the differences between `want` and
  // `disturbed`, whose weights differed by a rounding.
  void expect_near(const Tensors& got, const Tensors& want, double tolerance,
                   const std::string& what, const Tensors& disturbed = {}) const {
    double largest = 0;
    for (const auto& tensor : want) largest = std::max(largest, largest_magnitude(tensor));
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double own = largest_magnitude(want[i]);
      const double rounding = disturbed.empty() ? 0 : difference(disturbed[i], want[i]);
      const double allowed = std::max(tolerance * std::max(own, 1e-3 * largest), 8 * rounding);
      const double found = difference(got[i], want[i]);
      if (!(found <= allowed))
        fail("{}: the tensor of '{}' differs by {:.2g}; rounding is at most {:.2g}", what,
             model.parameters().all()[i].name, found, allowed);
    }
  }
  void expect_same_bits(const Tensors& got, const Tensors& want, const std::string& what) const {
    for (std::size_t i = 0; i < want.size(); ++i)
      if (!same_bits(got[i], want[i]))
        fail("{}: the tensors of '{}' are not the same bits", what,
             model.parameters().all()[i].name);
  }
  static void expect_near(double got, double want, double tolerance, const std::string& what) {
    if (!(std::abs(got - want) <= tolerance * std::max(std::abs(want), 1e-30)))
      fail("{}: {} and {}", what, got, want);
  }
  // Means over tokens change with padding, and if they are computed in parts.
  bool has_losses_of_layers() const {
    return run(random_rows(model, 1, tokens), {.features = kAlone}).step.mean_of("aux_loss") != 0;
  }
  // Draws depend on the position in a batch, and each microbatch has its own: batches that are cut
  // differently are compared without draws.
  decoder::GraphFeatures without_draws(decoder::GraphFeatures features) const {
    features.training = !model.has_dropout();
    return features;
  }

 private:
  const ModelCase& c_;

 public:
  const decoder::Model model;
  const std::int64_t tokens;
};

}  // namespace

void check_scanned_step_is_unrolled(const ModelCase& c) {
  const Step s(c);
  const decoder::Model unrolled = c.open(false);
  const Rows rows = random_rows(s.model, 2, s.tokens);
  const Result a = s.run(rows, {.features = kAlone}),
               b = s.run(rows, {.features = kAlone}, &unrolled);
  Step::expect_near(a.step.loss, b.step.loss, 1e-6, "the loss of scanned and of unrolled layers");
  s.expect_near(a.gradients, b.gradients, 1e-6, "gradients of scanned and of unrolled layers");
  s.expect_near(a.updated, b.updated, 1e-6, "updates of scanned and of unrolled layers");
}

void check_remat_policies_give_the_same_bits(const ModelCase& c) {
  const Step s(c);
  const Rows rows = random_rows(s.model, 2, s.tokens);
  const auto expect = [&](DType dtype, std::initializer_list<const char*> policies) {
    const auto with = [&](const char* policy) {
      return s.run(rows, {.shape = {.dtype = dtype}, .features = kAlone, .remat = policy});
    };
    const Result everything = with("none");
    for (const char* policy : policies) {
      const Result got = with(policy);
      const std::string what =
          fmt::format("rematerialisation '{}' in {}, and none", policy, lamina::name(dtype));
      if (got.step.loss != everything.step.loss)
        fail("{}: the losses are {} and {}", what, got.step.loss, everything.step.loss);
      s.expect_same_bits(got.gradients, everything.gradients, "gradients with " + what);
    }
  };
  expect(DType::f32, {"full", "minimal_with_context", "save_qkv_proj"});
  expect(DType::bf16, {"full", "minimal"});
}

void check_own_remat_tags(const ModelCase& c) {
  const Step s(c);
  const Rows rows = random_rows(s.model, 2, s.tokens);
  const auto with = [&](const char* policy, train::RematTags tags = {}) {
    return s.run(rows, {.features = kAlone, .remat = policy, .remat_tags = std::move(tags)});
  };
  const Result full = with("full"), everything = with("none"), minimal = with("minimal");
  train::RematTags device, offload;
  for (const std::string& tag : train::find_remat_policy("minimal").saved) {
    device[tag] = "device";
    offload[tag] = "offload";
  }
  const Result own = with("custom", device);
  s.expect_same_bits(own.gradients, everything.gradients,
                     "gradients with custom tags kept, and with everything kept");
  const auto expect_bytes = [](std::size_t got, std::size_t want, const char* what) {
    if (got != want) fail("{} take {} bytes; expected {}", what, got, want);
  };
  expect_bytes(own.arena_bytes, minimal.arena_bytes,
               "the tags of policy minimal, kept one by one,");
  const Result offloaded = with("custom", offload);
  s.expect_same_bits(offloaded.gradients, everything.gradients,
                     "gradients with offloaded values, and with everything kept");
  if (c.backend().reaches(MemoryKind::pinned))  // one memory
    expect_bytes(offloaded.arena_bytes, minimal.arena_bytes, "those tags, offloaded,");
  expect_bytes(with("custom", {{"context", "remat"}}).arena_bytes, full.arena_bytes,
               "a policy that keeps nothing");
}

void check_microbatches_are_one_batch(const ModelCase& c) {
  const Step s(c);
  Rows rows = random_rows(s.model, 4, s.tokens);
  // In the first two rows nearly all labels count, in the others few.
  for (std::size_t i = rows.labels.size() / 2; i < rows.labels.size(); ++i)
    if (i % 3 != 0) rows.labels[i] = -100;
  decoder::GraphFeatures features = s.without_draws(kAlone);
  features.aux = !s.has_losses_of_layers();
  const Result one = s.run(rows, {.features = features, .z_loss = 1e-2});
  const Result two = s.run(rows, {.features = features, .microbatches = 2, .z_loss = 1e-2});
  const char* what = "of two microbatches and of one batch";
  if (one.step.num_labels != two.step.num_labels)
    fail("labels {}: {} and {}", what, two.step.num_labels, one.step.num_labels);
  Step::expect_near(two.step.mean_of("mtp_loss"), one.step.mean_of("mtp_loss"), 1e-6,
                    fmt::format("losses of prediction {}", what));
  Step::expect_near(two.step.loss, one.step.loss, 1e-6, fmt::format("losses {}", what));
  Step::expect_near(two.step.mean_of("z_loss"), one.step.mean_of("z_loss"), 1e-5,
                    fmt::format("z-losses {}", what));
  const Result disturbed =
      s.run(rows, {.features = features, .z_loss = 1e-2}, nullptr, /*disturbance=*/1e-7);
  s.expect_near(two.gradients, one.gradients, c.gradient_tolerance,
                fmt::format("gradients {}", what), disturbed.gradients);
}

void check_packed_documents_have_the_gradients_of_each(const ModelCase& c) {
  const Step s(c);
  if (s.model.length_dependent_from()) skip("its rotary positions depend on the length of a row");
  const std::vector<Rows> documents = {
      random_rows(s.model, 1, s.tokens / 3, 1), random_rows(s.model, 1, s.tokens / 9, 2),
      random_rows(s.model, 1, s.tokens - 2 - s.tokens / 3 - s.tokens / 9, 3)};
  Rows separate{
      .batch = 3, .tokens = s.tokens, .ids = {}, .labels = {}, .positions = {}, .segments = {}};
  for (const Rows& document : documents) {
    const Rows row = pack({document}, s.tokens);
    auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(separate.ids, row.ids);
    append(separate.labels, row.labels);
    append(separate.positions, row.positions);
    append(separate.segments, row.segments);
  }
  decoder::GraphFeatures features = s.without_draws(train::all_losses());
  features.aux = !s.has_losses_of_layers();
  const Result together = s.run(pack(documents, s.tokens), {.features = features});
  const Result alone = s.run(separate, {.features = features});
  const char* what = "of documents in one row and in a row each";
  if (together.step.num_labels != alone.step.num_labels)
    fail("labels {}: {} and {}", what, together.step.num_labels, alone.step.num_labels);
  Step::expect_near(together.step.loss, alone.step.loss, 1e-6, fmt::format("losses {}", what));
  const Result disturbed = s.run(separate, {.features = features}, nullptr, /*disturbance=*/1e-7);
  s.expect_near(together.gradients, alone.gradients, c.gradient_tolerance,
                fmt::format("gradients {}", what), disturbed.gradients);
}

void check_threads_give_the_same_step(const ModelCase& c) {
  const Step s(c);
  const Rows rows = random_rows(s.model, 2, s.tokens);
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto with = [&](int threads) {
      c.compute.set_threads(threads);
      return s.run(rows, {.shape = {.dtype = dtype}, .features = kAlone, .clip_norm = 0.1});
    };
    const Result one = with(1), two = with(2);
    const std::string what = fmt::format("of one thread and of two, in {}", lamina::name(dtype));
    if (one.step.loss != two.step.loss || one.step.gradient_norm != two.step.gradient_norm)
      fail("the losses or gradient norms {} differ", what);
    s.expect_same_bits(two.gradients, one.gradients, "gradients " + what);
    s.expect_same_bits(two.updated, one.updated, "updates " + what);
  }
}

void check_nothing_is_learnt_without_labels(const ModelCase& c) {
  const Step s(c);
  Rows rows = random_rows(s.model, 2, s.tokens);
  rows.labels.assign(rows.labels.size(), -100);
  const Result got =
      s.run(rows, {.features = {.training = true, .aux = !s.has_losses_of_layers(), .mtp = true}});
  if (got.step.num_labels != 0 || got.step.loss != 0 || got.step.gradient_norm != 0)
    fail("without a label the loss is {} and the gradient's norm {}; both must be 0", got.step.loss,
         got.step.gradient_norm);
}

}  // namespace lamina::conformance
