// Families with one fault each, made with the SDK.
#include <atomic>
#include <chrono>
#include <thread>

#include "wrong_family.h"

namespace lamina::conformance {
namespace {

using namespace lamina::sdk;
using sdk::Tensor;

Model with_blocks(std::vector<Block<Config>> (*blocks)()) {
  Model out = right_family();
  out.blocks = blocks;
  out.weights = nullptr;  // published under our names
  return out;
}
Model with_keys(void (*keys)(Schema<Config>&)) {
  Model out = right_family();
  out.keys = keys;
  return out;
}
Model with_plan(Plan (*plan)(const Config&)) {
  Model out = right_family();
  out.plan = plan;
  return out;
}
Model with_weights(std::vector<Weight> (*weights)()) {
  Model out = right_family();
  out.weights = weights;
  return out;
}

void usual_keys(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 64, .rope = {.theta = 100}});
}

std::vector<Weight> all_but_the_last() {
  std::vector<Weight> out = right_family().weights();
  out.pop_back();
  return out;
}

// Multiplies x by a matrix [D, D] called `name`.
Tensor product(const Scope& s, std::string_view name, Tensor x, const Config& c,
               Role role = Role::weight) {
  Tensor w = s.param(name, {c.hidden_size, c.hidden_size},
                     {.axes = {axis::embed, axis::embed}, .role = role, .init = init::normal(0.1)});
  return linear(x, w);
}

Tensor as_number(Tensor ids_BT, Tensor like) {
  return cast_like(reshape(ids_BT, {like.dim(0), like.dim(1), 1}), like);
}

int builds_so_far = 0;
std::atomic<int> builds_now{0};

std::vector<WrongFamily> of_config() {
  return {
      {"two keys have one name", {"SCH-1"}, with_keys([](Schema<Config>& key) {
         usual_keys(key);
         key("extra", &Config::extra, {.fallback = 0, .aliases = {"head_dim"}, .doc = "A number."});
       })},
      {"an odd value gives a status instead of a problem with a key",
       {"SCH-2"},
       [] {
         Model out = right_family();
         out.validate = [](const Config& c, const Problems& problem) {
           if (c.extra == 3) throw std::runtime_error("three is too many");
           check_standard(c, problem);
         };
         return out;
       }()},
      {"a required key without a description of its values",
       {"TRC-2"},
       [] {
         Model out = right_family();
         out.validate = [](const Config& c, const Problems& problem) {
           if (c.extra != 8128) problem("extra", "must be perfect");
         };
         return out;
       }()},
      {"a key is exported to the path of another key",
       {"SCH-3"},
       [] {
         Model out = with_keys([](Schema<Config>& key) {
           usual_keys(key);
           key("extra", &Config::extra, {.fallback = 0, .hf_name = "more", .doc = "A number."});
         });
         out.derive = [](const Config& c, const Derived& derived) {
           derived.set("head_dim", c.hidden_size / c.num_attention_heads);
         };
         return out;
       }(),
       Level::full},
      {"the plan drops the layer after the last whole unit",
       {"PLN-1", "SCH-2"},
       with_plan([](const Config& c) -> Plan {
         return repeat(unit(1, 2)).over(c.num_hidden_layers / 2 * 2);
       })},
      {"the plan differs on a second call",
       {"PLN-1"},
       [] {
         Model out = with_plan([](const Config& c) -> Plan {
           static int asked = 0;
           return repeat(unit(1, 1, {{"spare", ++asked % 2 == 0}})).over(c.num_hidden_layers);
         });
         out.keys = [](Schema<Config>& key) {
           usual_keys(key);
           key("spare", &Config::flag, {.fallback = false, .doc = "Without effect on layers."});
         };
         return out;
       }()},
      {"a block that no model has", {"PLN-2"}, with_blocks([] {
         return std::vector<Block<Config>>{{1, "layer", right_block}, {2, "spare", right_block}};
       })},
      {"a parameter has no tensor", {"CKP-2"}, with_weights(all_but_the_last), Level::quick},
      {"two parameters are one tensor", {"CKP-2"}, with_weights([] {
         std::vector<Weight> out = all_but_the_last();
         out.push_back({1, "feed_forward.w3.weight", "model.layers.{L}.mlp.gate_proj.weight"});
         return out;
       })},
      {"a transform that rounding does not undo",
       {"CKP-1"},
       with_weights([] {
         std::vector<Weight> out = right_family().weights();
         out.back().transforms = {multiplied(1.1), added(0.3)};
         return out;
       }),
       Level::full},
  };
}

std::vector<WrongFamily> of_traces() {
  return {
      {"a number counts builds", {"TRC-1"}, with_blocks(LAMINA_WRONG_BLOCK({
         return right_block(s, c, scale(x, 1 + 1e-3 * ++builds_so_far), step);
       }))},
      {"a number depends on the thread",
       {"TRC-1", "THR-1"},
       with_blocks(LAMINA_WRONG_BLOCK({
         static const std::thread::id first = std::this_thread::get_id();
         return right_block(s, c, scale(x, std::this_thread::get_id() == first ? 1 : 1.001), step);
       })),
       Level::full},
      {"concurrent builds share a number",
       {"THR-1"},
       with_blocks(LAMINA_WRONG_BLOCK({
         struct Building {
           int others = builds_now++;
           ~Building() { --builds_now; }
         } const now;
         std::this_thread::sleep_for(std::chrono::microseconds(200));
         return right_block(s, c, scale(x, 1 + 1e-3 * now.others), step);
       })),
       Level::full},
      {"the shape of a parameter depends on T", {"TRC-2"}, with_blocks(LAMINA_WRONG_BLOCK({
         const std::int64_t rows = x.dim(1) == 13 ? 2 : 1;
         Tensor p = s.param("by_length", {rows}, {.axes = {axis::norm}, .role = Role::scalar});
         return right_block(s, c, x, step) + x * reduce_sum(p, {.dims = {0}});
       }))},
      {"a parameter has two descriptions", {"TRC-2"}, with_blocks(LAMINA_WRONG_BLOCK({
         Tensor g = s.param("gain", {c.hidden_size},
                            {.axes = {axis::norm}, .role = Role::norm, .init = init::ones});
         Tensor b = s.param("gain", {c.hidden_size}, {.axes = {axis::norm}, .role = Role::bias});
         return right_block(s, c, rms_norm(x, g) + cast_like(b, x), step);
       }))},
      {"a carry changes its shape", {"TRC-2"}, with_blocks(LAMINA_WRONG_BLOCK({
         return concat({right_block(s, c, x, step), x}, 2);
       }))},
      {"a carry is always float32", {"TRC-2"}, with_blocks(LAMINA_WRONG_BLOCK({
         return cast(right_block(s, c, x, step), "f32");
       }))},
      {"a number depends on T", {"TRC-3", "EQV-1", "EQV-2"}, with_blocks(LAMINA_WRONG_BLOCK({
         return right_block(s, c, scale(x, 1 + 0.5 / static_cast<double>(x.dim(1))), step);
       }))},
      {"a branch on T", {"TRC-3", "EQV-1", "EQV-2"}, with_blocks(LAMINA_WRONG_BLOCK({
         Tensor y = right_block(s, c, x, step);
         return x.dim(1) == 1 ? y + x : y;
       }))},
      {"a branch on T where it is more than 31", {"TRC-3"}, with_blocks(LAMINA_WRONG_BLOCK({
         Tensor y = right_block(s, c, x, step);
         return x.dim(1) > 31 ? y + x : y;
       }))},
      {"a branch on T where it is the length of a prompt's pieces",
       {"TRC-3"},
       with_blocks(LAMINA_WRONG_BLOCK({
         Tensor y = right_block(s, c, x, step);
         return x.dim(1) == 512 ? y + x : y;
       }))},
      {"a dropout rate depends on T", {"TRC-3"}, with_blocks(LAMINA_WRONG_BLOCK({
         return dropout(right_block(s, c, x, step), 0.5 / static_cast<double>(x.dim(1)));
       }))},
      {"a number depends on B",
       {"TRC-3", "EQV-2", "EQV-5"},
       with_blocks(LAMINA_WRONG_BLOCK(
           { return right_block(s, c, scale(x, 1 + 0.5 / static_cast<double>(x.dim(0))), step); })),
       Level::full},
      {"tokens are shifted by a slice", {"TRC-4"}, with_blocks(LAMINA_WRONG_BLOCK({
         Tensor first = slice(x, {.dim = 1, .start = 0, .size = 1});
         Tensor before =
             x.dim(1) == 1
                 ? first
                 : concat({first, slice(x, {.dim = 1, .start = 0, .size = x.dim(1) - 1})}, 1);
         return right_block(s, c, x + before, step);
       }))},
      {"tokens are shifted by a slice where there are more than 31",
       {"TRC-4"},
       with_blocks(LAMINA_WRONG_BLOCK({
         Tensor y = right_block(s, c, x, step);
         if (x.dim(1) <= 31) return y;
         Tensor before = slice(x, {.dim = 1, .start = 0, .size = x.dim(1) - 1});
         return y + pad(before, {.dim = 1, .before = 1});
       }))},
      {"a mean over all tokens, including padding", {"TRC-4"}, with_blocks(LAMINA_WRONG_BLOCK({
         Tensor mean = reduce_sum(x, {.dims = {1}, .keep = true});
         return right_block(s, c, x + mean, step);
       }))},
      {"an output is divided by the number of tokens", {"TRC-4"}, with_blocks(LAMINA_WRONG_BLOCK({
         return right_block(s, c, x / cast_like(dim_size(x, 1), x), step);
       }))},
      {"from 32 tokens on the result depends on their number",
       {"TRC-4"},
       with_blocks(LAMINA_WRONG_BLOCK({
         Tensor more = relu(shift(cast_like(dim_size(x, 1), x), -31));
         return right_block(s, c, x * shift(more, 1), step);
       }))},
      {"the result depends on the number of tokens per expert",
       {"TRC-4"},
       with_blocks(LAMINA_WRONG_BLOCK({
         const auto [order, offsets] = group_rows(top_k(x, {.k = 1})[1], {.groups = c.hidden_size});
         Tensor last = slice(cast_like(offsets, x), {.dim = 0, .start = 1, .size = c.hidden_size});
         return right_block(s, c, x + last, step);
       }))},
      {"an axis is misspelt", {"TRC-5"}, with_blocks(LAMINA_WRONG_BLOCK({
         Tensor g = s.param("gain", {c.hidden_size},
                            {.axes = {"norms"}, .role = Role::norm, .init = init::ones});
         return right_block(s, c, rms_norm(x, g), step);
       }))},
      {"a matrix has its axes the wrong way round", {"TRC-5"}, with_blocks(LAMINA_WRONG_BLOCK({
         const std::int64_t d = c.hidden_size;
         const ParamOptions options{.axes = {axis::mlp, axis::embed}, .init = init::normal(0.1)};
         Tensor up = s.param("up", {d, d}, options), down = s.param("down", {d, d}, options);
         return right_block(s, c, x + linear(relu(linear(x, up)), down), step);
       }))},
      {"a tag is misspelt", {"TRC-5"}, with_blocks(LAMINA_WRONG_BLOCK({
         return tag(right_block(s, c, x, step), "query_prj");
       }))},
      {"a norm's gain has the role of a matrix", {"TRC-6"}, with_blocks(LAMINA_WRONG_BLOCK({
         Tensor g = s.param("gain", {c.hidden_size}, {.axes = {axis::norm}, .init = init::ones});
         return right_block(s, c, rms_norm(x, g), step);
       }))},
      {"a matrix has the role of a norm", {"TRC-6"}, with_blocks(LAMINA_WRONG_BLOCK({
         return right_block(s, c, x + product(s, "matrix", x, c, Role::norm), step);
       }))},
      {"a declared state that no op uses", {"TRC-7"}, with_blocks(LAMINA_WRONG_BLOCK({
         s.state(LAMINA_STATE_KV, "spare", {2, 4},
                 {.axes = {LAMINA_AXIS_CACHE_HEADS, LAMINA_AXIS_CACHE_DIM}});
         return right_block(s, c, x, step);
       }))},
      {"a state keeps one token less than its op reads", {"TRC-7"}, with_blocks(LAMINA_WRONG_BLOCK({
         Tensor q = split_heads(product(s, "q", x, c), 2);
         State kv = s.state(
             LAMINA_STATE_KV, "short", {2, q.dim(3), q.dim(3)},
             {.axes = {LAMINA_AXIS_CACHE_HEADS, LAMINA_AXIS_CACHE_DIM, LAMINA_AXIS_CACHE_DIM},
              .window = 4});
         Tensor y = attention(q, q, q, kv, {.window = 5});
         return right_block(s, c, x + merge_heads(y), step);
       }))},
  };
}

// A right block with this added as the loss "extra"; may use s, c, x and step.
#define LAMINA_WITH_LOSS(...)                          \
  with_blocks(LAMINA_WRONG_BLOCK({                     \
    const Tensor y = right_block(s, c, x, step);       \
    step.loss("extra", [&]() -> Tensor __VA_ARGS__()); \
    return y;                                          \
  }))

// A value per token, from its activations.
Tensor per_token(Tensor x) { return reduce_mean(square(x), {.dims = {2}}); }

std::vector<WrongFamily> of_losses() {
  return {
      {"an auxiliary loss counts padding", {"EQV-7"}, LAMINA_WITH_LOSS({
         return reduce_mean(per_token(y), {.dims = {0, 1}});
       })},
      {"an auxiliary loss is a sum over tokens", {"EQV-7"}, LAMINA_WITH_LOSS({
         Tensor documents = cast_like(step.input(LAMINA_INPUT_SEGMENT_IDS), y);
         return reduce_sum(per_token(y) * minimum(documents, exp(scale(documents, 0))),
                           {.dims = {0, 1}});
       })},
      {"an auxiliary loss compares tokens of two documents", {"EQV-7"}, LAMINA_WITH_LOSS({
         const std::int64_t t = y.dim(1);
         if (t == 1) return counted_mean(per_token(y));
         Tensor before = pad(slice(y, {.dim = 1, .size = t - 1}), {.dim = 1, .before = 1});
         return counted_mean(per_token(y - before));
       })},
      {"an auxiliary loss trains nothing", {"GRD-2"}, LAMINA_WITH_LOSS({
         return counted_mean(per_token(stop_gradient(y)));
       })},
      {"the gradient of an auxiliary loss is cut off in part",
       {"GRD-1"},
       LAMINA_WITH_LOSS({ return counted_mean(per_token(y) * stop_gradient(per_token(y))); }),
       Level::full},
  };
}

std::vector<WrongFamily> of_numbers() {
  return {
      {"a gradient is cut off",
       {"GRD-1"},
       with_blocks(LAMINA_WRONG_BLOCK({
         Tensor y = right_block(s, c, x, step);
         return y + scale(stop_gradient(y), 0.5);
       })),
       Level::full},
      {"a parameter that nothing depends on", {"GRD-2"}, with_blocks(LAMINA_WRONG_BLOCK({
         product(s, "matrix", x, c);
         return right_block(s, c, x, step);
       }))},
      {"attention sees later tokens in training", {"TRC-4"}, with_blocks(LAMINA_WRONG_BLOCK({
         SelfAttentionOptions options = c.attention_options();
         options.attend.causal = false;
         options.attend.state = "both";
         return right_block(s, c, x + self_attention(s / "both_ways", x, step, options), step);
       }))},
      {"the result depends on the number of the document",
       {"EQV-2"},
       with_blocks(LAMINA_WRONG_BLOCK({
         Tensor segments = as_number(step.input(LAMINA_INPUT_SEGMENT_IDS), x);
         return right_block(s, c, x * segments, step);
       }))},
      {"a recurrence crosses documents", {"EQV-2"}, with_blocks(LAMINA_WRONG_BLOCK({
         Tensor w = s.param(
             "taps", {c.hidden_size, 2},
             {.axes = {axis::conv, axis::none}, .role = Role::conv, .init = init::normal(0.5)});
         Tensor y = step.causal_conv1d(x, w, {}, {.across = true});
         return right_block(s, c, x + y, step);
       }))},
      {"large values overflow",
       {"NUM-1"},
       with_blocks(LAMINA_WRONG_BLOCK(
           { return right_block(s, c, x + scale(exp(scale(x, 150)), 1e-9), step); })),
       Level::full,
       nullptr,
       {"TRC-4", "GRD-2", "EQV-2", "NUM-1", "NUM-2"}},
  };
}

}  // namespace

std::vector<WrongFamily> wrong_families() {
  std::vector<WrongFamily> out = of_config();
  for (auto* more : {of_traces, of_losses, of_numbers})
    for (WrongFamily& family : more()) out.push_back(std::move(family));
  return out;
}

}  // namespace lamina::conformance
