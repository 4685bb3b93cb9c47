// A family for tests: one small block in which a key turns on each feature of the decoder stack. It
// is not a useful model.
//
// Shapes: B batch, T tokens, D model width, N heads, K key/value heads, H head width, S streams, C
// width of the context.

#include "lamina/sdk.h"

namespace features {
namespace {

using namespace lamina::sdk;

struct Config {
  std::int64_t vocab_size, hidden_size, num_hidden_layers;
  std::int64_t streams, context, per_layer, window, chunk, mtp_depth, first_reader, first_sharer;
  bool attention, biased, frequencies, head_bias, bidirectional, convolution, delta,
      embedding_input, losses, mtp_like_transformers, constants;
  double balance_weight, pooled_weight, bias_rate;
  std::vector<double> mtp_weights;
};

constexpr std::int64_t kHeads = 4, kKvHeads = 2, kHeadDim = 8, kTaps = 3;
enum BlockId : std::uint32_t { kLayer = 1, kReader, kEntry, kExit, kMtp };

RmsNormOptions norm_options() { return {.eps = 1e-6}; }

// Means over tokens without padding: [D], and over D too.
Tensor mean_of_tokens(Tensor x_BTD) { return counted_mean(x_BTD); }
Tensor mean_of(Tensor x_BTD) { return reduce_mean(counted_mean(x_BTD), {.dims = {0}}); }

Tensor attend(Scope s, const Config& c, Tensor h_BTD, const Step& step, bool reads) {
  AttendOptions options{.causal = !c.bidirectional, .window = c.window, .chunk = c.chunk};
  RopeOptions rotation;
  if (c.frequencies)
    rotation = {.attention_factor = 1.1,
                .frequencies =
                    constant_data(s, {.shape = {kHeadDim / 2}, .values = {1, 0.31, 0.17, 0.004}})};
  if (c.biased) {
    options.slopes =
        s.param("slopes", {kHeads},
                {.axes = {axis::heads}, .role = Role::scalar, .init = init::uniform(0, 0.3)});
    options.bias = relative_bias(s / "bias", kHeads, {.buckets = 6, .max_distance = 9});
  }
  auto heads = [&](const char* name, std::int64_t n) {
    return split_heads(linear(s / name, h_BTD, n * kHeadDim, {.out = axis::heads}), n);
  };
  Tensor q_BTNH = rope(heads("wq", kHeads), step.positions_BT, rotation);
  Tensor y_BTNH;
  if (reads)
    y_BTNH = step.attend(q_BTNH, options);
  else
    y_BTNH = step.attend(q_BTNH, rope(heads("wk", kKvHeads), step.positions_BT, rotation),
                         heads("wv", kKvHeads), options);
  return linear(s / "wo", merge_heads(y_BTNH), c.hidden_size, {.in = axis::heads});
}

Tensor convolve(Scope s, Tensor h_BTD, const Step& step, std::string_view state) {
  Tensor w_DK =
      s.param("taps", {h_BTD.dim(-1), kTaps},
              {.axes = {axis::conv, axis::none}, .role = Role::conv, .init = init::normal(0.3)});
  return step.causal_conv1d(h_BTD, w_DK, {}, {.dilation = 2, .activation = "silu", .state = state});
}

Tensor delta(Scope s, const Config& c, Tensor h_BTD, const Step& step) {
  Tensor q_BTKH = split_heads(linear(s / "wq", h_BTD, kKvHeads * kHeadDim), kKvHeads);
  Tensor k_BTKH = split_heads(linear(s / "wk", h_BTD, kKvHeads * kHeadDim), kKvHeads);
  Tensor v_BTNH = split_heads(linear(s / "wv", h_BTD, kHeads * kHeadDim), kHeads);
  Tensor g_BTN = -softplus(linear(s / "decay", h_BTD, kHeads));
  Tensor beta_BTN = sigmoid(linear(s / "beta", h_BTD, kHeads));
  Tensor y_BTNH =
      step.gated_delta_rule(q_BTKH, k_BTKH, v_BTNH, g_BTN, beta_BTN, {.normalize = true});
  return linear(s / "wo", merge_heads(y_BTNH), c.hidden_size);
}

void keep(Scope s, const Config& c, Tensor f_BTD, const Step& step) {
  Tensor f = widen(f_BTD), mean_D = mean_of_tokens(square(f));
  step.loss("balance", mean_of(square(f)), {.weight_key = "balance_weight", .mean = true});
  step.pooled_loss("pooled", mean_D, mean_of_tokens(f), "pooled_weight");
  step.metric("mean_square", mean_D);
  step.update(s, "bias", mean_of_tokens(f), Update::sign_step, "bias_rate");
  static_cast<void>(c);
}

Tensor layer_gain(Scope s, const Config& c) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    values.push_back(1 / static_cast<double>(i + 1));
  return s.layer_constant("gain", values);
}

// Queries of the layer, keys and values of the second carry.
Tensor look_up(Scope s, Tensor h_BTD, Tensor context_BTC, const Step& step) {
  return cross_attention(s, h_BTD, context_BTC, step,
                         {.heads = kHeads,
                          .kv_heads = kKvHeads,
                          .head_dim = kHeadDim,
                          .rope = RopeOptions{},
                          .attend = {.state = "context"}});
}

// Returns the sum that a layer adds to its input.
Tensor layer_sum(Scope s, const Config& c, Tensor x_BTD, const Step& step, bool reads) {
  Tensor h_BTD = rms_norm(s / "norm", x_BTD, norm_options());
  if (c.embedding_input)
    h_BTD = h_BTD + linear(s / "from_embedding", step.input(LAMINA_INPUT_EMBEDDING), c.hidden_size);
  if (c.per_layer > 0) h_BTD = h_BTD + linear(s / "from_entry", step.per_layer(0), c.hidden_size);
  if (c.constants) h_BTD = h_BTD * layer_gain(s, c);
  Tensor sum_BTD = linear(s / "w", h_BTD, c.hidden_size);
  if (c.attention) sum_BTD = sum_BTD + attend(s / "attention", c, h_BTD, step, reads);
  if (c.convolution) sum_BTD = sum_BTD + convolve(s / "conv", h_BTD, step, "conv");
  if (c.delta) sum_BTD = sum_BTD + delta(s / "delta", c, h_BTD, step);
  if (c.losses) {
    Tensor bias_D = s.param("bias", {c.hidden_size}, {.axes = {axis::embed}, .role = Role::bias});
    sum_BTD = sum_BTD + cast_like(bias_D, sum_BTD);
    keep(s, c, sum_BTD, step);
  }
  return sum_BTD;
}

// One stream is the usual residual; several are mixed by learnt weights, and a second carry adds up
// the outputs of all layers.
Tensors layer(Scope s, const Config& c, const Tensors& carries, const Step& step, bool reads) {
  if (c.context > 0) {
    Tensor x_BTD = carries[0] + layer_sum(s, c, carries[0], step, reads);
    Tensor h_BTD = rms_norm(s / "cross_norm", x_BTD, norm_options());
    return {x_BTD + look_up(s / "cross", h_BTD, carries[1], step), carries[1]};
  }
  if (c.streams == 0) return {carries[0] + layer_sum(s, c, carries[0], step, reads)};
  Tensor x_BTSD = carries[0], total_BTD = carries[1];
  const Dims shape = x_BTSD.shape();
  Tensor mix_S1 = s.param(
      "mix", {c.streams, 1},
      {.axes = {axis::mhc, axis::none}, .role = Role::scalar, .init = init::uniform(0.2, 0.8)});
  Tensor mixed_BTD = reduce_sum(x_BTSD * cast_like(mix_S1, x_BTSD), {.dims = {2}});
  Tensor out_BTD = layer_sum(s, c, mixed_BTD, step, reads);
  Tensor out_BT1D = reshape(out_BTD, {shape[0], shape[1], 1, shape[3]});
  return {x_BTSD + out_BT1D * cast_like(mix_S1, x_BTSD), total_BTD + out_BTD};
}

Tensors writer(Scope s, const Config& c, const Tensors& carries, const Step& step) {
  return layer(s, c, carries, step, false);
}
Tensors reader(Scope s, const Config& c, const Tensors& carries, const Step& step) {
  return layer(s, c, carries, step, true);
}

Tensors entry(Scope s, const Config& c, const Tensors& carries, const Step& step) {
  Tensor x_BTD = carries[0];
  const Dims shape = x_BTD.shape();
  Tensors out{x_BTD};
  if (c.streams > 0) {
    Tensor x_BT1D = reshape(x_BTD, {shape[0], shape[1], 1, shape[2]});
    Tensor gain_SD = s.param("gain", {c.streams, c.hidden_size},
                             {.axes = {axis::mhc, axis::embed}, .init = init::uniform(0.5, 1.5)});
    out = {x_BT1D * gain_SD, convolve(s / "conv", x_BTD, step, "conv")};
  }
  if (c.context > 0) out.push_back(linear(s / "context", x_BTD, c.context));
  if (c.per_layer > 0) {
    Tensor all = linear(s / "per_layer", x_BTD, c.num_hidden_layers * c.per_layer);
    all = reshape(all, {shape[0], shape[1], c.num_hidden_layers, c.per_layer});
    out.push_back(transpose(all, {2, 0, 1, 3}));
  }
  return out;
}

Tensors exit(Scope s, const Config& c, const Tensors& carries, const Step&) {
  Tensor sum_BTD = reduce_sum(carries[0], {.dims = {2}});
  return {sum_BTD + linear(s / "w", carries[1], c.hidden_size)};
}

Tensors mtp(Scope s, const Config& c, const Tensors& carries, const Step& step) {
  Tensor e_BTD = rms_norm(s / "norm_e", carries[1], norm_options());
  Tensor joined = concat({e_BTD, rms_norm(s / "norm_h", carries[0], norm_options())}, 2);
  Tensor h_BTD = linear(s / "project", joined, c.hidden_size);
  Tensor q_BTNH =
      rope(split_heads(linear(s / "wq", h_BTD, kHeads * kHeadDim), kHeads), step.positions_BT);
  Tensor y_BTNH = step.attend(q_BTNH, q_BTNH, q_BTNH);
  h_BTD = h_BTD + linear(s / "wo", merge_heads(y_BTNH), c.hidden_size);
  if (c.losses)
    step.loss("balance", mean_of(square(widen(h_BTD))),
              {.weight_key = "balance_weight", .mean = true});
  return {h_BTD,
          c.mtp_like_transformers ? rms_norm(s / "head_norm", h_BTD, norm_options()) : h_BTD};
}

void keys(Schema<Config>& key) {
  key("vocab_size", &Config::vocab_size, {.required = true, .min = 1, .doc = "V"});
  key("hidden_size", &Config::hidden_size, {.required = true, .min = 1, .doc = "D"});
  key("num_hidden_layers", &Config::num_hidden_layers,
      {.required = true, .min = 0, .doc = "layers"});
  key("streams", &Config::streams, {.fallback = 0, .min = 0, .doc = "S; 0 = one carry"});
  key("context", &Config::context, {.fallback = 0, .min = 0, .doc = "C; 0 = no second input"});
  key("per_layer", &Config::per_layer,
      {.fallback = 0, .min = 0, .doc = "width of the entry's tensors"});
  key("window", &Config::window, {.fallback = 0, .min = 0, .doc = "tokens"});
  key("chunk", &Config::chunk, {.fallback = 0, .min = 0, .doc = "tokens"});
  key("first_reader", &Config::first_reader,
      {.fallback = 0,
       .min = 0,
       .doc = "layers from here on read keys and values of the one before; 0: none"});
  key("first_sharer", &Config::first_sharer,
      {.fallback = 0,
       .min = 0,
       .doc = "layers from here on use the parameters of the one before; 0: none"});
  key("attention", &Config::attention, {.fallback = true, .doc = "with attention"});
  key("biased", &Config::biased, {.fallback = false, .doc = "attention by distance, learnt"});
  key("frequencies", &Config::frequencies, {.fallback = false, .doc = "rotations of its own"});
  key("head_bias", &Config::head_bias, {.fallback = false, .doc = "logits with a bias"});
  key("bidirectional", &Config::bidirectional, {.fallback = false, .doc = "tokens see all others"});
  key("convolution", &Config::convolution, {.fallback = false, .doc = "with a convolution"});
  key("delta", &Config::delta, {.fallback = false, .doc = "with the gated delta rule"});
  key("embedding_input", &Config::embedding_input, {.fallback = false, .doc = "layers read it"});
  key("constants", &Config::constants, {.fallback = false, .doc = "layers have a gain each"});
  key("losses", &Config::losses,
      {.fallback = false, .doc = "layers have auxiliary losses and metrics"});
  key("balance_weight", &Config::balance_weight, {.fallback = 0.5, .doc = "of a mean"});
  key("pooled_weight", &Config::pooled_weight, {.fallback = 0.25, .doc = "of a product of means"});
  key("bias_rate", &Config::bias_rate, {.fallback = 0.125, .doc = "of the update"});
  key("mtp_depth", &Config::mtp_depth, {.fallback = 0, .min = 0, .max = 8, .doc = "blocks"});
  key("mtp_weights", &Config::mtp_weights, {.doc = "one a depth"});
  key("mtp_like_transformers", &Config::mtp_like_transformers,
      {.fallback = false, .doc = "inputs and norms of multi-token prediction"});
}

void validate(const Config& c, const Problems& problem) {
  if (c.first_reader > 0 && !c.attention)
    problem("attention", "got false; layers from first_reader = ", c.first_reader,
            " on read keys and values");
  if (c.context > 0 && (c.streams > 0 || c.first_reader > 0))
    problem("context", "got ", c.context, "; it goes without streams and readers");
  if (c.first_sharer > 0 && c.losses)
    problem("first_sharer", "got ", c.first_sharer,
            "; with losses each layer updates a bias, which layers cannot share");
}

bool has_entry(const Config& c) { return c.streams > 0 || c.context > 0 || c.per_layer > 0; }

Plan plan(const Config& c) {
  Plan out;
  for (std::int64_t i = 0; i < c.num_hidden_layers;) {
    const bool reads = c.first_reader > 0 && i >= c.first_reader;
    Position position{.block = reads ? kReader : kLayer};
    if (reads) position.kv_donor = c.first_reader - 1;
    if (c.first_sharer > 0 && i >= c.first_sharer) position.params_of = c.first_sharer - 1;
    std::int64_t end = c.num_hidden_layers;
    for (std::int64_t first : {c.first_reader, c.first_sharer})
      if (first > i) end = std::min(end, first);
    out.push_back({.name = {}, .unit = {position}, .times = end - i});
    i = end;
  }
  return out;
}

Embed embed(const Config& c) {
  Embed out;
  if (!has_entry(c)) return out;
  out.entry = kEntry;
  out.carries = c.streams > 0 || c.context > 0 ? 2 : 1;
  out.per_layer = c.per_layer > 0 ? 1 : 0;
  return out;
}

Head head(const Config& c) {
  return {.norm = norm_options(),
          .bias = c.head_bias,
          .bidirectional = c.bidirectional,
          .exit = c.streams > 0 ? kExit : 0u};
}

Mtp mtp_of(const Config& c) {
  return {.block = kMtp,
          .depth = c.mtp_depth,
          .weight_key = c.mtp_weights.empty() ? "" : "mtp_weights",
          .normed_hidden = c.mtp_like_transformers,
          .shifted_positions = c.mtp_like_transformers,
          .final_norm = !c.mtp_like_transformers};
}

std::vector<Weight> weights() {
  std::vector<Weight> out{{0, LAMINA_NAME_EMBED, "embed.weight"},
                          {0, LAMINA_NAME_NORM, "norm.weight"},
                          {0, LAMINA_NAME_HEAD, "head.weight"},
                          {0, LAMINA_NAME_HEAD_BIAS, "head.bias"}};
  for (const char* name : {"norm.weight",
                           "w.weight",
                           "from_embedding.weight",
                           "from_entry.weight",
                           "mix",
                           "bias",
                           "attention.wq.weight",
                           "attention.wo.weight",
                           "attention.slopes",
                           "attention.bias.weight",
                           "conv.taps",
                           "delta.wq.weight",
                           "delta.wk.weight",
                           "delta.wv.weight",
                           "delta.decay.weight",
                           "delta.beta.weight",
                           "delta.wo.weight",
                           "cross_norm.weight",
                           "cross.wq.weight",
                           "cross.wk.weight",
                           "cross.wv.weight",
                           "cross.wo.weight"})
    for (std::uint32_t block : {kLayer, kReader}) {
      static std::deque<std::string> published;
      published.push_back(std::string("layers.{L}.") + name);
      out.push_back({block, name, published.back()});
    }
  out.push_back({kLayer, "attention.wk.weight", "layers.{L}.attention.wk.weight"});
  out.push_back({kLayer, "attention.wv.weight", "layers.{L}.attention.wv.weight"});
  out.push_back({kEntry, "gain", "entry.gain"});
  out.push_back({kEntry, "conv.taps", "entry.conv.taps"});
  out.push_back({kEntry, "context.weight", "entry.context.weight"});
  out.push_back({kEntry, "per_layer.weight", "entry.per_layer.weight"});
  out.push_back({kExit, "w.weight", "exit.w.weight"});
  for (const char* name : {"norm_e.weight", "norm_h.weight", "project.weight", "wq.weight",
                           "wo.weight", "head_norm.weight"}) {
    static std::deque<std::string> published;
    published.push_back(std::string("layers.{L}.mtp.") + name);
    out.push_back({kMtp, name, published.back()});
  }
  return out;
}

constexpr Model<Config> kModel = {
    .family = {.name = "features", .doc = "every feature of the stack, for tests"},
    .keys = keys,
    .validate = validate,
    .init_std = [](const Config&) { return 0.2; },
    .blocks =
        [] {
          return std::vector<Block<Config>>{{kLayer, "layer", nullptr, writer},
                                            {kReader, "reader", nullptr, reader},
                                            {kEntry, "entry", nullptr, entry},
                                            {kExit, "exit", nullptr, exit},
                                            {kMtp, "mtp", nullptr, mtp}};
        },
    .plan = plan,
    .embed = embed,
    .head = head,
    .mtp = mtp_of,
    .weights = weights,
};

}  // namespace
}  // namespace features

LAMINA_PLUGIN("org.lamina.features", "0.1.0", features::kModel)
