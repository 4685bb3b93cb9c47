#include "decoder/trace/stateful_ops.h"

#include <algorithm>

#include "core/error.h"
#include "ops/registry.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

using registry::NamedAttrs;
using registry::StateKind;

constexpr std::string_view kStateKinds[] = {
    "", "kv", "latent", "recurrent", "conv window", "token history", "index keys", "custom"};

// Inputs of these ops that only the host knows.
constexpr std::string_view kHostInputs[] = {
    "positions", "key_positions", "segments", "key_segments", "start", "count", "blocks"};

bool is_host_input(std::string_view name) {
  return std::ranges::find(kHostInputs, name) != std::end(kHostInputs);
}

int input_index(const Op& op, std::string_view name) {
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    if (op.inputs[i].name == name) return static_cast<int>(i);
  return -1;
}

// The place of an input of the call. REQUIRES: the op has it.
Tensor& input(MixerCall& call, std::string_view name) {
  int index = input_index(call.op, name);
  LAMINA_ASSERT(index >= 0);
  return call.inputs[static_cast<std::size_t>(index)];
}

std::int64_t int_attr(const NamedAttrs& attrs, std::string_view name) {
  for (const auto& [key, value] : attrs)
    if (key == name) return std::get<std::int64_t>(value);
  return 0;
}

double float_attr(const NamedAttrs& attrs, std::string_view name) {
  for (const auto& [key, value] : attrs)
    if (key == name) return std::get<double>(value);
  return 0;
}

// i32: a number for all places of x.
Tensor number(Tensor x, std::int64_t value) {
  std::vector<std::int64_t> ones(static_cast<std::size_t>(x.shape().ndim()), 1);
  return ops::constant(*x.graph, {DType::i32, Shape(std::span<const std::int64_t>(ones)), {}},
                       static_cast<double>(value));
}

[[noreturn]] void refuse(const MixerCall& call, std::string what) {
  throw PluginError({call.op.name, std::move(what), {}});
}

std::vector<Tensor> add_node(const MixerCall& call) {
  return call.context.graph().add_node(call.op, call.inputs, call.attrs);
}

DType state_dtype(const MixerCall& call, DType usual) { return call.state->dtype.value_or(usual); }

// Slots of a state that has one for each `stride` tokens, and the one that the first of the call's
// rows goes to: rows of earlier tokens are written when the last of their tokens comes.
std::int64_t slots_of(const MixerCall& call) {
  std::int64_t stride = call.state->stride;
  return (call.context.phase().capacity + stride - 1) / stride;
}
Tensor first_slot(MixerCall& call) {
  Tensor start = call.context.host_input(Role::start);
  return call.state->stride == 1 ? start : start / number(start, call.state->stride);
}

// Appends what the call has, a row a slot, to a cache; a cache of which just the last `kept`
// tokens are read (0 = all) is a ring with room for what the oldest query of a call still sees.
struct Written {
  Tensor cache;  // after the call, [B, slots, ...]
  bool ring = false;
};
Written write_cache(MixerCall& call, std::string_view part, Tensor update, std::int64_t kept) {
  const TracePhase& phase = call.context.phase();
  std::int64_t slots = slots_of(call);
  if (kept > 0) slots = std::min(slots, kept + phase.max_call_tokens - 1);
  Written out;
  out.ring = kept > 0 && slots < phase.capacity;
  Shape shape = update.shape();
  shape[1] = slots;
  Type type{state_dtype(call, update.dtype()), shape, {}};
  Tensor cache = call.context.state_input(
      part.empty() ? call.state->name : fmt::format("{}.{}", call.state->name, part),
      call.state->kind, type, out.ring);
  out.cache = ops::call("cache_write", {cache, ops::cast(update, cache.dtype()), first_slot(call)},
                        {{"ring", std::int64_t{out.ring}}});
  call.context.state_output(cache, out.cache);
  return out;
}

// The last tokens that a query of this attention sees, itself included; 0 = all.
std::int64_t reach(const MixerCall& call) {
  std::int64_t window = int_attr(call.attrs, "window"), chunk = int_attr(call.attrs, "chunk");
  return window > 0 && chunk > 0 ? std::min(window, chunk) : std::max(window, chunk);
}

bool sees_images(const MixerCall& call) {
  return int_attr(call.attrs, "see_images") != 0 && call.context.phase().given.count > 0;
}

std::vector<Tensor> decode_attention(MixerCall& call) {
  KeysAndValues kv;
  if (const auto& donor = call.context.donor()) {
    kv = *donor;
    std::int64_t wanted = reach(call);
    if (kv.ring && (wanted == 0 || wanted > kv.window))
      refuse(call,
             fmt::format("reads {} of a donor that keeps the last {} tokens",
                         wanted == 0 ? "all tokens" : fmt::format("{} tokens", wanted), kv.window));
  } else {
    Written k = write_cache(call, "k", input(call, "k"), reach(call));
    Written v = write_cache(call, "v", input(call, "v"), reach(call));
    kv = {k.cache, v.cache, k.ring, reach(call)};
    call.context.donate(kv);
  }
  DType dtype = input(call, "q").dtype();
  input(call, "k") = ops::cast(kv.k, dtype);
  input(call, "v") = ops::cast(kv.v, dtype);
  input(call, "start") = call.context.host_input(Role::start);
  if (sees_images(call)) input(call, "blocks") = call.context.host_input(Role::given_blocks);
  call.attrs.emplace_back("ring", std::int64_t{kv.ring});
  return add_node(call);
}

// Keys of an indexer: all that there are by then are scored.
std::vector<Tensor> decode_index_scores(MixerCall& call) {
  Tensor k = input(call, "k");
  Written keys = write_cache(call, "", k, 0);
  return {ops::call("index_scores_step",
                    {input(call, "q"), ops::cast(keys.cache, k.dtype()), input(call, "weights"),
                     call.context.host_input(Role::start)},
                    {{"stride", call.state->stride}})};
}

std::vector<Tensor> decode_top_k_mask(MixerCall& call) {
  input(call, "start") = call.context.host_input(Role::start);
  return add_node(call);
}

// A window of the latest rows x[B, T, D], in front of those of this call: [B, kept + T, D].
Tensor extend(MixerCall& call, Tensor x, std::int64_t kept) {
  Tensor window = call.context.state_input(
      call.state->name, call.state->kind,
      {state_dtype(call, x.dtype()), {x.dim(0), kept, x.dim(2)}, {}}, false);
  std::vector<Tensor> results = ops::call_all(
      "extend_window", {window, ops::cast(x, window.dtype()), call.context.host_input(Role::start),
                        call.context.host_input(Role::count)});
  call.context.state_output(window, results[0]);
  return ops::cast(results[1], x.dtype());
}

// Windows that end in this call reach back into earlier ones.
std::vector<Tensor> decode_window_pool(MixerCall& call) {
  Tensor &values = input(call, "values"), &gates = input(call, "gates");
  const std::int64_t width = values.dim(2), kept = call.state->dims[1];
  Tensor both =
      extend(call, ops::call("concat", {values, gates}, {{"dim", std::int64_t{2}}}), kept);
  values = ops::slice(both, 2, 0, width);
  gates = ops::slice(both, 2, width, width);
  Tensor& ends = input(call, "ends");
  Tensor none = number(ends, -1);
  ends = ops::select(ops::equal(ends, none), ends, ops::shift(ends, static_cast<double>(kept)));
  return add_node(call);
}

// One cache: a ring of the tokens that the window reaches, then the entries, written as their
// windows end.
std::vector<Tensor> decode_compressed_attention(MixerCall& call) {
  const TracePhase& phase = call.context.phase();
  const std::int64_t window = std::max<std::int64_t>(int_attr(call.attrs, "window"), 1),
                     ratio = std::max<std::int64_t>(int_attr(call.attrs, "ratio"), 1);
  if (call.state->window != window || call.state->stride != ratio)
    refuse(call, fmt::format("has a state with window {} and stride {}; they must be its own "
                             "window {} and ratio {}",
                             call.state->window, call.state->stride, window, ratio));
  Tensor q = input(call, "q"), kv = input(call, "kv"), start = call.context.host_input(Role::start);
  const std::int64_t entries = slots_of(call);
  const std::int64_t ring = std::min(phase.capacity, window + phase.max_call_tokens - 1);
  Tensor cache = call.context.state_input(
      call.state->name, call.state->kind,
      {state_dtype(call, kv.dtype()), {kv.dim(0), ring + entries, kv.dim(2)}, {}}, false);
  Tensor written = ops::call("cache_write", {cache, ops::cast(kv, cache.dtype()), start},
                             {{"ring", std::int64_t{ring < phase.capacity}}, {"slots", ring}});
  written = ops::call("cache_write",
                      {written, ops::cast(input(call, "entries"), cache.dtype()), first_slot(call)},
                      {{"first", ring}, {"slots", entries}});
  call.context.state_output(cache, written);

  return {ops::call("compressed_attention_step",
                    {q, written, start, input(call, "scores"), input(call, "sinks")},
                    {{"ratio", ratio},
                     {"window", window},
                     {"k", int_attr(call.attrs, "k")},
                     {"scale", float_attr(call.attrs, "scale")},
                     {"ring", ring}})};
}

// The op that goes on from a state: its inputs and attributes are those of the same names, and
// `state` is written over by the output called "<state>_out".
std::vector<Tensor> add_step(const MixerCall& call, std::string_view step_name,
                             std::string_view state_name, Tensor state) {
  const Op& step = ops::get(step_name);
  std::vector<Tensor> inputs;
  for (const OpInput& wanted : step.inputs) {
    int index = input_index(call.op, wanted.name);
    if (wanted.name == state_name)
      inputs.push_back(state);
    else if (wanted.name == "start" || wanted.name == "count")
      inputs.push_back(call.context.host_input(wanted.name == "start" ? Role::start : Role::count));
    else
      inputs.push_back(index < 0 ? Tensor{} : call.inputs[static_cast<std::size_t>(index)]);
  }
  NamedAttrs attrs = call.attrs;
  std::erase_if(attrs, [&](const auto& attr) { return step.attr_index(attr.first) < 0; });
  std::vector<Tensor> results = call.context.graph().add_node(step, inputs, attrs), out;
  for (std::size_t i = 0; i < results.size(); ++i)
    if (step.outputs[i].name == fmt::format("{}_out", state_name))
      call.context.state_output(state, results[i]);
    else
      out.push_back(results[i]);
  return out;
}

std::vector<Tensor> decode_convolution(MixerCall& call) {
  Tensor x = input(call, "x");
  const auto& dims = call.state->dims;  // channels, tokens kept
  Tensor window = call.context.state_input(
      call.state->name, call.state->kind,
      {state_dtype(call, x.dtype()), {x.dim(0), dims[1], dims[0]}, {}}, false);
  return add_step(call, "causal_conv1d_step", "window", window);
}

std::vector<Tensor> decode_delta_rule(MixerCall& call) {
  Tensor v = input(call, "v");
  const auto& dims = call.state->dims;  // heads, key width, value width
  DType wide = sum_dtype(v.dtype());
  Tensor state = call.context.state_input(call.state->name, call.state->kind,
                                          {wide, {v.dim(0), dims[0], dims[1], dims[2]}, {}}, false);
  return add_step(call, "gated_delta_rule_step", "state", state);
}

// Attention over latents themselves: keys and values are never made.
std::vector<Tensor> decode_latent_attention(MixerCall& call) {
  for (const char* part : {"latent", "k_rope"}) {
    Tensor update = input(call, part);
    Written written = write_cache(call, part, update, 0);
    input(call, part) = ops::cast(written.cache, update.dtype());
  }
  return add_step(call, "latent_attention_step", "", {});
}

// N-grams of the tokens of a call reach back into those before it.
std::vector<Tensor> decode_ngrams(MixerCall& call) {
  Tensor tokens = input(call, "tokens");
  Tensor history =
      call.context.state_input(call.state->name, call.state->kind,
                               {DType::i32, {tokens.dim(0), call.state->dims[0]}, {}}, false);
  return add_step(call, "ngram_hash_step", "history", history);
}

std::vector<std::int64_t> kv_dims(MixerCall& call) {
  const Tensor k = input(call, "k"), v = input(call, "v");
  if (call.state->dims.size() == 2 && k.dim(3) == v.dim(3)) return {k.dim(2), k.dim(3)};
  return {k.dim(2), k.dim(3), v.dim(3)};
}
std::vector<std::int64_t> shared_kv_dims(MixerCall& call) { return {1, input(call, "kv").dim(2)}; }
std::vector<std::int64_t> convolution_dims(MixerCall& call) {
  const Tensor w = input(call, "w");
  const std::int64_t dilation = int_attr(call.attrs, "dilation");
  return {w.dim(0), (w.dim(1) - 1) * std::max<std::int64_t>(dilation, 1)};
}
std::vector<std::int64_t> delta_rule_dims(MixerCall& call) {
  const Tensor k = input(call, "k"), v = input(call, "v");
  return {v.dim(2), k.dim(3), v.dim(3)};
}
std::vector<std::int64_t> latent_dims(MixerCall& call) {
  return {input(call, "latent").dim(2), input(call, "k_rope").dim(2)};
}
std::vector<std::int64_t> index_key_dims(MixerCall& call) { return {input(call, "k").dim(2)}; }
std::vector<std::int64_t> window_pool_dims(MixerCall& call) {
  const std::int64_t windows = int_attr(call.attrs, "overlap") != 0 ? 2 : 1;
  return {2 * input(call, "values").dim(2), windows * int_attr(call.attrs, "ratio") - 1};
}

const MixerOp kMixers[] = {
    {"attention", StateKind::kv, decode_attention, kv_dims, {{"q", 4}, {"k", 4}, {"v", 4}}},
    {"causal_conv1d",
     StateKind::conv_window,
     decode_convolution,
     convolution_dims,
     {{"x", 3}, {"w", 2}}},
    {"ngram_hash", StateKind::token_history, decode_ngrams},
    {"gated_delta_rule",
     StateKind::recurrent,
     decode_delta_rule,
     delta_rule_dims,
     {{"k", 4}, {"v", 4}}},
    {"latent_attention",
     StateKind::latent,
     decode_latent_attention,
     latent_dims,
     {{"latent", 3}, {"k_rope", 3}}},
    {"index_scores", StateKind::index_keys, decode_index_scores, index_key_dims, {{"k", 3}}},
    {"top_k_mask", std::nullopt, decode_top_k_mask},
    {"window_pool",
     StateKind::conv_window,
     decode_window_pool,
     window_pool_dims,
     {{"values", 3}, {"gates", 3}, {"ends", 2}}},
    {"compressed_attention",
     StateKind::kv,
     decode_compressed_attention,
     shared_kv_dims,
     {{"q", 4}, {"kv", 3}, {"entries", 3}}},
};

// A convolution of one tap needs no state, nor do windows of one token.
bool remembers(const MixerCall& call) {
  if (call.op.name == "window_pool")
    return int_attr(call.attrs, "ratio") > 1 || int_attr(call.attrs, "overlap") != 0;
  return call.op.name != "causal_conv1d" || input_index(call.op, "w") < 0 ||
         call.inputs[static_cast<std::size_t>(input_index(call.op, "w"))].dim(1) > 1;
}

void check(const MixerOp& mixer, const MixerCall& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if (call.inputs[i] && call.op.inputs[i].optional && is_host_input(call.op.inputs[i].name))
      refuse(call, fmt::format("input '{}' is supplied by the host; leave it out",
                               call.op.inputs[i].name));
  if (call.state && !mixer.state) refuse(call, "takes no decode state");
  if (!call.state) return;
  if (call.state->kind != *mixer.state)
    refuse(call, fmt::format("has a state of kind {}; it needs one of kind {}",
                             kStateKinds[static_cast<int>(call.state->kind)],
                             kStateKinds[static_cast<int>(*mixer.state)]));
}

void check_num_dims(const MixerOp& mixer, MixerCall& call) {
  for (const auto& [name, count] : mixer.num_dims) {
    const Tensor given = input(call, name);
    if (!given) refuse(call, fmt::format("input '{}' is missing", name));
    if (given.ndim() != count)
      refuse(call,
             fmt::format("{} must have {} dims, got {}", name, count, to_string(given.type())));
  }
}

void check_state_dims(const MixerOp& mixer, MixerCall& call) {
  if (!mixer.state_dims) return;
  const std::vector<std::int64_t> wanted = mixer.state_dims(call);
  if (call.state->dims != wanted)
    refuse(call,
           fmt::format("has the state '{}' with dims [{}]; its inputs need [{}]", call.state->name,
                       fmt::join(call.state->dims, ", "), fmt::join(wanted, ", ")));
}

// Documents are told apart, and positions given where they are asked for.
void give_host_inputs(MixerCall& call) {
  const TracePhase& phase = call.context.phase();
  for (const char* name : {"segments", "key_segments"})
    if (phase.segments && input_index(call.op, name) >= 0 && int_attr(call.attrs, "across") == 0)
      input(call, name) = call.context.host_input(Role::segments);
  if (call.op.name != "attention") return;
  if (sees_images(call)) input(call, "blocks") = call.context.host_input(Role::given_blocks);
  // Chunks are cut by position in the document; windows and order follow from the row.
  const bool cut = int_attr(call.attrs, "moba_chunk") > 0 && phase.segments;
  if (int_attr(call.attrs, "chunk") > 0 || cut)
    input(call, "positions") = input(call, "key_positions") =
        call.context.host_input(Role::positions);
}

}  // namespace

const MixerOp* find_mixer(std::string_view op) {
  for (const MixerOp& mixer : kMixers)
    if (mixer.name == op) return &mixer;
  return nullptr;
}

std::vector<Tensor> add_mixer(const MixerOp& mixer, MixerCall call) {
  call.inputs.resize(call.op.inputs.size());
  check(mixer, call);
  const auto& donor = call.context.donor();
  const bool shares = mixer.name == "attention";
  if (donor && shares && (input(call, "k") || input(call, "v")))
    refuse(call, "has k and v in a layer that reads a donor's; leave them out");
  if (!donor || !shares) {
    check_num_dims(mixer, call);
    if (call.state) check_state_dims(mixer, call);
  }
  if (call.context.phase().stateful && remembers(call)) {
    bool reads_another = donor && shares;
    if (mixer.state && !call.state && !reads_another)
      refuse(call, "has no decode state, so this block cannot decode");
    return mixer.decode(call);
  }
  if (shares) {
    if (donor) {
      input(call, "k") = donor->k;
      input(call, "v") = donor->v;
    } else {
      call.context.donate({input(call, "k"), input(call, "v"), false, reach(call)});
    }
  }
  if (!call.context.phase().stateful) give_host_inputs(call);
  return add_node(call);
}

}  // namespace lamina::decoder
