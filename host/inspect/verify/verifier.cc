#include "inspect/verify/verifier.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "decode/sampler.h"
#include "inspect/verify/dequantised.h"
#include "inspect/verify/inputs.h"
#include "inspect/verify/inside.h"
#include "inspect/verify/prediction.h"
#include "model/open.h"
#include "program/records.h"
#include "runtime/host_access.h"
#include "train/loop/eval_step.h"
#include "weights/publish/peft.h"
#include "weights/stored.h"

namespace lamina::inspect {
namespace {

// True for a quantity with the name of a tensor, such as "packed.grad.lm_head.weight".
bool is_of_one_tensor(std::string_view quantity) {
  constexpr std::string_view kKinds[] = {"grad.",   "grad_sample.", "grad_norm.", "grad1.",
                                         "after1.", "final.",       "merged.",    "dequant."};
  return std::ranges::any_of(kKinds, [&](std::string_view kind) {
    const std::size_t at = quantity.find(kind);
    return at == 0 || (at != quantity.npos && quantity[at - 1] == '.');
  });
}

// The reason why none of our programs computes the quantity; empty if one should.
std::string_view reason_to_skip(std::string_view quantity, bool is_gguf) {
  if (is_gguf && is_of_one_tensor(quantity))
    return "belongs to a published tensor, whose name or order of rows may differ in a GGUF file";
  if (quantity.find(".visual.") != quantity.npos || quantity == "image.pixel_values" ||
      quantity == "image.grid_thw" || quantity == "image.rope_deltas")
    return "belongs to a vision encoder, which lamina does not have";
  if (quantity.ends_with("_hf_cached"))
    return "belongs to keys with the rotations of shorter sequences; lamina rotates them again";
  return {};
}

// As in training with [lora].
void freeze_all_but_adapter(decoder::Model& model) {
  std::vector<decoder::Learning> learning;
  for (const decoder::Parameter& p : model.parameters().all())
    learning.push_back({.frozen = !decoder::is_adapter(p.name)});
  model.set_learning(learning);
}

// Activations [tokens, width] as [tokens, streams, width], if a case has `wanted` elements: all
// residual streams are equal at the start.
std::vector<float> in_streams(const std::vector<float>& x, std::size_t wanted, std::size_t width) {
  if (x.empty() || wanted % x.size() != 0) return x;
  std::vector<float> out;
  for (std::size_t at = 0; at < x.size(); at += width)
    for (std::size_t stream = 0; stream < wanted / x.size(); ++stream)
      out.insert(out.end(), x.begin() + static_cast<std::ptrdiff_t>(at),
                 x.begin() + static_cast<std::ptrdiff_t>(at + width));
  return out;
}

}  // namespace

Verifier::Verifier(const std::string& directory, DType dtype, const registry::Catalog& plugins,
                   const Backend& backend)
    : case_(directory), dtype_(dtype), plugins_(plugins), backend_(backend) {
  report_.directory = directory;
  is_coarse_ = dtype == DType::bf16 || case_.reference_dtype() == DType::bf16;
  const std::string adapter = directory + "/adapter";
  model::OpenedModel opened =
      model::open(directory, plugins, {}, {}, std::filesystem::exists(adapter) ? adapter : "");
  files_ = opened.weight_files();
  model_ = std::move(opened.model);
  report_.unread = model::unused_keys(*model_);
  if (model_->adapter()) freeze_all_but_adapter(*model_);
  if (opened.published) placeholders_ = opened.published->placeholder_token_ids();
  weights::keep_blocks(*model_, *files_, dtype);
  weights_ =
      std::make_unique<weights::Weights>(weights::Weights::load(*model_, files_, dtype, backend_));
  published_ = weights::match_weights(*model_, *files_);
}

// base.*: the model without its adapter; merged.*: the matrices with the adapter merged.
void Verifier::adapter() {
  const program::Rows rows = read_rows(case_, "");
  const std::unique_ptr<decoder::Model> base = model::open(report_.directory, plugins_).model;
  const weights::Weights weights = weights::Weights::load(
      *base, std::make_shared<io::WeightFiles>(report_.directory), dtype_, backend_);
  if (case_.has("base.logits"))
    compare_logits(
        "base.logits",
        inspect::forward(*base, weights.pointers(), rows, {.dtype = dtype_}, backend_).logits);
  if (case_.has("base.loss")) {
    train::EvalStep eval(*base, rows.batch, rows.tokens, dtype_, rows.packed(), backend_);
    add("base.loss",
        std::abs(eval.run(rows.microbatch(), weights.pointers()).mean_loss() -
                 case_.number("base.loss")),
        case_.tolerance("loss_abs", 1e-5));
  }
  const std::unique_ptr<train::TrainState> state = training_state(false);
  std::map<int, std::vector<float>> masters;
  const auto values = [&](int parameter) -> std::span<const float> {
    const auto [found, is_new] = masters.try_emplace(parameter);
    if (is_new) found->second = state->values(parameter);
    return found->second;
  };
  for (int i = 0; i < std::ssize(model_->parameters().all()); ++i) {
    if (!weights::has_adapter(*model_, i)) continue;
    const std::string name = "merged." + published_.tensor_of(published_.pieces_of(i).front()).name;
    if (!case_.has(name)) continue;
    std::vector<float> merged(values(i).begin(), values(i).end());
    weights::merge_adapter(*model_, i, values, merged);
    const std::vector<float> want = case_.floats(name);
    add(name, max_abs_difference(merged, want) / std::max(max_abs(want), 1e-30), 1e-6);
  }
}

VerifyReport Verifier::run() {
  check_inputs(case_, *model_);
  for (std::string prefix : {"", "packed."}) {
    if (!case_.has(prefix + "input_ids")) continue;
    const program::Rows rows = read_rows(case_, prefix);
    forward(prefix, rows);
    if (case_.has(prefix + "loss")) gradients(*model_, prefix, rows);
  }
  if (case_.has("input_ids")) inside();
  if (model_->adapter()) adapter();
  if (case_.has("mrope.logits")) mrope();
  if (case_.has("image.embeddings")) images();
  if (case_.has("with_aux.loss")) with_aux();
  alone();
  if (case_.has("mtp.logits") && model_->mtp_depth() == 1) prediction();
  dequantised();
  if (case_.has("greedy_ids")) greedy("", {});
  if (case_.has("batches.input_ids")) curve();
  other_types();
  list_skipped();
  if (report_.rows.empty())
    throw UserError(
        ExitCode::checkpoint,
        {case_.golden.path(),
         "contains nothing to compare; expected token ids (input_ids) and their outputs, "
         "such as logits, loss or grad.*",
         {"docs/verify.md describes cases"}});
  return std::move(report_);
}

double Verifier::slack() const { return is_coarse_ ? 4096 : 1; }

void Verifier::add(std::string quantity, double error, double tolerance, std::string note) {
  known_.push_back(quantity);
  report_.rows.push_back({std::move(quantity), error, tolerance * slack(), std::move(note)});
}

void Verifier::compare_logits(const std::string& name, std::span<const float> got) {
  add(name, max_abs_difference(got, case_.floats(name)), case_.tolerance("logits_max_abs", 1e-4));
}

void Verifier::forward(const std::string& prefix, const program::Rows& rows,
                       const ImageInputs* images) {
  bool hidden = case_.has(prefix + "hidden.embed");
  ForwardOptions options{.dtype = dtype_, .hidden = hidden, .images = images};
  if (images) options.positions_3d = images->positions();
  ForwardResult got = inspect::forward(*model_, weights_->pointers(), rows, options, backend_);
  if (hidden) {
    double tolerance = case_.tolerance("hidden_max_abs_over_max", 1e-4);
    for (std::size_t layer = 0; layer < got.hidden.size(); ++layer) {
      std::string name =
          prefix + (layer == 0 ? "hidden.embed" : fmt::format("hidden.{}", layer - 1));
      if (!case_.has(name)) continue;
      std::vector<float> want = case_.floats(name);
      if (layer == 0)
        got.hidden[0] =
            in_streams(got.hidden[0], want.size(), static_cast<std::size_t>(model_->hidden_size()));
      double error = max_abs_difference(got.hidden[layer], want) / std::max(max_abs(want), 1e-30);
      add(name, error, tolerance);
      if (!report_.rows.back().passed() && report_.first_departure.empty())
        report_.first_departure = layer == 0 ? "the embedding" : fmt::format("layer {}", layer - 1);
    }
  }
  if (case_.has(prefix + "logits")) compare_logits(prefix + "logits", got.logits);
}

// Values inside layers, in a separate run: recorded values cannot be fused away.
void Verifier::inside() {
  std::vector<std::string> tags = tags_of(case_);
  if (tags.empty()) return;
  program::LayerRecords records = program::record_layers(
      *model_, weights_->pointers(), read_rows(case_, ""), dtype_, tags, backend_);
  for (Comparison& c : compare_inside(case_, records)) {
    known_.push_back(c.quantity);
    // Runs in a coarse type may choose differently between two close scores.
    if (!c.follows_choice || !is_coarse_)
      add(std::move(c.quantity), c.error, c.tolerance, std::move(c.note));
  }
}

// The same tokens with positions in time, height and width.
void Verifier::mrope() {
  const std::vector<std::int32_t> places = case_.ints("mrope.position_ids");
  compare_logits("mrope.logits",
                 inspect::forward(*model_, weights_->pointers(), read_rows(case_, ""),
                                  {.dtype = dtype_, .positions_3d = places}, backend_)
                     .logits);
}

// alone.<row>.<document>: each document of the packed rows by itself.
void Verifier::alone() {
  if (!case_.has("packed.input_ids")) return;
  const program::Rows rows = read_rows(case_, "packed.");
  for (std::int64_t b = 0; b < rows.batch; ++b)
    for (std::int64_t d = 0;; ++d) {
      std::string name = fmt::format("alone.{}.{}.logits", b, d);
      if (!case_.has(name)) break;
      std::vector<std::int32_t> ids;
      for (std::int64_t t = 0; t < rows.tokens; ++t)
        if (std::size_t i = static_cast<std::size_t>(b * rows.tokens + t);
            rows.segments[i] == d + 1)
          ids.push_back(rows.ids[i]);
      const std::int64_t n = static_cast<std::int64_t>(ids.size());
      const program::Rows document =
          program::rows_of(ids, std::vector<std::int32_t>(ids.size(), -100), 1, n);
      compare_logits(name, inspect::forward(*model_, weights_->pointers(), document,
                                            {.dtype = dtype_}, backend_)
                               .logits);
    }
}

// mtp.*: the layer that predicts one token further, at all positions except the last of each row.
void Verifier::prediction() {
  const program::Rows rows = read_rows(case_, "");
  const Prediction got = predict(*model_, weights_->pointers(), rows, dtype_, backend_);
  auto without_last = [&](const std::vector<float>& all) {
    std::size_t row = all.size() / static_cast<std::size_t>(rows.batch);
    std::size_t kept = row - row / static_cast<std::size_t>(rows.tokens);
    std::vector<float> out;
    for (std::size_t at = 0; at < all.size(); at += row)
      out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(at),
                 all.begin() + static_cast<std::ptrdiff_t>(at + kept));
    return out;
  };
  // A second pass through norms and layers: a few times the rounding of the first.
  double logits = 4 * case_.tolerance("logits_max_abs", 1e-4);
  add("mtp.logits", max_abs_difference(without_last(got.logits), case_.floats("mtp.logits")),
      logits);
  if (case_.has("mtp.hidden")) {
    std::vector<float> want = case_.floats("mtp.hidden");
    add("mtp.hidden", max_abs_difference(without_last(got.normed), want) / max_abs(want),
        case_.tolerance("hidden_max_abs_over_max", 1e-4));
  }
  if (!case_.has("mtp.loss")) return;
  const train::TrainState& state = fresh_state();
  double loss = prediction_gradients(*model_, state, rows, dtype_, backend_);
  add("mtp.loss", std::abs(loss - case_.number("mtp.loss")), case_.tolerance("loss_abs", 1e-5));
  compare_gradients("mtp.", state);
}

// dequant.*: weights with their rows in published order.
void Verifier::dequantised() {
  std::optional<io::WeightFiles> reordered;
  if (files_->gguf()) {
    reordered.emplace(files_->path());
    reordered->unpair_rows(
        model::describe(report_.directory, plugins_, {}, {}, model::WeightForm::published)
            .paired_width);
  }
  for (DequantisedWeight& weight : compare_dequantised(case_, reordered ? *reordered : *files_))
    add(std::move(weight.quantity), weight.error, 0);
}

// `overrides`: for placeholder tokens of the prompt.
void Verifier::greedy(const std::string& prefix, const decode::EmbeddingOverrides& overrides) {
  const auto [prompt, want] = read_greedy(case_, prefix);
  std::int64_t capacity = static_cast<std::int64_t>(prompt.size() + want.size());
  decode::Session session(*model_, weights_->pointers(),
                          {.capacity = capacity, .call_tokens = capacity, .dtype = dtype_},
                          backend_);
  std::vector<float> want_logits;
  if (case_.has(prefix + "greedy_logits")) want_logits = case_.floats(prefix + "greedy_logits");
  std::size_t vocab = static_cast<std::size_t>(model_->vocab_size());
  std::span<const float> logits =
      overrides.rows.empty() ? session.append(prompt) : session.append(prompt, overrides);
  double worst = 0;
  std::size_t agreed = 0;
  bool diverged = false;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!want_logits.empty())
      worst = std::max(
          worst, max_abs_difference(logits, std::span(want_logits).subspan(i * vocab, vocab)));
    diverged = diverged || decode::argmax(logits) != want[i];
    if (!diverged) ++agreed;
    if (i + 1 < want.size()) logits = session.append(std::span(&want[i], 1));
  }
  if (!want_logits.empty())
    add(prefix + "greedy_logits", worst, case_.tolerance("logits_max_abs", 1e-4));
  // Runs in a coarse type may choose differently between two close logits.
  if (!is_coarse_)
    add(prefix + "greedy_ids", static_cast<double>(want.size() - agreed), 0,
        diverged ? fmt::format("differs from the golden at token {}", agreed) : "");
  known_.insert(known_.end(), {prefix + "greedy_ids", prefix + "prompt_ids"});
}

// Builds the graphs of a step and of decoding in the types that the case does not run in. Blocks
// are traced in each type, so a constant of a fixed type is found here and not by a later run.
void Verifier::other_types() {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    if (dtype == dtype_) continue;
    const decoder::GraphShape shape{2, 5, dtype};
    try {
      model_->loss_graph(shape, {.training = true, .aux = true, .mtp = true});
      if (model_->is_autoregressive())
        model_->decode_graph(shape, {.capacity = 8, .max_call_tokens = shape.tokens});
    } catch (const PluginError& refused) {
      const ErrorText& text = refused.text();
      report_.unbuilt.push_back(
          {dtype, fmt::format("{}: {}{}", text.where, text.what,
                              text.notes.empty() ? "" : "; " + text.notes.front())});
    }
  }
}

// Lists the quantities of the case that no row above covers.
void Verifier::list_skipped() {
  for (std::string_view name : case_.golden.names()) {
    bool input = name.ends_with("input_ids") || name.ends_with("labels") ||
                 name.ends_with("position_ids") || name.ends_with("segment_ids");
    if (input || std::ranges::find(known_, name) != known_.end()) continue;
    report_.skipped.push_back(
        {std::string(name), std::string(reason_to_skip(name, files_->gguf())), tags_of(name)});
  }
}

}  // namespace lamina::inspect
