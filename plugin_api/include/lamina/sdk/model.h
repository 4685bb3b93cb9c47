// A model family as a constant: names, keys, blocks, plan, norm, embedding, head and tensor map.
// See plugin_api/template/model.cc for a complete one.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "lamina/sdk/layers.h"
#include "lamina/sdk/plan.h"
#include "lamina/sdk/schema.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// A few names, usable at compile time.
struct Names {
  static constexpr std::size_t kMax = 8;
  std::string_view items[kMax] = {};
  std::uint32_t count = 0;

  constexpr Names() = default;
  constexpr Names(std::initializer_list<std::string_view> names) {
    for (std::string_view name : names) {
      if (count == kMax) throw "more than 8 names";
      items[count++] = name;
    }
  }
  constexpr const std::string_view* begin() const { return items; }
  constexpr const std::string_view* end() const { return items + count; }
};

struct Family {
  std::string_view name = {};   // `family` in a run file
  Names aliases = {};           // other values of `family`
  Names hf_model_types = {};    // `model_type` in config.json
  Names hf_architectures = {};  // `architectures`; the first is exported
  Names hf_prefixes = {};       // that published tensor names may have or lack
  std::string_view doc;         // one line: paper, what is covered
  // The family that exports are of, whose parameters the blocks make: a value that is tagged
  // "<plugin id>.exports.<name>" is the parameter of that name. Empty = this one.
  std::string_view exports_as = {};
};

// The final norm.
struct Norm {
  std::uint32_t op = 0, revision = 0, flags = 0;
  std::vector<lamina_attr_t> attrs;
  Norm() = default;
  Norm(const RmsNormOptions& o) { set(Op::rms_norm, attrs_of(o).list(), 0); }
  Norm(const LayerNormOptions& o) { set(Op::layer_norm, attrs_of(o).list(), LAMINA_NORM_BIAS); }

 private:
  void set(Op which, const std::vector<lamina_attr_t>& list, std::uint32_t bits) {
    op = static_cast<std::uint32_t>(which);
    revision = spec_of(which).revision;
    attrs = list;
    flags = bits;
  }
};

// x = dropout(table[ids] * scale + positions).
struct Embed {
  double scale = 1;
  std::uint32_t positions = LAMINA_POSITIONS_NONE;
  std::int64_t max_positions = 0;  // rows of learned positions
  double dropout = 0;
  double init_std = 0;            // 0 = the model's
  double positions_init_std = 0;  // 0 = as init_std
  // Block that runs once, before the layers: {x} to `carries` carries of any shape, then
  // `per_layer` tensors whose first dim is the number of layers (Step::per_layer). 0 = none.
  std::uint32_t entry = 0;
  std::uint32_t carries = 1;
  std::uint32_t per_layer = 0;
};

// logits = cap(norm(x) w^T * logit_scale).
struct Head {
  Norm norm = {};
  bool tied = false;     // w is the embedding table
  bool no_loss = false;  // training computes no logits: only what layers sow is minimised
  double logit_scale = 1;
  double soft_cap = 0;
  double init_std = 0;     // 0 = the model's
  std::uint32_t exit = 0;  // block that runs once, after the layers: the carries to {x_BTD}
};

// Multi-token prediction; see lamina_mtp_t. Block j (from 0) turns {hidden state, embedding of the
// token 1 + j ahead} into {next hidden state, what the head gets}.
struct Mtp {
  std::uint32_t block = 0;
  std::int64_t depth = 0;  // 0 = none
  std::vector<Override> overrides = {};
  std::string_view weight_key = {};  // a number, or a list with one per depth; empty = 1
  bool normed_hidden = false;        // the first hidden state is that after the final norm
  bool shifted_positions = false;    // blocks see the positions of the tokens they are given
  bool final_norm = true;            // the final norm is applied before the head
  bool chained = false;              // LAMINA_MTP_CHAINED
};

using Tensors = std::vector<Tensor>;

// A kind of layer, or what runs before or after all of them. One of the two builds is given.
template <class Config>
struct Block {
  std::uint32_t id = 0;        // from 1; what the plan's units name
  std::string_view name = {};  // for messages
  // Of carry 0; further carries pass through.
  Tensor (*build)(Scope s, const Config& c, Tensor x_BTD, const Step& step) = nullptr;
  // Of all carries.
  Tensors (*build_all)(Scope s, const Config& c, const Tensors& carries,
                       const Step& step) = nullptr;
};

// A step from a published tensor to ours; dims as the steps before leave them, negative ones from
// the last.
struct Transform {
  std::uint32_t kind = 0;  // LAMINA_TRANSFORM_*
  double number = 0;
  std::int64_t dim = 0;
  std::uint32_t index = 0, count = 0;
};
inline constexpr Transform kTranspose{LAMINA_TRANSFORM_TRANSPOSE};  // the last two dims
constexpr Transform added(double number) { return {LAMINA_TRANSFORM_ADD, number}; }
constexpr Transform multiplied(double number) { return {LAMINA_TRANSFORM_MUL, number}; }
// Part `index` of a tensor in which several parameters lie one after the other along dim.
constexpr Transform part(std::uint32_t index, std::int64_t dim) {
  return {LAMINA_TRANSFORM_PART, 0, dim, index};
}
// Every count-th along dim, from index on: parameters that are interleaved.
constexpr Transform strided(std::uint32_t index, std::uint32_t count, std::int64_t dim) {
  return {LAMINA_TRANSFORM_STRIDED, 0, dim, index, count};
}
// Without a dim of size 1, eg: published [C, 1, K], ours [C, K].
constexpr Transform squeezed(std::int64_t dim) { return {LAMINA_TRANSFORM_SQUEEZE, 0, dim}; }
// One published dim that is our dims dim and dim + 1.
constexpr Transform split(std::int64_t dim) { return {LAMINA_TRANSFORM_SPLIT, 0, dim}; }

// A row of the tensor map: our name, the published one, and how to get from there to here. It
// serves loading and exporting, and is not used where a model has no such parameter. Several rows
// of one parameter are alternatives; the first is exported.
//   {kMoe, "experts.w1.weight", "model.layers.{L}.mlp.experts.{E}.gate_proj.weight"},
//   {kMoe, "experts.w1.weight", "model.layers.{L}.mlp.experts.gate_up_proj", {part(0, 1)}},
struct Weight {
  std::uint32_t block = 0;  // 0 = outside the layers
  std::string_view name = {};
  std::string_view hf =
      {};  // {L}: the layer's global index; {E}: one tensor each for our first dim
  std::vector<Transform> transforms = {};
  std::uint32_t flags = 0;  // LAMINA_HF_*
};
// A published tensor that is of no use here; * stands for anything.
inline Weight ignored(std::string_view hf) { return {.hf = hf, .flags = LAMINA_HF_IGNORE}; }
// Likewise of layers past the last, which {L} stands for, eg: "model.layers.{L}.*".
inline Weight ignored_beyond(std::string_view hf) {
  return {.hf = hf, .flags = LAMINA_HF_IGNORE | LAMINA_HF_BEYOND};
}

// Everything about a family. Functions that have nothing to say may be left out; keys, blocks,
// plan and head are needed.
template <class C>
struct Model {
  using Config = C;

  Family family = {};
  void (*keys)(Schema<Config>& key) = nullptr;
  void (*derive)(const Config& c, const Derived& derived) = nullptr;
  void (*validate)(const Config& c, const Problems& problem) = nullptr;
  double (*init_std)(const Config& c) = nullptr;  // of weights; 0.02 if left out
  std::vector<Block<Config>> (*blocks)() = nullptr;
  Plan (*plan)(const Config& c) = nullptr;
  Embed (*embed)(const Config& c) = nullptr;
  Head (*head)(const Config& c) = nullptr;
  Mtp (*mtp)(const Config& c) = nullptr;
  std::vector<Weight> (*weights)() = nullptr;
};

// The same family in the terms of the C contract. Lives from init() to deinit().
template <class Config>
class FamilyTables {
 public:
  explicit FamilyTables(const Model<Config>& model) : model_(model) {
    model_.keys(schema_);
    add_names();
    add_blocks();
    if (model_.weights) add_weights();
    lamina_family_t& f = family_;
    f.size = sizeof f;
    f.keys = to_span(schema_.keys());
    f.user = this;
    if (model_.derive) f.derive = &call<&FamilyTables::derive>;
    if (model_.validate) f.validate = &call<&FamilyTables::validate>;
    f.plan = &call<&FamilyTables::plan>;
    f.options = &call<&FamilyTables::options>;
  }
  FamilyTables(const FamilyTables&) = delete;
  FamilyTables& operator=(const FamilyTables&) = delete;

  const lamina_family_t& family() const { return family_; }

 private:
  struct BuildContext {
    const FamilyTables* tables;
    Block<Config> block;
  };

  static constexpr double kInitStd = 0.02;
  double init_std(const Config& c) const { return model_.init_std ? model_.init_std(c) : kInitStd; }

  void derive(const Config& c, lamina_reply_t* reply) const { model_.derive(c, Derived(reply)); }
  void validate(const Config& c, lamina_reply_t* reply) const {
    model_.validate(c, Problems(reply));
  }
  void plan(const Config& c, lamina_reply_t* reply) const { send(model_.plan(c), reply); }
  void options(const Config& c, lamina_reply_t* reply) const {
    const Embed e = model_.embed ? model_.embed(c) : Embed{};
    lamina_embed_t embed{};
    embed.size = sizeof embed;
    embed.scale = e.scale;
    embed.positions = e.positions;
    embed.max_positions = e.max_positions;
    embed.dropout = e.dropout;
    embed.init_std = e.init_std > 0 ? e.init_std : init_std(c);
    embed.positions_init_std = e.positions_init_std > 0 ? e.positions_init_std : embed.init_std;
    embed.entry = e.entry;
    embed.n_carry = e.carries;
    embed.n_per_layer = e.per_layer;
    check(reply->api->embed(reply, &embed));

    const Head h = model_.head(c);
    lamina_head_t head{};
    head.size = sizeof head;
    head.flags = (h.tied ? LAMINA_HEAD_TIED : 0u) | (h.no_loss ? LAMINA_HEAD_NO_LOSS : 0u);
    head.logit_scale = h.logit_scale;
    head.soft_cap = h.soft_cap;
    head.init_std = h.init_std > 0 ? h.init_std : init_std(c);
    head.norm.size = sizeof head.norm;
    head.norm.op = h.norm.op;
    head.norm.revision = h.norm.revision;
    head.norm.flags = h.norm.flags;
    head.norm.attrs = to_span(h.norm.attrs);
    head.exit = h.exit;
    check(reply->api->head(reply, &head));
    if (model_.mtp) send_mtp(model_.mtp(c), reply);
  }

  static void send_mtp(const Mtp& m, lamina_reply_t* reply) {
    if (m.depth == 0) return;
    if (m.depth < 0)
      throw Error(LAMINA_ERROR_CONFIG, "multi-token prediction: fewer than 0 depths",
                  At::current());
    std::vector<lamina_setting_t> overrides;
    for (const Override& o : m.overrides) overrides.push_back({to_str(o.key), o.value});
    lamina_mtp_t mtp{};
    mtp.size = sizeof mtp;
    mtp.flags = (m.normed_hidden ? LAMINA_MTP_NORMED_HIDDEN : 0u) |
                (m.shifted_positions ? LAMINA_MTP_SHIFTED_POSITIONS : 0u) |
                (m.final_norm ? LAMINA_MTP_FINAL_NORM : 0u) | (m.chained ? LAMINA_MTP_CHAINED : 0u);
    mtp.block = m.block;
    mtp.depth = static_cast<std::uint32_t>(m.depth);
    mtp.overrides = to_span(overrides);
    mtp.weight_key = to_str(m.weight_key);
    check(reply->api->mtp(reply, &mtp));
  }

  template <void (FamilyTables::*function)(const Config&, lamina_reply_t*) const>
  static lamina_status_t call(void* user, const lamina_config_t* config,
                              lamina_reply_t* reply) noexcept {
    const auto* self = static_cast<const FamilyTables*>(user);
    return guarded(reply, [&] { (self->*function)(self->schema_.read(config), reply); });
  }

  static lamina_status_t build(void* user, lamina_build_t* build, const lamina_config_t* config,
                               const lamina_io_t* io) noexcept {
    const auto* context = static_cast<const BuildContext*>(user);
    return guarded(build, [&] {
      const Config c = context->tables->schema_.read(config);
      const Scope s(build, context->tables->init_std(c));
      const Block<Config>& block = context->block;
      Tensors carries, per_layer;
      for (std::uint32_t i = 0; i < io->n_carry; ++i)
        carries.push_back(tag({build, io->carry_in[i]}, LAMINA_TAG_DECODER_LAYER_INPUT));
      for (std::uint32_t i = 0; i < io->n_per_layer; ++i)
        per_layer.push_back({build, io->per_layer[i]});
      const Step step(s, per_layer);
      Tensors out = carries;
      if (block.build_all)
        out = block.build_all(s, c, carries, step);
      else
        out[0] = block.build(s, c, carries[0], step);
      const std::uint32_t wanted = io->n_out > 0 ? io->n_out : io->n_carry;
      if (out.size() != wanted)
        throw Error(LAMINA_ERROR_ARGUMENT,
                    "block '" + std::string(block.name) + "' gives " + std::to_string(out.size()) +
                        " tensors where " + std::to_string(wanted) + " are wanted",
                    At::current());
      for (std::size_t i = 0; i < out.size(); ++i) io->carry_out[i] = out[i].handle;
    });
  }

  void add_names() {
    const Family& f = model_.family;
    auto keep = [&](const Names& names) {
      auto& list = strs_.emplace_back();
      for (std::string_view name : names) list.push_back(to_str(name));
      return to_span(list);
    };
    family_.name = to_str(f.name);
    family_.doc = to_str(f.doc);
    family_.aliases = keep(f.aliases);
    family_.hf_model_types = keep(f.hf_model_types);
    family_.hf_architectures = keep(f.hf_architectures);
    family_.hf_prefixes = keep(f.hf_prefixes);
    family_.exports_as = to_str(f.exports_as);
  }

  void add_blocks() {
    for (const Block<Config>& block : model_.blocks()) contexts_.push_back({this, block});
    for (BuildContext& context : contexts_) {
      lamina_block_t out{};
      out.size = sizeof out;
      out.id = context.block.id;
      out.name = to_str(context.block.name);
      out.user = &context;
      out.build = &build;
      blocks_.push_back(out);
    }
    family_.blocks = to_span(blocks_);
  }

  void add_weights() {
    for (const Weight& weight : model_.weights()) {
      auto& transforms = transforms_.emplace_back();
      for (const Transform& t : weight.transforms)
        transforms.push_back(
            {sizeof(lamina_transform_t), t.kind, t.number, t.dim, t.index, t.count});
      lamina_hf_tensor_t out{};
      out.size = sizeof out;
      out.block = weight.block;
      out.flags = weight.flags;
      out.param = to_str(weight.name);
      out.hf = to_str(weight.hf);
      out.transforms = to_span(transforms);
      weights_.push_back(out);
    }
    family_.hf_tensors = to_span(weights_);
  }

  const Model<Config>& model_;
  Schema<Config> schema_;
  lamina_family_t family_{};
  std::vector<lamina_block_t> blocks_;
  std::vector<lamina_hf_tensor_t> weights_;
  std::deque<BuildContext> contexts_;
  std::deque<std::vector<lamina_str_t>> strs_;
  std::deque<std::vector<lamina_transform_t>> transforms_;
};

}  // namespace lamina::sdk
#pragma GCC visibility pop
