// Norms of queries, keys and values, values that are keys, and sinks: changes the ops between
// matrices and attention.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/model_keys.h"
#include "decoder/rewrite/rewriter.h"
#include "decoder/rewrite/rewrites.h"
#include "lamina/names.h"
#include "ops/operands.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

namespace in = operand::attention;
static_assert(int{operand::moba_mask::kQ} == in::kQ && int{operand::moba_mask::kK} == in::kK);

bool wanted(const TracePhase& phase) { return phase.options.remake_attention(); }

[[noreturn]] void refuse_key(std::string_view key, std::string what) {
  refuse_option(fmt::format("model.{}", key), std::move(what));
}

// Returns the first key among the options in remake_attention().
std::string_view first_key(const BlockOptions& options) {
  if (options.qk_norm) return config::kUseQkNorm;
  if (options.qk_norm_weight) return config::kQkNormWithScale;
  if (options.v_norm) return config::kUseVNorm;
  if (options.v_norm_weight) return config::kVNormWithScale;
  if (options.sinks) return config::kSinks;
  return options.qkv_norm_eps ? config::kQkvNormEps : config::kShareKv;
}

constexpr const char* kNames[] = {"queries", "keys", "values"};

bool is_norm(const Node& node) { return node.op->def->facts.is_norm; }
bool shapes_heads(const Node& node) { return node.op->def->facts.on_heads == OnHeads::shapes; }

class AttentionInputs {
 public:
  AttentionInputs(Rewriter& r, const BlockOptions& options)
      : r_(r), from_(r.from()), options_(options) {}

  bool change(NodeId id) {
    const Node& node = from_.node(id);
    const Attends attends = node.op->def->facts.attends;
    if (attends == Attends::to_latents)
      refuse_key(
          first_key(options_),
          fmt::format(
              "is about queries, keys and values of heads; the attention of this model is {}, "
              "which has latents with their own norms",
              node.op->name));
    if (attends != Attends::to_heads && attends != Attends::masks_heads) return false;
    const bool attention = attends == Attends::to_heads;
    const ValueId q = node.inputs[in::kQ], k = node.inputs[in::kK];
    const std::vector<Tensor> before = r_.operands(id);
    std::vector<Tensor> after = before;
    if (options_.sinks && attention) after[in::kSinks] = sinks(q, node.inputs[in::kSinks]);
    after[in::kQ] = remade(What::query, q);
    if (k != kNoValue) after[in::kK] = remade(What::key, k);
    if (const ValueId v = attention ? node.inputs[in::kV] : kNoValue; v != kNoValue)
      after[in::kV] = options_.share_kv ? shared(k, v) : remade(What::value, v);
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (after[i].id == before[i].id) continue;
      r_.refuse_in_scope();
      if (before[i]) r_.move_record(node.inputs[i], after[i]);
    }
    r_.copy(id, after);
    return true;
  }

  // Returns whether queries, keys or values of any attention have a norm now.
  bool has_norms() const { return has_norms_; }

 private:
  enum class What { query, key, value };
  // The ops between a matrix and attention.
  struct Chain {
    ValueId base;  // the product with the matrix
    std::vector<NodeId> nodes = {};
    std::optional<MatrixProduct> matrix = {};  // nothing: none of the block gives it
  };

  Chain chain_of(ValueId x) const {
    Chain out{.base = x};
    while (!(out.matrix = matrix_product(from_, out.base))) {
      const NodeId id = from_.value(out.base).node;
      if (id == kNoNode || from_.node(id).op->def->facts.on_heads == OnHeads::none) break;
      out.nodes.insert(out.nodes.begin(), id);
      out.base = from_.node(id).inputs[0];
    }
    return out;
  }

  // Returns the value that replaces x.
  Tensor remade(What what, ValueId x) {
    if (const auto known = made_.find({x, kNoValue}); known != made_.end()) return known->second;
    const Chain chain = chain_of(x);
    return made_[{x, kNoValue}] = replay(what, x, chain, chain.base);
  }

  // Returns values that share the matrix of keys, with the ops of values after it.
  Tensor shared(ValueId k, ValueId v) {
    if (const auto known = made_.find({v, k}); known != made_.end()) return known->second;
    const Chain keys = chain_of(k), values = chain_of(v);
    if (keys.base == values.base && keys.matrix) {
      if (std::ranges::any_of(values.nodes, [&](NodeId id) { return cuts(from_.node(id)); }))
        refuse_key(config::kShareKv,
                   "one matrix of this model gives keys and values, side by side");
      return made_[{v, k}] = replay(What::value, v, values, values.base);
    }
    if (!keys.matrix || !values.matrix)
      refuse_key(config::kShareKv,
                 fmt::format("{} of this model come from no matrix by ops on heads alone",
                             keys.matrix ? "values" : "keys"));
    if (from_.type(keys.base) != from_.type(values.base))
      refuse_key(config::kShareKv,
                 fmt::format("keys of this model are {} and values {}",
                             to_string(from_.type(keys.base)), to_string(from_.type(values.base))));
    r_.leave_out(values.matrix->weight);
    r_.leave_out(values.matrix->bias);
    return made_[{v, k}] = replay(What::value, v, values, keys.base);
  }

  static bool cuts(const Node& node) {
    return shapes_heads(node) && node.op->attr_index("start") >= 0;
  }

  // Repeats `chain`, whose result was `was`, from `base` on.
  Tensor replay(What what, ValueId was, const Chain& chain, ValueId base) {
    const std::optional<bool> wants = wanted_norm(what);
    const bool has =
        std::ranges::any_of(chain.nodes, [&](NodeId id) { return is_norm(from_.node(id)); });
    const bool adds = wants.value_or(false) && !has;
    has_norms_ = has_norms_ || wants.value_or(has);
    if (!has && !adds && weighted(what))
      refuse_key(
          what == What::value ? config::kVNormWithScale : config::kQkNormWithScale,
          fmt::format("{} of a layer of this model have no norm", kNames[static_cast<int>(what)]));
    std::size_t place = 0;  // of a norm that is added: after the ops that shape heads
    for (std::size_t i = 0; i < chain.nodes.size(); ++i)
      if (shapes_heads(from_.node(chain.nodes[i]))) place = i + 1;
    Tensor x = r_.get(base);
    bool same = base == chain.base;  // unchanged so far
    for (std::size_t i = 0; i <= chain.nodes.size(); ++i) {
      if (adds && i == place) {
        x = normed(what, chain, x);
        same = false;
      }
      if (i < chain.nodes.size()) x = step(what, chain, from_.node(chain.nodes[i]), x, same);
    }
    if (same) return x;
    if (const std::string& tag = from_.value(was).tag; !tag.empty()) r_.graph().set_tag(x.id, tag);
    return x;
  }

  // Repeats one op of a chain on x.
  Tensor step(What what, const Chain& chain, const Node& node, Tensor x, bool& same) {
    if (is_norm(node)) {
      if (wanted_norm(what) == false) {
        r_.leave_out(node.inputs[operand::rms_norm::kW]);
        same = false;
        return x;
      }
      if (const std::optional<Tensor> changed = changed_norm(what, chain, node, x)) {
        same = false;
        return *changed;
      }
    }
    if (same) return r_.get(node.outputs[0]);
    std::vector<Tensor> operands;
    for (ValueId input : node.inputs) operands.push_back(r_.get(input));
    operands[0] = x;
    return r_.graph().add_node_like(node, operands).front();
  }

  // Returns the norm with another epsilon, or with or without weights; nothing if it is unchanged.
  std::optional<Tensor> changed_norm(What what, const Chain& chain, const Node& node, Tensor x) {
    const ValueId own = node.inputs[operand::rms_norm::kW];
    const bool has_weight = own != kNoValue;
    const bool wants_weight = weighted(what).value_or(has_weight);
    if (wants_weight == has_weight && !options_.qkv_norm_eps) return {};
    Tensor weight = r_.get(own);
    if (has_weight && !wants_weight) {
      r_.leave_out(own);
      weight = {};
    }
    if (!has_weight && wants_weight) weight = norm_weight(what, chain, x);
    Node changed = node;
    if (options_.qkv_norm_eps) changed.set_attr("eps", *options_.qkv_norm_eps);
    const Tensor operands[] = {x, weight};
    return r_.graph().add_node_like(changed, operands).front();
  }

  Tensor normed(What what, const Chain& chain, Tensor x) {
    const Tensor weight = weighted(what).value_or(true) ? norm_weight(what, chain, x) : Tensor{};
    const double eps = options_.qkv_norm_eps.value_or(options_.norm_eps);
    return ops::rms_norm(x, weight, {.eps = eps});
  }

  const registry::ParamDesc* matrix_of(const Chain& chain) const {
    return chain.matrix ? r_.recording().param(chain.matrix->weight) : nullptr;
  }

  // Returns the input of attention for sinks, for queries q; `own` is the block's input, or
  // kNoValue. Starts at zero, as in MaxText.
  Tensor sinks(ValueId q, ValueId own) {
    if (own != kNoValue)
      refuse_key(config::kSinks, "the attention of this model already has sinks");
    const registry::ParamDesc* matrix = matrix_of(chain_of(q));
    if (!matrix)
      refuse_key(config::kSinks,
                 "queries of this model come from no matrix that their sinks could be kept beside");
    registry::ParamDesc desc;
    desc.shape = Shape{from_.type(q).dim(2)};
    desc.axes = {intern_axis(LAMINA_AXIS_HEADS)};
    desc.role = registry::Role::scalar;
    desc.init = {registry::InitSpec::Kind::zeros, 0, 0};
    return r_.add_param_beside(*matrix, "sinks", std::move(desc));
  }

  Tensor norm_weight(What what, const Chain& chain, Tensor x) {
    const registry::ParamDesc* matrix = matrix_of(chain);
    if (!matrix)
      refuse_key(
          what == What::value ? config::kUseVNorm : config::kUseQkNorm,
          fmt::format("{} of this model come from no matrix that their norm could be kept beside",
                      kNames[static_cast<int>(what)]));
    constexpr const char* names[] = {"q_norm.weight", "k_norm.weight", "v_norm.weight"};
    registry::ParamDesc desc;
    desc.shape = Shape{x.dim(-1)};
    desc.axes = {intern_axis(LAMINA_AXIS_NORM)};
    desc.role = registry::Role::norm;
    desc.init = {registry::InitSpec::Kind::constant, 1, 0};
    return r_.add_param_beside(*matrix, names[static_cast<int>(what)], std::move(desc));
  }

  std::optional<bool> wanted_norm(What what) const {
    return what == What::value ? options_.v_norm : options_.qk_norm;
  }
  std::optional<bool> weighted(What what) const {
    return what == What::value ? options_.v_norm_weight : options_.qk_norm_weight;
  }

  Rewriter& r_;
  const Graph& from_;
  const BlockOptions& options_;
  bool has_norms_ = false;
  std::map<std::array<ValueId, 2>, Tensor> made_;  // by old values, and by keys that are shared
};

void apply(Recording& recording, const BlockContext& context) {
  Rewriter r(recording, context);
  AttentionInputs inputs(r, context.phase.options);
  r.run([&](NodeId id) { return inputs.change(id); });
  recording.block.has.qkv_norms = inputs.has_norms();
}

}  // namespace

constinit const Rewrite kAttentionInputs = {"attention inputs", wanted, apply};

}  // namespace lamina::decoder
