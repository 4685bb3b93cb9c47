#include "conformance/numbers/one_pass.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "conformance/check.h"
#include "conformance/numbers/compare.h"
#include "conformance/process/scratch_folder.h"
#include "conformance/subjects/fingerprint.h"
#include "conformance/subjects/rows.h"
#include "inspect/verify/forward.h"
#include "io/weight_files.h"
#include "weights/publish/published.h"

namespace lamina::conformance {
namespace {

using program::Rows;

std::span<const float> row(const std::vector<float>& logits, std::int64_t vocab, std::int64_t first,
                           std::int64_t count) {
  return std::span(logits).subspan(static_cast<std::size_t>(first * vocab),
                                   static_cast<std::size_t>(count * vocab));
}

void expect_near(std::span<const float> got, std::span<const float> want, double tolerance,
                 const std::string& what) {
  const double found = relative_difference(got, want);
  if (!(found <= tolerance))
    fail("{}: the difference is {:.2g} of the largest number; rounding is at most {:.2g}", what,
         found, tolerance);
}

// The change of the logits `exact` of `rows`, relative to the largest, where every weight changes
// by the factor 1 + by or 1 - by: some models magnify rounding.
double magnified(const ModelCase& c, const decoder::Model& model, const weights::Weights& weights,
                 const Rows& rows, std::span<const float> exact, double by) {
  std::vector<std::vector<float>> copies = copy_of(model, weights.pointers(), c.backend());
  std::vector<ConstTensorRef> parameters;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    disturb(copies[i], by);
    const bool table = model.parameters().all()[i].used_dtype(DType::f32) == DType::i32;
    parameters.push_back(table ? weights.pointers()[i] : host_tensor(std::span(copies[i])));
  }
  const std::vector<float> logits = c.forward(model, parameters, rows);
  return relative_difference(std::span(logits).first(exact.size()), exact);
}

// The tolerance for logits of tokens in other company: eight times the effect of rounding the
// weights, if that is more than usual. A model that magnifies it further is not trusted.
double tolerance_of(const ModelCase& c, const decoder::Model& model,
                    const weights::Weights& weights, const Rows& rows,
                    std::span<const float> exact) {
  constexpr double kRounding = 1.0 / (1 << 23), kMost = 1e-3;
  const double effect = magnified(c, model, weights, rows, exact, kRounding);
  return std::max(c.hidden_tolerance, std::min(8 * effect, kMost));
}

// Under published names, or under ours.
weights::Weights through_files(const ModelCase& c, const decoder::Model& model,
                               const std::vector<std::vector<float>>& values_of, bool published) {
  const ScratchFolder folder;
  const weights::TensorMap map = weights::published_tensors(model);
  std::vector<io::TensorSpec> specs;
  std::map<std::string, std::vector<float>> values;
  for (std::size_t t = 0; published && t < map.tensors().size(); ++t) {
    const auto& [name, shape, pieces] = map.tensors()[t];
    const int parameter = map.pieces()[static_cast<std::size_t>(pieces.front())].parameter;
    specs.push_back({name, model.parameters()[parameter].used_dtype(DType::f32), shape});
    values[name] = weights::assemble(
        map, static_cast<int>(t), [&](int p, std::int64_t first, std::int64_t count) {
          return std::span<const float>(values_of[static_cast<std::size_t>(p)])
              .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
        });
  }
  for (std::size_t i = 0; !published && i < values_of.size(); ++i) {
    const decoder::Parameter& p = model.parameters().all()[i];
    specs.push_back({p.name, p.used_dtype(DType::f32), p.desc.shape});
    values[p.name] = values_of[i];
  }
  std::vector<std::byte> bytes;
  io::write_weight_files(folder.path(), specs, [&](const io::TensorSpec& spec) {
    const std::vector<float>& tensor = values.at(spec.name);
    bytes.resize(tensor.size() * static_cast<std::size_t>(size_bytes(spec.dtype)));
    weights::store(tensor, spec.dtype, 0, bytes.data());
    return std::span<const std::byte>(bytes);
  });
  return weights::Weights::load(model, std::make_shared<io::WeightFiles>(folder.path()), DType::f32,
                                c.backend());
}

}  // namespace

void check_scanned_pass_is_unrolled(const ModelCase& c) {
  const decoder::Model scanned = c.open(true), unrolled = c.open(false);
  if (std::ssize(unrolled.stack().segments) != unrolled.config().num_layers())
    fail("the unrolled stack has {} segments for {} layers", unrolled.stack().segments.size(),
         unrolled.config().num_layers());
  const Rows rows = random_rows(scanned, 2, row_tokens(scanned));
  const weights::Weights weights = c.load(scanned, DType::f32);
  const auto pass = [&](const decoder::Model& model) {
    return inspect::forward(model, weights.pointers(), rows, {.hidden = true}, c.backend());
  };
  const inspect::ForwardResult a = pass(scanned), b = pass(unrolled);
  expect_near(a.logits, b.logits, 1e-6, "logits of scanned and of unrolled layers");
  for (std::size_t i = 0; i < a.hidden.size(); ++i)
    expect_near(a.hidden[i], b.hidden[i], 1e-6,
                fmt::format("the input of layer {}, scanned and unrolled", i));
}

void check_packed_documents_are_alone(const ModelCase& c) {
  const decoder::Model model = c.open(true);
  // Rotary positions of a packed row depend on its longest position.
  if (model.length_dependent_from()) skip("its rotary positions depend on the length of a row");
  const weights::Weights weights = c.load(model, DType::f32);
  const std::int64_t tokens = row_tokens(model), vocab = model.vocab_size();
  std::vector<Rows> documents;
  // Less than a row together: some padding.
  for (std::int64_t n : {tokens / 4, std::int64_t{1}, tokens - 4 - tokens / 4})
    documents.push_back(
        random_rows(model, 1, std::max<std::int64_t>(n, 1), static_cast<unsigned>(n)));
  const Rows rows = pack(documents, tokens);
  const std::vector<float> packed = c.forward(model, weights.pointers(), rows);
  std::int64_t used = 0, at = 0;
  for (const Rows& document : documents) used += document.tokens;
  const double tolerance = tolerance_of(c, model, weights, rows, row(packed, vocab, 0, used));
  for (const Rows& document : documents) {
    const std::vector<float> alone = c.forward(model, weights.pointers(), document);
    expect_near(row(packed, vocab, at, document.tokens), alone, tolerance,
                fmt::format("a document of {} tokens at {} of a packed row, and alone",
                            document.tokens, at));
    at += document.tokens;
  }
}

void check_rows_of_a_batch_are_alone(const ModelCase& c) {
  const decoder::Model model = c.open(true);
  const weights::Weights weights = c.load(model, DType::f32);
  const std::int64_t tokens = row_tokens(model), vocab = model.vocab_size();
  const Rows batch = random_rows(model, 3, tokens);
  const std::vector<float> together = c.forward(model, weights.pointers(), batch);
  const double tolerance = tolerance_of(c, model, weights, batch, together);
  for (std::int64_t b = 0; b < 3; ++b) {
    Rows one = random_rows(model, 1, tokens);
    std::copy_n(batch.ids.begin() + b * tokens, tokens, one.ids.begin());
    expect_near(row(together, vocab, b * tokens, tokens), c.forward(model, weights.pointers(), one),
                tolerance, fmt::format("row {} of three, and alone", b));
  }
}

void check_threads_give_the_same_pass(const ModelCase& c) {
  const decoder::Model model = c.open(true);
  const Rows rows = random_rows(model, 2, row_tokens(model));
  for (DType dtype : {DType::f32, DType::bf16}) {
    const weights::Weights weights = c.load(model, dtype);
    c.compute.set_threads(1);
    const std::vector<float> one = c.forward(model, weights.pointers(), rows, dtype);
    c.compute.set_threads(2);
    const std::vector<float> two = c.forward(model, weights.pointers(), rows, dtype);
    if (!same_bits(one, two))
      fail("logits of one thread and of two, in {}, are not the same bits", lamina::name(dtype));
  }
}

void check_the_same_pass_twice(const ModelCase& c) {
  std::vector<float> first;
  for (int time = 0; time < 2; ++time) {
    const decoder::Model model = c.open(true);
    const weights::Weights weights = c.load(model, DType::f32);
    const Rows rows = random_rows(model, 2, row_tokens(model));
    const std::vector<float> logits = c.forward(model, weights.pointers(), rows);
    if (time > 0 && !same_bits(logits, first))
      fail("logits of the same model and rows, computed twice, are not the same bits");
    first = logits;
  }
}

namespace {

// True if tokens choose among experts or similar.
bool chooses(const decoder::Model& model) {
  bool out = false;
  for_each_graph(model.forward_graph({2, 5}).graph, [&](const Graph& graph) {
    for (const Node& node : graph.nodes()) out = out || node.op->def->facts.chooses;
  });
  return out;
}

// The largest difference of a token's logits, except for the worst quarter of the tokens: there,
// rounding may change a choice, which is not an error.
double difference_of_most(std::span<const float> a, std::span<const float> b, std::size_t tokens) {
  const std::size_t width = b.size() / tokens;
  std::vector<double> each;
  for (std::size_t t = 0; t < tokens; ++t)
    each.push_back(difference(a.subspan(t * width, width), b.subspan(t * width, width)));
  std::ranges::sort(each);
  return each[tokens - 1 - tokens / 4] / largest_magnitude(b);
}

}  // namespace

void check_bfloat16_is_near(const ModelCase& c) {
  const decoder::Model model = c.open(true);
  const Rows rows = random_rows(model, 2, row_tokens(model));
  const weights::Weights weights = c.load(model, DType::f32);
  const std::vector<float> exact = c.forward(model, weights.pointers(), rows);
  const weights::Weights coarse_weights = c.load(model, DType::bf16);
  const std::vector<float> coarse = c.forward(model, coarse_weights.pointers(), rows, DType::bf16);
  // Rounding may also change the choice of experts.
  const double allowed = std::max(0.1, 4 * magnified(c, model, weights, rows, exact, 1.0 / 256));
  if (!chooses(model)) {
    expect_near(coarse, exact, allowed, "logits in bfloat16 and in float32");
  } else if (const double found =
                 difference_of_most(coarse, exact, static_cast<std::size_t>(rows.ids.size()));
             !(found <= allowed)) {
    fail(
        "logits in bfloat16 and in float32 differ by {:.2g} in more than a quarter of the tokens; "
        "{:.2g} is allowed there, even if choices (top_k) differ",
        found, allowed);
  }
  if (same_bits(coarse, exact)) fail("logits in bfloat16 equal those in float32 to the bit");
}

void check_finite(const ModelCase& c) {
  // A state that grows by a fifth with each token of such a row overflows float32. It may be longer
  // than the rows for which the model is made.
  constexpr std::int64_t kLongRow = 512;
  const decoder::Model model = c.open(true);
  const Rows rows =
      random_rows(model, 1, has_positions(model, kLongRow) ? kLongRow : row_tokens(model));
  for (DType dtype : {DType::f32, DType::bf16}) {
    const weights::Weights weights = c.load(model, dtype);
    std::vector<ConstTensorRef> parameters(weights.pointers().begin(), weights.pointers().end());
    const auto table = static_cast<std::size_t>(model.parameters().find("embed.weight"));
    const decoder::Parameter& p = model.parameters().all()[table];
    std::vector<float> values(static_cast<std::size_t>(p.num_elements()));
    weights::initialise(p, 1, values);
    for (float& value : values) value *= 10;
    std::vector<std::byte> bytes(values.size() *
                                 static_cast<std::size_t>(size_bytes(p.used_dtype(dtype))));
    weights::store(values, p.used_dtype(dtype), 0, bytes.data());
    parameters[table] = host_tensor(bytes.data(), Type{p.used_dtype(dtype), p.desc.shape, {}});
    for (float logit : c.forward(model, parameters, rows, dtype))
      if (!std::isfinite(logit))
        fail("a logit of a row of {} tokens is {} in {} with ten times larger token embeddings",
             rows.tokens, logit, lamina::name(dtype));
  }
}

void check_weights_survive_an_export(const ModelCase& c) {
  const decoder::Model model = c.open(true);
  const weights::Weights weights = c.load(model, DType::f32);
  const std::vector<std::vector<float>> before = copy_of(model, weights.pointers(), c.backend());
  for (const bool published : {true, false}) {
    const weights::Weights again = through_files(c, model, before, published);
    const std::vector<std::vector<float>> after = copy_of(model, again.pointers(), c.backend());
    for (std::size_t i = 0; i < before.size(); ++i)
      if (!same_bits(after[i], before[i]))
        fail("parameter '{}' comes back from {} names with other values",
             model.parameters().all()[i].name, published ? "published" : "its own");
  }
}

}  // namespace lamina::conformance
