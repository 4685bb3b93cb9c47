#include "support/maxtext_case.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "backends/cpu/backend.h"
#include "cli/verify/case.h"
#include "core/json.h"
#include "support/models.h"
#include "train/train_step.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

// How a parameter of theirs, without its layer axis, becomes ours.
enum class Layout {
  same,    // row-major as it is
  in_out,  // [in..., out...] to [out, in]
  query,   // in_out, with 1 / sqrt(head width) inside: we multiply scores by it
};

struct Row {
  std::string_view ours;  // inside the block, or outside the layers
  std::string_view theirs;
  Layout layout;
};

constexpr Row kRows[] = {
    {"embed.weight", "token_embedder/embedding", Layout::same},
    {"positions.weight", "decoder/position_embedder/embedding", Layout::same},
    {"norm.weight", "decoder/decoder_norm/scale", Layout::same},
    {"norm.bias", "decoder/decoder_norm/bias", Layout::same},
    {"head.weight", "decoder/logits_dense/kernel", Layout::in_out},
    // simple, simple_mlp
    {"weights.weight", "decoder/layers/weights", Layout::in_out},
    {"ff_1.weight", "decoder/layers/ff_1", Layout::in_out},
    {"ff_2.weight", "decoder/layers/ff_2", Layout::in_out},
    // llama2
    {"attention_norm.weight", "decoder/layers/pre_self_attention_layer_norm/scale", Layout::same},
    {"attention.wq.weight", "decoder/layers/self_attention/query/kernel", Layout::query},
    {"attention.wk.weight", "decoder/layers/self_attention/key/kernel", Layout::in_out},
    {"attention.wv.weight", "decoder/layers/self_attention/value/kernel", Layout::in_out},
    {"attention.wo.weight", "decoder/layers/self_attention/out/kernel", Layout::in_out},
    {"ffn_norm.weight", "decoder/layers/post_self_attention_layer_norm/scale", Layout::same},
    {"feed_forward.w1.weight", "decoder/layers/mlp/wi_0/kernel", Layout::in_out},
    {"feed_forward.w3.weight", "decoder/layers/mlp/wi_1/kernel", Layout::in_out},
    {"feed_forward.w2.weight", "decoder/layers/mlp/wo/kernel", Layout::in_out},
    // gpt3
    {"ln_1.weight", "decoder/layers/pre_self_attention_norm/scale", Layout::same},
    {"ln_1.bias", "decoder/layers/pre_self_attention_norm/bias", Layout::same},
    {"attn.c_attn.weight", "decoder/layers/self_attention/qkv_proj/kernel", Layout::in_out},
    {"attn.c_attn.bias", "decoder/layers/self_attention/qkv_proj/bias", Layout::same},
    {"attn.c_proj.weight", "decoder/layers/self_attention/out/kernel", Layout::in_out},
    {"attn.c_proj.bias", "decoder/layers/self_attention/out/bias", Layout::same},
    {"ln_2.weight", "decoder/layers/mlp/mlp_layer_norm/scale", Layout::same},
    {"ln_2.bias", "decoder/layers/mlp/mlp_layer_norm/bias", Layout::same},
    {"mlp.c_fc.weight", "decoder/layers/mlp/wi/kernel", Layout::in_out},
    {"mlp.c_fc.bias", "decoder/layers/mlp/wi/bias", Layout::same},
    {"mlp.c_proj.weight", "decoder/layers/mlp/wo/kernel", Layout::in_out},
    {"mlp.c_proj.bias", "decoder/layers/mlp/wo/bias", Layout::same},
};

const Row& row_of(const decoder::Parameter& p) {
  for (const Row& row : kRows)
    if (row.ours == p.desc.name) return row;
  throw std::runtime_error("no MaxText name for parameter '" + p.name + "'");
}

// Where element `i` of our parameter lies in their tensor of shape `theirs`, whose axis 1 runs over
// the layers if ours belongs to one.
std::size_t their_index(const Row& row, const decoder::Parameter& p, const Shape& theirs,
                        std::int64_t i) {
  std::int64_t layers = p.layer >= 0 ? theirs[1] : 1;
  std::int64_t elements = theirs.num_elements() / layers;
  std::int64_t at = i;  // in the tensor of one layer
  if (row.layout != Layout::same) {
    std::int64_t in = p.desc.shape[1], out = elements / in;
    at = i % in * out + i / in;
  }
  if (p.layer < 0) return static_cast<std::size_t>(at);
  std::int64_t rest = elements / theirs[0];
  return static_cast<std::size_t>((at / rest * layers + p.layer) * rest + at % rest);
}

// ours = theirs * this
double factor(const Row& row, const Shape& theirs) {
  return row.layout == Layout::query ? std::sqrt(static_cast<double>(theirs[theirs.ndim() - 1]))
                                     : 1.0;
}

// A case's config in our keys, or why there is none.
struct Described {
  std::string model;  // TOML
  std::string reason;
  double z_loss = 0;
  std::int64_t microbatches = 1;
};

class Describer {
 public:
  explicit Describer(JsonValue config) : config_(config) {}

  Described describe() {
    Described out;
    JsonValue block_value = config_.find("decoder_block");
    if (!block_value) return {.model = {}, .reason = "is of a module, not of a whole model"};
    std::string block(block_value.as_string());
    read_.insert("decoder_block");
    static const std::set<std::string> blocks = {"simple", "simple_mlp", "llama2", "gpt3"};
    if (!blocks.contains(block))
      return {.model = {}, .reason = "no names are known for block '" + block + "'"};
    bool tied = flag("logits_via_embedding", false);
    if (tied && flag("normalize_embedding_logits", true))
      return {.model = {}, .reason = "divides the logits of a tied head by sqrt(hidden_size)"};
    if (!tied) number("final_logits_soft_cap", 0);  // is for tied heads alone
    out.z_loss = number("z_loss_multiplier", 0);
    out.microbatches = integer("gradient_accumulation_steps", 1);
    text_ = fmt::format("family = \"{}\"\n[model]\n", block);
    add("vocab_size", integer("vocab_size", 0));
    add("hidden_size", integer("base_emb_dim", 0));
    add("num_hidden_layers", integer("base_num_decoder_layers", 0));
    add("tie_word_embeddings", tied ? "true" : "false");
    std::int64_t heads = integer("base_num_query_heads", 0);
    std::int64_t kv_heads = integer("base_num_kv_heads", 0);
    std::int64_t head_dim = integer("head_dim", 0), mlp = integer("base_mlp_dim", 0);
    double eps = number("normalization_layer_epsilon", 1e-5);
    if (block == "llama2" || block == "gpt3") {
      add("num_attention_heads", heads);
      add("head_dim", head_dim);
    }
    if (block != "simple") add("intermediate_size", mlp);
    add(block == "gpt3" ? "layer_norm_epsilon" : "rms_norm_eps", eps);
    if (block == "llama2") {
      add("num_key_value_heads", kv_heads);
      llama_rope();
    }
    if (block == "gpt3") {
      add("layer_norm_offset", "1.0");
      add("max_position_embeddings", integer("trainable_position_size", 0));
      read_.insert({"fused_qkv", "mlp_activations"});  // gelu, by its tanh form
      add("activation_function", "\"gelu_new\"");
    }
    // How it was computed, and sizes that this block does not use.
    read_.insert({"base_moe_mlp_dim", "max_target_length", "override_model_config",
                  "param_scan_axis", "scan_layers", "num_vocab_tiling", "use_iota_embed"});
    for (auto [key, value] : config_.members())
      if (!read_.contains(std::string(key)))
        return {.model = {},
                .reason = "has key '" + std::string(key) + "', which nothing here computes"};
    out.model = text_;
    return out;
  }

 private:
  JsonValue find(const char* key) {
    read_.insert(key);
    return config_.find(key);
  }
  std::int64_t integer(const char* key, std::int64_t preset) {
    JsonValue v = find(key);
    return v ? v.as_int64() : preset;
  }
  double number(const char* key, double preset) {
    JsonValue v = find(key);
    return v ? v.as_double() : preset;
  }
  bool flag(const char* key, bool preset) {
    JsonValue v = find(key);
    return v ? v.as_bool() : preset;
  }
  void llama_rope() {
    add("rope_theta", fmt::format("{:.1f}", number("rope_max_timescale", 10000)));
    JsonValue type = find("rope_type");
    if (type && type.as_string() == "llama3.1") {
      add("rope_interleave", "true");
      if (flag("rope_use_scale", true))
        text_ +=
            "rope_scaling.rope_type = \"llama3\"\nrope_scaling.factor = 8.0\n"
            "rope_scaling.low_freq_factor = 1.0\nrope_scaling.high_freq_factor = 4.0\n"
            "rope_scaling.original_max_position_embeddings = 8192\n";
    }
  }
  template <typename T>
  void add(const char* key, const T& value) {
    text_ += fmt::format("{} = {}\n", key, value);
  }

  JsonValue config_;
  std::set<std::string> read_;
  std::string text_;
};

Described describe(const fs::path& directory) {
  JsonDocument config =
      JsonDocument::read((directory / "config.json").string(), {.code = ExitCode::checkpoint});
  return Describer(config.root()).describe();
}

class Comparison {
 public:
  Comparison(const fs::path& directory, bool scan_layers)
      : case_(directory.string()),
        files_(directory.string()),
        described_(describe(directory)),
        model_(open_description(described_.model, scan_layers)) {
    Shape shape = case_.shape("inputs");
    rows_.batch = shape[0];
    rows_.tokens = shape[1];
    rows_.ids = case_.ints("inputs");
    rows_.positions = case_.ints("inputs_position");
    rows_.segments = case_.ints("inputs_segmentation");
    rows_.labels = case_.ints("targets");
    std::vector<std::int32_t> counted = case_.ints("targets_segmentation");
    for (std::size_t i = 0; i < counted.size(); ++i)
      if (counted[i] == 0) rows_.labels[i] = -100;
    for (const decoder::Parameter& p : model_.parameters().all()) {
      const Row& row = row_of(p);
      io::TensorView theirs = files_.tensor(row.theirs);
      const auto* values = reinterpret_cast<const float*>(theirs.bytes.data());
      std::vector<float> ours(static_cast<std::size_t>(p.num_elements()));
      for (std::size_t i = 0; i < ours.size(); ++i)
        ours[i] = static_cast<float>(
            static_cast<double>(
                values[their_index(row, p, theirs.shape, static_cast<std::int64_t>(i))]) *
            factor(row, theirs.shape));
      parameters_.push_back(std::move(ours));
    }
  }

  std::vector<MaxTextRow> run() {
    forward();
    gradients();
    return std::move(out_);
  }

 private:
  void add(std::string quantity, std::span<const float> got, std::span<const float> want,
           double allowed) {
    out_.push_back({std::move(quantity), cli::max_abs_difference(got, want), allowed});
  }

  void forward() {
    std::vector<void*> pointers;
    for (auto& p : parameters_) pointers.push_back(p.data());
    ForwardResult got = forward_with_hidden(model_, pointers, rows_);
    // Theirs lets padding attend to padding; ours leaves it alone. Nobody reads those places.
    auto compare = [&](const std::string& name, std::vector<float> values) {
      if (!case_.has(name)) return;
      std::vector<float> want = case_.floats(name);
      std::size_t width = want.size() / rows_.segments.size();
      for (std::size_t i = 0; i < want.size() && values.size() == want.size(); ++i)
        if (rows_.segments[i / width] == 0) values[i] = want[i];
      add(name, values, want, 1e-4 * cli::max_abs(want));
    };
    for (std::size_t i = 0; i < got.hidden.size(); ++i)
      compare(i == 0 ? "hidden.embed" : fmt::format("hidden.{}", i - 1), got.hidden[i]);
    compare("logits", got.logits);
  }

  void gradients() {
    train::TrainState state(model_.parameters(), DType::f32, described_.microbatches > 1,
                            cpu::cpu_backend());
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      std::ranges::copy(parameters_[i], state.masters()[i]);
    state.refresh_copies();
    std::int64_t rows = rows_.batch / described_.microbatches;
    train::TrainStep step(model_, state,
                          {.rows = rows,
                           .tokens = rows_.tokens,
                           .microbatches = described_.microbatches,
                           .z_loss = described_.z_loss},
                          {}, cpu::cpu_backend());
    std::vector<train::Microbatch> batches;
    for (std::int64_t m = 0; m < described_.microbatches; ++m)
      batches.push_back(rows_.microbatch(m * rows));
    train::StepResult result = step.gradients(batches, 0);
    double loss = result.loss + described_.z_loss * result.z_loss;
    double want = static_cast<double>(case_.floats("loss")[0]);
    out_.push_back({"loss", std::abs(loss - want), 1e-5 * std::abs(want)});
    compare_gradients(state);
  }

  // Ours, gathered under their names: one entry a stack of layers.
  void compare_gradients(const train::TrainState& state) {
    std::map<std::string, std::vector<float>> theirs;
    const auto& parameters = model_.parameters().all();
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      const Row& row = row_of(parameters[k]);
      Shape shape = files_.tensor(row.theirs).shape;
      std::vector<float>& out = theirs[std::string(row.theirs)];
      out.resize(static_cast<std::size_t>(shape.num_elements()));
      const auto* ours = static_cast<const float*>(state.gradients()[k]);
      for (std::int64_t i = 0; i < parameters[k].num_elements(); ++i)
        out[their_index(row, parameters[k], shape, i)] =
            static_cast<float>(static_cast<double>(ours[i]) * factor(row, shape));
    }
    double largest = 0;
    for (auto& [name, values] : theirs) largest = std::max(largest, cli::max_abs(values));
    for (std::string_view name : files_.names()) {
      const std::vector<float>& got = theirs[std::string(name)];
      std::string whole = fmt::format("grad.{}", name),
                  sample = fmt::format("grad_sample.{}", name),
                  norm = fmt::format("grad_norm.{}", name);
      auto allowed = [&](std::span<const float> want) {
        return 1e-4 * cli::max_abs(want) + 1e-6 * largest;
      };
      if (case_.has(whole)) {
        std::vector<float> want = case_.floats(whole);
        add(whole, got, want, allowed(want));
        continue;
      }
      std::vector<float> want = case_.floats(sample), picked(want.size());
      for (std::size_t i = 0; i < picked.size() && !got.empty(); ++i)
        picked[i] = got[i * 2654435761u % got.size()];
      add(sample, picked, want, allowed(want));
      double sum = 0, wanted_norm = static_cast<double>(case_.floats(norm)[0]);
      for (float g : got) sum += static_cast<double>(g) * static_cast<double>(g);
      out_.push_back({norm, std::abs(std::sqrt(sum) - wanted_norm), 1e-4 * wanted_norm});
    }
  }

  cli::GoldenCase case_;
  io::WeightFiles files_;
  Described described_;
  decoder::Model model_;
  Rows rows_;
  std::vector<std::vector<float>> parameters_;
  std::vector<MaxTextRow> out_;
};

}  // namespace

std::string reason_to_skip_maxtext(const fs::path& directory) {
  if (!fs::exists(directory / "model.safetensors")) return "has no weights";
  return describe(directory).reason;
}

std::vector<MaxTextRow> compare_maxtext(const fs::path& directory, bool scan_layers) {
  return Comparison(directory, scan_layers).run();
}

}  // namespace lamina::testing
