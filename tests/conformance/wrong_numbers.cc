// Families whose numbers are wrong in some calls or after some updates only.
#include <map>

#include "wrong_family.h"

namespace lamina::conformance {
namespace {

using namespace lamina::sdk;
using sdk::Tensor;

Model with_block(std::vector<Block<Config>> (*blocks)()) {
  Model out = right_family();
  out.blocks = blocks;
  out.weights = nullptr;  // published under our names
  return out;
}

void keys_with_flag(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 64, .rope = {.theta = 100}});
  key("flag", &Config::flag, {.fallback = false, .doc = "Another computation."});
}

Tensor matrix(const Scope& s, std::string_view name, const Config& c, Init init) {
  return s.param(name, {c.hidden_size, c.hidden_size},
                 {.axes = {axis::embed, axis::embed}, .init = init});
}

// A position per token, in the type of x.
Tensor places(const Step& step, Tensor x) {
  return cast_like(reshape(step.positions_BT, {x.dim(0), x.dim(1), 1}), x);
}

std::vector<WrongFamily> of_learning() {
  return {
      {"a feed-forward starts as zeros", {"GRD-2"}, with_block(LAMINA_WRONG_BLOCK({
         Tensor y = linear(silu(linear(x, matrix(s, "up", c, init::zeros))),
                           matrix(s, "down", c, init::zeros));
         return right_block(s, c, x, step) + y;
       }))},
      {"both factors of a product of matrices start as zeros",
       {"GRD-2"},
       with_block(LAMINA_WRONG_BLOCK({
         Tensor y =
             linear(linear(x, matrix(s, "a", c, init::zeros)), matrix(s, "b", c, init::zeros));
         return right_block(s, c, x, step) + y;
       }))},
      {"a gain before a gated product starts as zeros", {"GRD-2"}, with_block(LAMINA_WRONG_BLOCK({
         Tensor gain = s.param("gain", {c.hidden_size},
                               {.axes = {axis::norm}, .role = Role::norm, .init = init::zeros});
         Tensor h = rms_norm(x, gain);
         return right_block(s, c, x, step) + h * linear(h, matrix(s, "w", c, init::normal(0.1)));
       }))},
      {"the last row of a matrix is not used", {"GRD-2"}, with_block(LAMINA_WRONG_BLOCK({
         const std::int64_t d = c.hidden_size;
         Tensor w = s.param("wide", {d + 1, d},
                            {.axes = {axis::mlp, axis::embed}, .init = init::normal(0.1)});
         return right_block(s, c, x, step) + slice(linear(x, w), {.dim = 2, .size = d});
       }))},
      {"the last element of a bias is not used", {"GRD-2"}, with_block(LAMINA_WRONG_BLOCK({
         const std::int64_t d = c.hidden_size;
         Tensor b = s.param("bias", {d}, {.axes = {axis::embed}, .role = Role::bias});
         Tensor used = pad(slice(b, {.dim = 0, .size = d - 1}), {.dim = 0, .after = 1});
         return right_block(s, c, x, step) + cast_like(used, x);
       }))},
      {"the last column of a table is not used", {"GRD-2"}, with_block(LAMINA_WRONG_BLOCK({
         const std::int64_t d = c.hidden_size;
         Tensor table = s.param("tokens", {c.vocab_size, d + 1},
                                {.axes = {axis::vocab, axis::none},
                                 .role = Role::embedding,
                                 .init = init::normal(0.5)});
         Tensor rows = embedding(table, step.input(LAMINA_INPUT_TOKEN_IDS));
         return right_block(s, c, x, step) + slice(rows, {.dim = 2, .size = d});
       }))},
      {"the last row of a matrix of a single layer is not used",
       {"GRD-2"},
       [] {
         Model out = with_block([]() -> std::vector<Block<Config>> {
           return {
               {1, "layer", right_block},
               {2, "first", [](Scope s, const Config& c, Tensor x, const Step& step) {
                  const std::int64_t d = c.hidden_size;
                  Tensor w = s.param("wide", {d + 1, d},
                                     {.axes = {axis::mlp, axis::embed}, .init = init::normal(0.1)});
                  return right_block(s, c, x, step) + slice(linear(x, w), {.dim = 2, .size = d});
                }}};
         });
         out.plan = [](const Config& c) -> Plan {
           if (c.num_hidden_layers == 0) return {};
           return prefix("first", unit(2), 1) + repeat(unit(1)).over(c.num_hidden_layers - 1);
         };
         return out;
       }()},
      {"no token chooses the first expert", {"GRD-2"}, with_block(LAMINA_WRONG_BLOCK({
         constexpr std::int64_t experts = 4;
         const std::int64_t d = c.hidden_size;
         Tensor router = s.param("router", {experts, d},
                                 {.axes = {axis::experts, axis::embed},
                                  .role = Role::router,
                                  .init = init::normal(0.5)});
         const auto best = top_k(linear(x, router), {.k = 1});
         Tensor most = constant(s, {.shape = {1}, .dtype = "i32", .value = experts - 1});
         Tensor one = constant(s, {.shape = {1}, .dtype = "i32", .value = 1});
         Tensor ids = minimum(best[1] + one, most);
         Tensor rows = s.param("experts", {experts, d},
                               {.axes = {axis::experts, axis::embed}, .init = init::normal(0.5)});
         Tensor gates = scatter_along(sigmoid(best[0]), ids, experts);
         return right_block(s, c, x, step) + matmul(gates, rows);
       }))},
  };
}

std::vector<WrongFamily> of_calls() {
  return {
      {"a number is kept from the first config",
       {"TRC-1"},
       with_block(LAMINA_WRONG_BLOCK({
         static const double by = 1 + c.rms_norm_eps;
         return right_block(s, c, scale(x, by), step);
       })),
       Level::quick,
       nullptr,
       {"TRC-1", "TRC-2", "TRC-3"}},
      {"numbers are kept by the width of a head alone",
       {"TRC-1"},
       with_block(LAMINA_WRONG_BLOCK({
         static std::map<std::int64_t, double> by;
         const double kept = by.emplace(c.head_dim, 1.0 / c.intermediate_size).first->second;
         return right_block(s, c, scale(x, 1 + kept), step);
       })),
       Level::quick,
       nullptr,
       {"TRC-1", "TRC-2", "TRC-3"}},
      {"a number depends on T if a flag is set",
       {"TRC-3", "EQV-1"},
       [] {
         Model out = with_block(LAMINA_WRONG_BLOCK({
           const double by = c.flag ? 1 + 0.5 / static_cast<double>(x.dim(1)) : 1;
           return right_block(s, c, scale(x, by), step);
         }));
         out.keys = keys_with_flag;
         return out;
       }(),
       Level::full},
      {"a branch on B where it is more than 8", {"TRC-3"}, with_block(LAMINA_WRONG_BLOCK({
         return right_block(s, c, x.dim(0) > 8 ? scale(x, 0.1) : x, step);
       }))},
      {"a branch on T where it is more than 1500", {"TRC-3"}, with_block(LAMINA_WRONG_BLOCK({
         return right_block(s, c, x.dim(1) > 1500 ? scale(x, 0.1) : x, step);
       }))},
      {"rotary positions are indices of the call", {"TRC-4"}, with_block(LAMINA_WRONG_BLOCK({
         Tensor index = iota(s, {.shape = {x.dim(0), x.dim(1)}, .dim = 1});
         Tensor turned = merge_heads(rope(split_heads(x, 2), index, {.theta = 100}));
         return right_block(s, c, turned, step);
       }))},
      {"a key has no effect",
       {"SCH-4"},
       [] {
         Model out = right_family();
         out.keys = [](Schema<Config>& key) {
           standard_keys(key, {.max_position_embeddings = 64, .rope = {.theta = 100}});
           key("dead", &Config::noise, {.fallback = 0.5, .min = 0, .doc = "A number."});
         };
         return out;
       }(),
       Level::full},
      {"a key of a group has no effect",
       {"SCH-4"},
       [] {
         Model out = right_family();
         out.keys = [](Schema<Config>& key) {
           standard_keys(key, {.max_position_embeddings = 64, .rope = {.theta = 100}});
           key("attn_config.dead", &Config::flag, {.fallback = false, .doc = "A flag."});
         };
         return out;
       }(),
       Level::full},
      {"a list of numbers has no effect",
       {"SCH-4"},
       [] {
         Model out = right_family();
         out.keys = [](Schema<Config>& key) {
           standard_keys(key, {.max_position_embeddings = 64, .rope = {.theta = 100}});
           key("dead", &Config::numbers, {.fallback = {1.0, 2.0}, .doc = "Two numbers."});
         };
         return out;
       }(),
       Level::full},
      {"positions are rounded to bfloat16",
       {"NUM-1"},
       with_block(LAMINA_WRONG_BLOCK(
           { return right_block(s, c, x + sin(scale(places(step, x), 0.01)), step); })),
       Level::full},
      {"positions in float32 are rounded to bfloat16",
       {"NUM-1"},
       with_block(LAMINA_WRONG_BLOCK({
         Tensor exact = cast(reshape(step.positions_BT, {x.dim(0), x.dim(1), 1}), "f32");
         return right_block(s, c, x + sin(scale(cast_like(exact, x), 0.01)), step);
       })),
       Level::full},
      {"angles of positions are rounded to bfloat16",
       {"NUM-1"},
       with_block(LAMINA_WRONG_BLOCK({
         Tensor exact = cast(reshape(step.positions_BT, {x.dim(0), x.dim(1), 1}), "f32");
         Tensor frequencies = constant_data(s, {.shape = {3}, .values = {1, 0.1, 0.01}});
         Tensor waves = sin(cast_like(shift(exact, 1) * frequencies, x));
         return right_block(s, c, x + reduce_mean(waves, {.dims = {2}, .keep = true}), step);
       })),
       Level::full},
      {"a state grows with each token",
       {"NUM-1"},
       with_block(LAMINA_WRONG_BLOCK({
         Tensor b = widen(x);
         Tensor grown = step.in(s / "grows").linear_scan(shift(scale(b, 0), 1.25), b);
         return right_block(s, c, x + cast_like(scale(grown, 1e-3), x), step);
       })),
       Level::full,
       nullptr,
       {"TRC-4", "GRD-2", "EQV-1", "EQV-2", "NUM-1", "NUM-2"}},
      {"a table lacks rows for the last positions", {"NUM-4"}, with_block(LAMINA_WRONG_BLOCK({
         Tensor table = s.param("places", {c.max_position_embeddings, c.hidden_size},
                                {.axes = {axis::none, axis::embed},
                                 .role = Role::embedding,
                                 .init = init::normal(0.5)});
         Tensor two = cast(constant(s, {.shape = {}, .value = 2}), "i32");
         return right_block(s, c, x + embedding(table, step.positions_BT + two), step);
       }))},
      {"a table lacks the row of the last token", {"NUM-4"}, with_block(LAMINA_WRONG_BLOCK({
         Tensor table = s.param("tokens", {c.vocab_size - 1, c.hidden_size},
                                {.axes = {axis::vocab, axis::embed},
                                 .role = Role::embedding,
                                 .init = init::normal(0.5)});
         Tensor ids = step.input(LAMINA_INPUT_TOKEN_IDS);
         return right_block(s, c, x + embedding(table, ids), step);
       }))},
      {"the square of a position overflows",
       {"NUM-1"},
       with_block(LAMINA_WRONG_BLOCK({
         Tensor squares = step.positions_BT * step.positions_BT;
         Tensor wide = cast(reshape(squares, {x.dim(0), x.dim(1), 1}), "f32");
         return right_block(s, c, x + cast_like(sin(scale(wide, 0.01)), x), step);
       })),
       Level::full},
  };
}

// A mask times x, where a random number is below `keep`.
Tensor kept_at_random(Scope s, Tensor x, double keep) {
  Tensor drawn = random(s, x.shape());
  Tensor most = constant(s, {.shape = x.shape(), .value = keep});
  return x * scale(cast_like(cast(less(drawn, most), "f32"), x), 1 / keep);
}

std::vector<Weight> fused_weights(std::int64_t third) {
  std::vector<Weight> out = right_family().weights();
  const char* const fused = "model.layers.{L}.self_attn.qkv_proj.weight";
  std::erase_if(out, [](const Weight& w) {
    return w.name.starts_with("attention.w") && w.name != "attention.wo.weight";
  });
  out.push_back({1, "attention.wq.weight", fused, {part(0, 0)}});
  out.push_back({1, "attention.wk.weight", fused, {part(1, 0)}});
  out.push_back({1, "attention.wv.weight", fused, {part(third, 0)}});
  return out;
}

std::vector<WrongFamily> of_uses() {
  Model gap = right_family(), twice = right_family();
  gap.weights = [] { return fused_weights(3); };
  twice.weights = [] { return fused_weights(1); };
  return {
      {"dropout by hand drops everything outside training",
       {"EQV-1"},
       with_block(
           LAMINA_WRONG_BLOCK({ return x + kept_at_random(s, right_block(s, c, x, step), 0.4); }))},
      {"dropout by hand scales outside training", {"EQV-1"}, with_block(LAMINA_WRONG_BLOCK({
         return x + kept_at_random(s, right_block(s, c, x, step), 0.9);
       }))},
      {"a bias has the role of a norm", {"TRC-6"}, with_block(LAMINA_WRONG_BLOCK({
         Tensor b = s.param("b", {c.hidden_size}, {.axes = {axis::norm}, .role = Role::norm});
         return right_block(s, c, x, step) + cast_like(b, x);
       }))},
      {"a router has the role of a matrix", {"TRC-6"}, with_block(LAMINA_WRONG_BLOCK({
         constexpr std::int64_t experts = 4;
         const std::int64_t d = c.hidden_size, tokens = x.dim(0) * x.dim(1);
         Tensor router = s.param("router", {experts, d},
                                 {.axes = {axis::experts, axis::embed}, .init = init::normal(0.5)});
         Tensor rows = reshape(x, {tokens, d});
         const auto best = top_k(linear(rows, router), {.k = 1});
         const auto sorted = group_rows(best[1], {.groups = experts});
         Tensor w = s.param(
             "experts", {experts, d, d},
             {.axes = {axis::experts, axis::embed, axis::embed}, .init = init::normal(0.1)});
         Tensor made = grouped_linear(gather_rows(rows, sorted[0], 1), w, sorted[1]);
         Tensor y = combine_rows(made, sorted[0], widen(sigmoid(best[0])));
         return right_block(s, c, x, step) + reshape(y, {x.dim(0), x.dim(1), d});
       }))},
      {"a part of a fused tensor belongs to no parameter", {"CKP-2"}, gap},
      {"two parameters take one part of a fused tensor", {"CKP-2"}, twice},
  };
}

}  // namespace

std::vector<WrongFamily> wrong_numbers() {
  std::vector<WrongFamily> out = of_learning();
  for (auto* more : {of_calls, of_uses})
    for (WrongFamily& family : more()) out.push_back(std::move(family));
  return out;
}

}  // namespace lamina::conformance
