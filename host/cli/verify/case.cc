#include "cli/verify/case.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/backend.h"
#include "cli/open_model.h"
#include "cli/verify/prediction.h"
#include "core/error.h"
#include "core/float16.h"
#include "decode/sampler.h"
#include "decode/session.h"
#include "decoder/weights.h"
#include "train/schedule.h"
#include "train/train_step.h"

namespace lamina::cli {
namespace {

using decoder::Role;

// Rounding of the compute type, relative to f32's: what a tolerance for f32 is multiplied by.
double slack(DType dtype) { return dtype == DType::bf16 ? 4096 : 1; }

// Rows of tokens of a case, ready to be bound: labels moved to the token before.
struct Rows {
  std::int64_t batch = 0, tokens = 0;
  std::vector<std::int32_t> ids, labels, positions, segments;

  Rows(const GoldenCase& c, const std::string& prefix) : ids(c.ints(prefix + "input_ids")) {
    Shape shape = c.shape(prefix + "input_ids");
    batch = shape[0];
    tokens = shape[1];
    positions.resize(ids.size());
    segments.assign(ids.size(), 1);
    for (std::size_t i = 0; i < ids.size(); ++i)
      positions[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % tokens);
    if (c.has(prefix + "position_ids")) positions = c.ints(prefix + "position_ids");
    if (c.has(prefix + "segment_ids")) segments = c.ints(prefix + "segment_ids");
    if (c.has(prefix + "labels")) set_labels(c.ints(prefix + "labels"));
  }
  Rows(std::vector<std::int32_t> all_ids, std::vector<std::int32_t> unshifted, std::int64_t b,
       std::int64_t t)
      : batch(b),
        tokens(t),
        ids(std::move(all_ids)),
        positions(ids.size()),
        segments(ids.size(), 1) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      positions[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % tokens);
    set_labels(unshifted);
  }

  void set_labels(const std::vector<std::int32_t>& unshifted) {
    labels.assign(ids.size(), -100);
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t t = 0; t + 1 < tokens; ++t)
        labels[static_cast<std::size_t>(b * tokens + t)] =
            unshifted[static_cast<std::size_t>(b * tokens + t + 1)];
  }
  bool packed() const {
    return std::ranges::any_of(segments, [](std::int32_t s) { return s != 1; });
  }
  train::Microbatch microbatch() const {
    return {ids.data(), labels.data(), positions.data(), segments.data()};
  }
};

class Verifier {
 public:
  Verifier(const std::string& directory, DType dtype, const Globals& globals)
      : case_(directory), dtype_(dtype) {
    report_.directory = directory;
    model_ = open_model(directory, globals).model;
    files_ = std::make_shared<io::WeightFiles>(directory);
    weights_ = std::make_unique<decoder::Weights>(
        decoder::Weights::load(*model_, files_, dtype, backend_));
    published_ = decoder::match_weights(*model_, *files_);
  }

  VerifyReport run() {
    for (std::string prefix : {"", "packed."}) {
      if (!case_.has(prefix + "input_ids")) continue;
      Rows rows(case_, prefix);
      forward(prefix, rows);
      if (case_.has(prefix + "loss")) gradients(prefix, rows);
    }
    alone();
    if (case_.has("mtp.logits") && model_->mtp_depth() == 1) prediction();
    if (case_.has("greedy_ids")) greedy();
    if (case_.has("batches.input_ids")) curve();
    list_skipped();
    return std::move(report_);
  }

 private:
  void add(std::string quantity, double error, double tolerance, std::string note = {}) {
    known_.push_back(quantity);
    report_.rows.push_back(
        {std::move(quantity), error, tolerance * slack(dtype_), std::move(note)});
  }

  // Logits and hidden states of rows without decode state.
  struct Forward {
    std::vector<float> logits;
    std::vector<std::vector<float>> hidden;  // [0] enters the stack
  };
  Forward compute(const Rows& rows, bool hidden) {
    return compute(rows, hidden, weights_->pointers());
  }
  Forward compute(const Rows& rows, bool hidden, std::span<void* const> parameters) {
    decoder::BoundProgram program(model_->forward_graph({.batch = rows.batch,
                                                         .tokens = rows.tokens,
                                                         .dtype = dtype_,
                                                         .segments = rows.packed(),
                                                         .hidden = hidden}),
                                  backend_);
    program.bind_parameters(parameters);
    auto writable = [](const std::vector<std::int32_t>& v) {
      return const_cast<std::int32_t*>(v.data());
    };
    program.bind(Role::tokens, writable(rows.ids));
    program.bind(Role::positions, writable(rows.positions));
    program.bind(Role::segments, writable(rows.segments));
    Forward out;
    out.logits.resize(rows.ids.size() * static_cast<std::size_t>(model_->vocab_size()));
    program.bind(Role::logits, out.logits.data());
    std::size_t width = static_cast<std::size_t>(model_->hidden_size());
    std::vector<std::vector<std::byte>> raw;
    if (hidden) {
      std::vector<void*> pointers;
      raw.resize(static_cast<std::size_t>(model_->config().num_layers()) + 1);
      for (auto& buffer : raw) {
        buffer.resize(program.hidden_bytes());
        pointers.push_back(buffer.data());
      }
      program.bind_hidden(pointers);
    }
    auto arena = backend_.allocate(program.arena_bytes());
    program.run(arena->data());
    for (const auto& buffer : raw) {
      // What enters the stack is as wide as the embedding; carries may hold several streams.
      std::vector<float> values(&buffer == raw.data()
                                    ? rows.ids.size() * width
                                    : buffer.size() / static_cast<std::size_t>(size_bytes(dtype_)));
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (dtype_ == DType::bf16) {
          values[i] = to_float(reinterpret_cast<const bfloat16*>(buffer.data())[i]);
        } else {
          values[i] = reinterpret_cast<const float*>(buffer.data())[i];
        }
      }
      out.hidden.push_back(std::move(values));
    }
    return out;
  }

  void forward(const std::string& prefix, const Rows& rows) {
    bool hidden = case_.has(prefix + "hidden.embed");
    Forward got = compute(rows, hidden);
    if (hidden) {
      double tolerance = case_.tolerance("hidden_max_abs_over_max", 1e-4);
      for (std::size_t layer = 0; layer < got.hidden.size(); ++layer) {
        std::string name =
            prefix + (layer == 0 ? "hidden.embed" : fmt::format("hidden.{}", layer - 1));
        if (!case_.has(name)) continue;
        std::vector<float> want = case_.floats(name);
        double error = max_abs_difference(got.hidden[layer], want) / std::max(max_abs(want), 1e-30);
        add(name, error, tolerance);
        if (!report_.rows.back().passed() && report_.first_departure.empty())
          report_.first_departure =
              layer == 0 ? "the embedding" : fmt::format("layer {}", layer - 1);
      }
    }
    if (case_.has(prefix + "logits"))
      add(prefix + "logits", max_abs_difference(got.logits, case_.floats(prefix + "logits")),
          case_.tolerance("logits_max_abs", 1e-4));
  }

  // A fresh training state with the case's weights.
  std::unique_ptr<train::TrainState> training_state(bool accumulate) {
    auto state =
        std::make_unique<train::TrainState>(model_->parameters(), dtype_, accumulate, backend_);
    const auto& parameters = model_->parameters().all();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      std::span<float> master(state->masters()[i],
                              static_cast<std::size_t>(parameters[i].num_elements()));
      if (published_.pieces_of(static_cast<int>(i)).empty())
        decoder::initialise(parameters[i], 0, master);
      else
        decoder::read_parameter(published_, *files_, static_cast<int>(i), 0, master);
    }
    state->refresh_copies();
    return state;
  }

  // Values of ours, one array a parameter, as the checkpoint would have tensor `tensor`.
  template <typename Pointers>
  std::vector<float> as_published(std::size_t tensor, const Pointers& values,
                                  decoder::Values what) const {
    return decoder::assemble(
        published_, static_cast<int>(tensor),
        [&](int parameter, std::int64_t first, std::int64_t count) {
          const auto* all = static_cast<const float*>(values[static_cast<std::size_t>(parameter)]);
          return std::span(all + first, static_cast<std::size_t>(count));
        },
        what);
  }

  void gradients(const std::string& prefix, const Rows& rows) {
    auto state = training_state(false);
    train::TrainStepOptions options{.rows = rows.batch,
                                    .tokens = rows.tokens,
                                    .dtype = dtype_,
                                    .mtp = false,
                                    .segments = rows.packed()};
    train::TrainStep step(*model_, *state, options, {}, backend_);
    train::Microbatch batch = rows.microbatch();
    train::StepResult result = step.gradients({&batch, 1}, 0);
    // Where layers keep losses of their own, loss is the sum and ce_loss the cross-entropy.
    auto compare_loss = [&](const std::string& name, double got) {
      if (case_.has(prefix + name))
        add(prefix + name, std::abs(got - static_cast<double>(case_.floats(prefix + name)[0])),
            case_.tolerance("loss_abs", 1e-5));
    };
    compare_loss("loss", result.loss + result.aux_loss);
    compare_loss("ce_loss", result.loss);
    compare_gradients(prefix, *state);
  }

  void compare_gradients(const std::string& prefix, const train::TrainState& state) {
    double tolerance = case_.tolerance("grad_max_abs_over_max", 1e-4);
    for (std::size_t i = 0; i < published_.tensors().size(); ++i) {
      const std::string& name = published_.tensors()[i].name;
      std::string whole = prefix + "grad." + name, sample = prefix + "grad_sample." + name,
                  norm = prefix + "grad_norm." + name;
      if (!case_.has(whole) && !case_.has(sample)) continue;
      std::vector<float> got = as_published(i, state.gradients(), decoder::Values::gradients);
      if (case_.has(whole)) {
        compare_gradient(whole, got, case_.floats(whole), tolerance);
        continue;
      }
      std::vector<float> want = case_.floats(sample), picked(want.size());
      for (std::size_t k = 0; k < picked.size(); ++k) picked[k] = got[k * 2654435761u % got.size()];
      compare_gradient(sample, picked, want, tolerance);
      double sum = 0, wanted_norm = static_cast<double>(case_.floats(norm)[0]);
      for (float g : got) sum += static_cast<double>(g) * static_cast<double>(g);
      add(norm, std::abs(std::sqrt(sum) - wanted_norm) / std::max(wanted_norm, 1e-30), tolerance);
    }
  }

  // Relative to the tensor's largest element; a gradient that is all rounding (below 1e-6, such as
  // that of a key bias) counts absolutely.
  void compare_gradient(const std::string& name, const std::vector<float>& got,
                        const std::vector<float>& want, double tolerance) {
    add(name, max_abs_difference(got, want) / std::max(max_abs(want), 1e-6), tolerance);
  }

  // alone.<row>.<document>: each document of the packed rows by itself.
  void alone() {
    if (!case_.has("packed.input_ids")) return;
    Rows rows(case_, "packed.");
    for (std::int64_t b = 0; b < rows.batch; ++b)
      for (std::int64_t d = 0;; ++d) {
        std::string name = fmt::format("alone.{}.{}.logits", b, d);
        if (!case_.has(name)) break;
        std::vector<std::int32_t> ids;
        for (std::int64_t t = 0; t < rows.tokens; ++t)
          if (std::size_t i = static_cast<std::size_t>(b * rows.tokens + t);
              rows.segments[i] == d + 1)
            ids.push_back(rows.ids[i]);
        std::int64_t n = static_cast<std::int64_t>(ids.size());
        Rows document(ids, std::vector<std::int32_t>(ids.size(), -100), 1, n);
        add(name, max_abs_difference(compute(document, false).logits, case_.floats(name)),
            case_.tolerance("logits_max_abs", 1e-4));
      }
  }

  // mtp.*: the layer that predicts one token further, at all places but the last of each row.
  void prediction() {
    Rows rows(case_, "");
    auto state = training_state(false);
    train::Microbatch batch = rows.microbatch();
    Prediction got = predict(*model_, weights_->pointers(), batch, rows.batch, rows.tokens, dtype_,
                             false, backend_);
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
    double loss = prediction_gradients(*model_, *state, batch, rows.batch, rows.tokens, dtype_,
                                       false, backend_);
    add("mtp.loss", std::abs(loss - static_cast<double>(case_.floats("mtp.loss")[0])),
        case_.tolerance("loss_abs", 1e-5));
    compare_gradients("mtp.", *state);
  }

  void greedy() {
    std::vector<std::int32_t> prompt = case_.ints("prompt_ids"), want = case_.ints("greedy_ids");
    std::int64_t capacity = static_cast<std::int64_t>(prompt.size() + want.size());
    decode::Session session(*model_, weights_->pointers(),
                            {.capacity = capacity, .call_tokens = capacity, .dtype = dtype_},
                            backend_);
    std::vector<float> want_logits = case_.floats("greedy_logits");
    std::size_t vocab = static_cast<std::size_t>(model_->vocab_size());
    std::span<const float> logits = session.append(prompt);
    double worst = 0;
    std::size_t agreed = 0;
    bool diverged = false;
    for (std::size_t i = 0; i < want.size(); ++i) {
      worst = std::max(
          worst, max_abs_difference(logits, std::span(want_logits).subspan(i * vocab, vocab)));
      diverged = diverged || decode::argmax(logits) != want[i];
      if (!diverged) ++agreed;
      if (i + 1 < want.size()) logits = session.append(std::span(&want[i], 1));
    }
    add("greedy_logits", worst, case_.tolerance("logits_max_abs", 1e-4));
    // A run in a coarser type may choose otherwise where two logits are near.
    if (dtype_ == DType::f32)
      add("greedy_ids", static_cast<double>(want.size() - agreed), 0,
          diverged ? fmt::format("parts from the golden at token {}", agreed) : "");
    known_.insert(known_.end(), {"greedy_ids", "prompt_ids"});
  }

  void curve();
  void compare_parameters(const std::string& prefix, const train::TrainState& state,
                          const char* tolerance);
  void list_skipped();

  GoldenCase case_;
  DType dtype_;
  const Backend& backend_ = cpu::cpu_backend();
  std::unique_ptr<decoder::Model> model_;
  std::shared_ptr<io::WeightFiles> files_;
  std::unique_ptr<decoder::Weights> weights_;
  decoder::TensorMap published_;
  VerifyReport report_;
  std::vector<std::string> known_;
};

// A training run of some steps from the case's weights: loss, gradient norm and learning rate of
// each, parameters after the first and the last.
void Verifier::curve() {
  JsonValue recipe = case_.info.root().at("recipe");
  Shape shape = case_.shape("batches.input_ids");  // [steps, microbatches, B, T]
  std::vector<std::int32_t> ids = case_.ints("batches.input_ids"),
                            labels = case_.ints("batches.labels");
  train::TrainStepOptions options{.rows = shape[2],
                                  .tokens = shape[3],
                                  .microbatches = shape[1],
                                  .dtype = dtype_,
                                  .mtp = false,
                                  .segments = false,
                                  .clip_norm = recipe.at("clip").as_double()};
  config::OptimizerSection optimizer;
  optimizer.lr = recipe.at("peak_lr").as_double();
  optimizer.beta1 = recipe.at("beta1").as_double();
  optimizer.beta2 = recipe.at("beta2").as_double();
  optimizer.eps = recipe.at("eps").as_double();
  optimizer.weight_decay = recipe.at("weight_decay").as_double();
  config::ScheduleSection schedule{"cosine", recipe.at("warmup").as_int64(),
                                   recipe.at("floor").as_double()};
  auto state = training_state(shape[1] > 1);
  train::TrainStep step(*model_, *state, options, optimizer, backend_);
  std::vector<float> loss = case_.floats("loss"), norm = case_.floats("grad_norm"),
                     lr = case_.floats("lr");
  std::vector<float> loss_tolerance = case_.floats("tolerance.loss"),
                     norm_tolerance = case_.floats("tolerance.grad_norm");
  auto rows_of = [&](std::int64_t s, std::int64_t m) {
    std::int64_t per_batch = shape[2] * shape[3], at = (s * shape[1] + m) * per_batch;
    return Rows({ids.begin() + at, ids.begin() + at + per_batch},
                {labels.begin() + at, labels.begin() + at + per_batch}, shape[2], shape[3]);
  };
  for (std::int64_t s = 0; s < shape[0]; ++s) {
    std::vector<Rows> rows;
    for (std::int64_t m = 0; m < shape[1]; ++m) rows.push_back(rows_of(s, m));
    std::vector<train::Microbatch> batches;
    for (const Rows& r : rows) batches.push_back(r.microbatch());
    std::size_t i = static_cast<std::size_t>(s);
    double rate = train::learning_rate(schedule, optimizer.lr, s, shape[0]);
    train::StepResult got = step.gradients(batches, s);
    if (s == 0) {
      double tolerance = case_.tolerance("grad_max_abs_over_max", 1e-4);
      for (std::size_t p = 0; p < published_.tensors().size(); ++p)
        if (std::string name = "grad1." + published_.tensors()[p].name; case_.has(name))
          compare_gradient(name, as_published(p, state->gradients(), decoder::Values::gradients),
                           case_.floats(name), tolerance);
    }
    step.update(got, rate, s);
    add(fmt::format("loss of step {}", s + 1), std::abs(got.loss - static_cast<double>(loss[i])),
        static_cast<double>(loss_tolerance[i]));
    add(fmt::format("grad_norm of step {}", s + 1),
        std::abs(got.gradient_norm - static_cast<double>(norm[i])),
        static_cast<double>(norm_tolerance[i]));
    add(fmt::format("lr of step {}", s + 1), std::abs(rate / static_cast<double>(lr[i]) - 1), 1e-6);
    if (s == 0) compare_parameters("after1.", *state, "tolerance_after1");
  }
  compare_parameters("final.", *state, "tolerance_final");
  if (case_.has("final_logits"))
    add("final_logits",
        max_abs_difference(compute(rows_of(0, 0), false, state->used()).logits,
                           case_.floats("final_logits")),
        8 * case_.info.root().at("spread_of_final_logits").as_double() + 1e-6);
  known_.insert(known_.end(), {"loss", "grad_norm", "lr", "tolerance.loss", "tolerance.grad_norm",
                               "batches.input_ids", "batches.labels"});
}

void Verifier::compare_parameters(const std::string& prefix, const train::TrainState& state,
                                  const char* tolerance) {
  JsonValue allowed = case_.info.root().at(tolerance);
  for (std::size_t p = 0; p < published_.tensors().size(); ++p) {
    std::string name = prefix + published_.tensors()[p].name;
    if (!case_.has(name)) continue;
    std::vector<float> got = as_published(p, state.masters(), decoder::Values::weights),
                       want = case_.floats(name);
    double sum = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
      sum += d * d;
    }
    add(name, max_abs_difference(got, want), allowed.at("max_abs").as_double());
    add(name + " (rms)", std::sqrt(sum / static_cast<double>(got.size())),
        allowed.at("rms").as_double());
  }
}

// Whatever the case holds that no row above is about.
void Verifier::list_skipped() {
  for (std::string_view name : case_.golden.names()) {
    bool input = name.ends_with("input_ids") || name.ends_with("labels") ||
                 name.ends_with("position_ids") || name.ends_with("segment_ids");
    if (input || std::ranges::find(known_, name) != known_.end()) continue;
    report_.skipped.push_back(std::string(name));
  }
}

}  // namespace

GoldenCase::GoldenCase(std::string dir)
    : directory(std::move(dir)),
      golden(directory + "/golden.safetensors"),
      info(JsonDocument::read(directory + "/golden.json", {.code = ExitCode::checkpoint})) {}

std::vector<float> GoldenCase::floats(std::string_view name) const {
  io::TensorView view = golden.tensor(name);
  if (view.dtype != DType::f32)
    user_error(ExitCode::checkpoint, golden.path(), "tensor '{}' is {}, expected f32", name,
               lamina::name(view.dtype));
  std::vector<float> out(view.bytes.size() / sizeof(float));
  std::memcpy(out.data(), view.bytes.data(), view.bytes.size());
  return out;
}

std::vector<std::int32_t> GoldenCase::ints(std::string_view name) const {
  io::TensorView view = golden.tensor(name);
  if (view.dtype != DType::i32)
    user_error(ExitCode::checkpoint, golden.path(), "tensor '{}' is {}, expected i32", name,
               lamina::name(view.dtype));
  std::vector<std::int32_t> out(view.bytes.size() / sizeof(std::int32_t));
  std::memcpy(out.data(), view.bytes.data(), view.bytes.size());
  return out;
}

double GoldenCase::tolerance(std::string_view key, double fallback) const {
  JsonValue all = info.root().find("tolerance");
  JsonValue value = all ? all.find(key) : JsonValue();
  return value ? value.as_double() : fallback;
}

VerifyReport verify_case(const std::string& directory, DType dtype, const Globals& globals) {
  return Verifier(directory, dtype, globals).run();
}

}  // namespace lamina::cli
