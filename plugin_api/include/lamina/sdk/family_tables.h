// Converts a Model to the tables and functions of the C contract.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "lamina/ext/mtp.h"
#include "lamina/sdk/mtp.h"
#include "lamina/sdk/standard_model.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// The C tables of a family. Lives from init() to deinit().
template <class Config>
class FamilyTables {
 public:
  explicit FamilyTables(const Model<Config>& model) : model_(model) {
    model_.keys(schema_);
    // If exports use another family's format, prediction needs a layer of that family.
    const bool has_layer = model_.family.exports_as.empty() || model_.mtp_layer != nullptr;
    predicts_ = !model_.mtp && !schema_.knows(kMtpDepthKey) && has_layer &&
                model_.mtp_inputs != MtpInputs::none;
    if (predicts_) mtp_keys(mtp_schema_, model_.mtp_inputs);
    add_names();
    add_keys();
    add_blocks();
    if (model_.weights) add_weights();
    lamina_family_t& f = family_;
    f.size = sizeof f;
    f.user = this;
    f.derive = &call<&FamilyTables::derive>;
    f.validate = &call<&FamilyTables::validate>;
    f.plan = &call<&FamilyTables::plan>;
    f.options = &call<&FamilyTables::options>;
  }
  FamilyTables(const FamilyTables&) = delete;
  FamilyTables& operator=(const FamilyTables&) = delete;

  const lamina_family_t& family() const { return family_; }

 private:
  // The values of all keys of a config.
  struct Values {
    Config own;
    MtpConfig mtp;
    typename Schema<Config>::Refusals refusals;
  };
  struct BuildContext {
    const FamilyTables* tables;
    Block<Config> block;  // of a prediction layer: without a build
  };

  Values read(const lamina_config_t* config) const {
    return {schema_.read(config), mtp_schema_.read(config), schema_.refusals(config)};
  }
  Embed embed(const Config& c) const { return model_.embed ? model_.embed(c) : Embed{}; }

  void derive(const Values& c, lamina_reply_t* reply) const {
    derive_of(model_, schema_, c.own, Derived(reply, schema_.names()));
  }
  void validate(const Values& c, lamina_reply_t* reply) const {
    const Problems problem(reply, schema_.names());
    for (const auto& refusal : c.refusals.each) problem(refusal.key, refusal.text);
    validate_of(model_, schema_, c.own, problem);
    if (predicts_ && problem.empty() && c.mtp.num_nextn_predict_layers > 0)
      check_mtp(c.mtp, plan_of(model_, c.own), embed(c.own), model_.mtp_layer != nullptr, problem);
  }
  void plan(const Values& c, lamina_reply_t* reply) const {
    const Plan plan = plan_of(model_, c.own);
    for (const Segment& segment : plan)
      for (const Position& position : segment.unit)
        if (predicts_ && position.block == prediction_id())
          raise(Error(LAMINA_ERROR_INTERNAL,
                      "the plan names block " + std::to_string(position.block) +
                          ", which the model does not have",
                      At::current()));
    send(plan, reply);
  }
  void options(const Values& values, lamina_reply_t* reply) const {
    const Config& c = values.own;
    const double init_std = init_std_of(model_, c);
    const Embed e = embed(c);
    lamina_embed_t embed{};
    embed.size = sizeof embed;
    embed.scale = e.scale;
    embed.positions = e.positions;
    embed.max_positions = e.max_positions;
    embed.dropout = e.dropout;
    embed.init_std = e.init_std > 0 ? e.init_std : init_std;
    embed.positions_init_std = e.positions_init_std > 0 ? e.positions_init_std : embed.init_std;
    embed.entry = e.entry;
    embed.n_carry = e.carries;
    embed.n_per_layer = e.per_layer;
    check(reply->api->embed(reply, &embed));

    const Head h = head_of(model_, c);
    lamina_head_t head{};
    head.size = sizeof head;
    head.flags = (h.tied ? LAMINA_HEAD_TIED : 0u) | (h.bias ? LAMINA_HEAD_BIAS : 0u) |
                 (h.no_loss ? LAMINA_HEAD_NO_LOSS : 0u) |
                 (h.bidirectional ? LAMINA_HEAD_BIDIRECTIONAL : 0u);
    head.logit_scale = h.logit_scale;
    head.soft_cap = h.soft_cap;
    head.init_std = h.init_std > 0 ? h.init_std : init_std;
    lamina_norm_t norm{};
    norm.size = sizeof norm;
    norm.op = h.norm.op;
    norm.revision = h.norm.revision;
    norm.flags = h.norm.flags;
    norm.attrs = to_span(h.norm.attrs);
    if (norm.op != 0) head.norm = &norm;
    head.exit = h.exit;
    check(reply->api->head(reply, &head));
    if (const std::string_view other = model_.family.exports_as; !other.empty())
      check(extension<lamina_export_api_t>(LAMINA_EXPORT_ID).as(reply, to_str(other)));
    if (model_.mtp) send_mtp(model_.mtp(c), reply);
    if (values.mtp.num_nextn_predict_layers > 0)
      send_mtp(
          mtp_of(values.mtp, prediction_id(), plan_of(model_, c), e, model_.mtp_layer != nullptr),
          reply);
  }

  static void send_mtp(const Mtp& m, lamina_reply_t* reply) {
    if (m.depth == 0) return;
    if (m.depth < 0)
      raise(Error(LAMINA_ERROR_CONFIG, "multi-token prediction: depth is negative", At::current()));
    if (m.carries && !host_knows_minor(7))
      raise(Error(LAMINA_ERROR_UNSUPPORTED,
                  "multi-token prediction from residual streams needs plugin ABI 0.7; this host is "
                  "older",
                  At::current()));
    std::vector<lamina_setting_t> overrides;
    for (const Override& o : m.overrides) overrides.push_back({to_str(o.key), o.value});
    lamina_mtp_t mtp{};
    mtp.size = sizeof mtp;
    mtp.flags = (m.normed_hidden ? LAMINA_MTP_NORMED_HIDDEN : 0u) |
                (m.shifted_positions ? LAMINA_MTP_SHIFTED_POSITIONS : 0u) |
                (m.final_norm ? LAMINA_MTP_FINAL_NORM : 0u) |
                (m.chained ? LAMINA_MTP_CHAINED : 0u) | (m.carries ? LAMINA_MTP_CARRIES : 0u);
    mtp.block = m.block;
    mtp.depth = static_cast<std::uint32_t>(m.depth);
    mtp.overrides = to_span(overrides);
    mtp.weight_key = to_str(m.weight_key);
    check(extension<lamina_mtp_api_t>(LAMINA_MTP_ID).predict(reply, &mtp));
  }

  template <void (FamilyTables::*function)(const Values&, lamina_reply_t*) const>
  static lamina_status_t call(void* user, const lamina_config_t* config,
                              lamina_reply_t* reply) noexcept {
    const auto* self = static_cast<const FamilyTables*>(user);
    return guarded(reply, [&] { (self->*function)(self->read(config), reply); });
  }

  static lamina_status_t build(void* user, lamina_build_t* build, const lamina_config_t* config,
                               const lamina_io_t* io) noexcept {
    const auto* context = static_cast<const BuildContext*>(user);
    return guarded(build, [&] {
      const FamilyTables& tables = *context->tables;
      const Values c = tables.read(config);
      const Scope s(build, init_std_of(tables.model_, c.own));
      Tensors carries, per_layer;
      for (std::uint32_t i = 0; i < io->n_carry; ++i)
        carries.push_back(tag({build, io->carry_in[i]}, LAMINA_TAG_DECODER_LAYER_INPUT));
      for (std::uint32_t i = 0; i < io->n_per_layer; ++i)
        per_layer.push_back({build, io->per_layer[i]});
      const Step step(s, per_layer);
      const Block<Config>& block = context->block;
      const Tensors out = block.id == tables.prediction_id() ? tables.predict(s, c, carries, step)
                                                             : run(block, s, c.own, carries, step);
      const std::uint32_t wanted = io->n_out > 0 ? io->n_out : io->n_carry;
      if (out.size() != wanted)
        raise(Error(LAMINA_ERROR_ARGUMENT,
                    "block '" + std::string(block.name) + "' must return " +
                        std::to_string(wanted) + " tensors, got " + std::to_string(out.size()),
                    At::current()));
      for (std::size_t i = 0; i < out.size(); ++i) io->carry_out[i] = out[i].handle;
    });
  }

  static Tensors run(const Block<Config>& block, const Scope& s, const Config& c, Tensors carries,
                     const Step& step) {
    if (block.build_all) return block.build_all(s, c, carries, step);
    carries[0] = block.build(s, c, carries[0], step);
    return carries;
  }

  // The id of the prediction block: the first after the family's blocks. 0 = none.
  std::uint32_t prediction_id() const {
    return predicts_ ? static_cast<std::uint32_t>(contexts_.back().block.id) : 0;
  }

  Tensors predict(const Scope& s, const Values& c, const Tensors& carries, const Step& step) const {
    const Head head = head_of(model_, c.own);
    Step own = step;
    own.predicts = true;
    const std::uint32_t layer = model_.mtp_layer ? model_.mtp_layer(c.own)
                                                 : plan_of(model_, c.own).back().unit.back().block;
    const auto run_block = [&](std::uint32_t id, Tensor x) {
      const auto found = std::find_if(contexts_.begin(), contexts_.end(),
                                      [&](const BuildContext& b) { return b.block.id == id; });
      if (found == contexts_.end())
        raise(
            Error(LAMINA_ERROR_INTERNAL,
                  "prediction runs block " + std::to_string(id) + ", which the model does not have",
                  At::current()));
      return run(found->block, s, c.own, {x}, own)[0];
    };
    return predict_next(
        s, c.mtp, head.norm.eps, carries, [&](Tensor x) { return run_block(layer, x); },
        [&](Tensor x) { return run_block(head.exit, x); });
  }

  void add_keys() {
    keys_ = schema_.keys();
    const std::vector<lamina_key_t> more = mtp_schema_.keys();
    keys_.insert(keys_.end(), more.begin(), more.end());
    family_.keys = to_span(keys_);
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
  }

  void add_blocks() {
    std::uint32_t last = 0;
    for (const Block<Config>& block : model_.blocks()) {
      if (!block.build && !block.build_all)
        raise(Error(LAMINA_ERROR_INTERNAL, "block '" + std::string(block.name) + "' has no build"));
      contexts_.push_back({this, block});
      last = std::max(last, block.id);
    }
    if (contexts_.empty())
      raise(Error(LAMINA_ERROR_INTERNAL,
                  "family '" + std::string(model_.family.name) + "' has no block"));
    if (predicts_) contexts_.push_back({this, {.id = last + 1, .name = "prediction"}});
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
    std::vector<Weight> rows = model_.weights();
    if (predicts_) {
      const auto more = prediction_weights(prediction_id(), rows, model_.mtp_names, texts_);
      rows.insert(rows.end(), more.begin(), more.end());
    }
    for (const Weight& weight : rows) {
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
  Schema<MtpConfig> mtp_schema_;  // empty if not predicts_
  bool predicts_ = false;         // has the default prediction layers
  lamina_family_t family_{};
  std::vector<lamina_key_t> keys_;
  std::vector<lamina_block_t> blocks_;
  std::vector<lamina_hf_tensor_t> weights_;
  std::deque<BuildContext> contexts_;
  std::deque<std::string> texts_;
  std::deque<std::vector<lamina_str_t>> strs_;
  std::deque<std::vector<lamina_transform_t>> transforms_;
};

}  // namespace lamina::sdk
#pragma GCC visibility pop
