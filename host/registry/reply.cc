#include "registry/reply.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "lamina/ext/mtp.h"
#include "registry/abi_ops.h"
#include "registry/extensions.h"
#include "registry/plugin_call.h"

namespace lamina::registry {
namespace {

constexpr std::string_view kFunctionNames[] = {"derive", "validate", "plan", "options"};
constexpr std::size_t kMaxCarries = 64;
constexpr std::int64_t kMaxDepth = 64;
constexpr std::size_t kMaxItems = 4096;  // per reply: settings, problems or segments

template <typename List, typename Item>
void add(List& list, Item item, std::string_view what) {
  if (list.size() == kMaxItems) abi::refuse("it has more than {} {}", kMaxItems, what);
  list.push_back(std::move(item));
}

double not_negative(double value, std::string_view what) {
  if (!std::isfinite(value) || value < 0)
    abi::refuse("{} must be finite and not negative, got {}", what, value);
  return value;
}

NormSpec read_norm(const lamina_norm_t* from) {
  NormSpec out;
  if (from == nullptr) return out;
  const lamina_norm_t norm = abi::copy(from, "lamina_norm_t");
  abi::check_flags(norm.flags, LAMINA_NORM_BIAS | LAMINA_NORM_NO_WEIGHT, "the norm");
  out.op = &abi::op(norm.op, norm.revision);
  const auto& inputs = out.op->inputs;
  if (inputs.size() < 2 || inputs.size() > 3 || inputs[0].name != "x" ||
      !(inputs[1].name == "w" && inputs[1].optional) ||
      (inputs.size() == 3 && inputs[2].name != "bias"))
    abi::refuse(
        "op '{}' cannot be the final norm; expected a norm that takes (x, w?) or (x, w?, bias?)",
        out.op->name);
  out.weight = !(norm.flags & LAMINA_NORM_NO_WEIGHT);
  out.bias = norm.flags & LAMINA_NORM_BIAS;
  if (out.bias && inputs.size() < 3) abi::refuse("op '{}' takes no bias", out.op->name);
  out.attrs = abi::attrs(*out.op, norm.attrs);
  return out;
}

class Reply : public lamina_reply {
 public:
  Reply(const Family& family, ConfigFunction function);

  ReplyResult result;
  struct Failure {
    lamina_status_t status;
    std::string message;
    abi::Where where;
  };
  std::optional<Failure> failure;  // the first failure

  static lamina_status_t set(lamina_reply_t* reply, const lamina_setting_t* setting) {
    return guarded(reply, ConfigFunction::derive, "set", [&](Reply& self) {
      if (setting == nullptr) abi::refuse("set: the setting is missing");
      add(self.result.settings, self.read_setting(*setting), "settings");
    });
  }

  static lamina_status_t problem(lamina_reply_t* reply, lamina_str_t key, lamina_str_t message,
                                 const lamina_where_t*) {
    return guarded(reply, ConfigFunction::validate, "problem", [&](Reply& self) {
      add(self.result.problems,
          ErrorText{abi::text(key, "a config key"), abi::text(message, "a message"), {}},
          "problems");
    });
  }

  static lamina_status_t segment(lamina_reply_t* reply, const lamina_segment_t* segment) {
    return guarded(reply, ConfigFunction::plan, "segment", [&](Reply& self) {
      add(self.result.plan.segments, self.read_segment(segment), "segments");
    });
  }

  static lamina_status_t embed(lamina_reply_t* reply, const lamina_embed_t* embed) {
    return guarded(reply, ConfigFunction::options, "embed", [&](Reply& self) {
      if (self.result.embed) abi::refuse("embed is given twice");
      self.result.embed = self.read_embed(embed);
    });
  }

  static lamina_status_t head(lamina_reply_t* reply, const lamina_head_t* head) {
    return guarded(reply, ConfigFunction::options, "head", [&](Reply& self) {
      if (self.result.head) abi::refuse("head is given twice");
      self.result.head = self.read_head(head);
    });
  }

  static lamina_status_t predict(lamina_reply_t* reply, const lamina_mtp_t* mtp) {
    return guarded(reply, ConfigFunction::options, "predict", [&](Reply& self) {
      if (self.result.mtp) abi::refuse("multi-token prediction is given twice");
      self.result.mtp = self.read_mtp(mtp);
    });
  }

  static lamina_status_t read_from(lamina_reply_t* reply, std::uint32_t position,
                                   std::uint32_t donor) {
    return share(reply, "read_from", position, donor, &PositionSpec::kv_donor, "reads");
  }

  static lamina_status_t params_of(lamina_reply_t* reply, std::uint32_t position,
                                   std::uint32_t owner) {
    return share(reply, "params_of", position, owner, &PositionSpec::params_of,
                 "uses the parameters of");
  }

  static lamina_status_t export_as(lamina_reply_t* reply, lamina_str_t family) {
    return guarded(reply, ConfigFunction::options, "as", [&](Reply& self) {
      if (!self.result.exports_as.empty()) abi::refuse("the family of exports is given twice");
      self.result.exports_as = abi::name(family, "the family of exports");
    });
  }

  static void fail(lamina_reply_t* reply, lamina_status_t status, lamina_str_t message,
                   const lamina_where_t* at) {
    if (reply == nullptr) return;
    auto& self = *static_cast<Reply*>(reply);
    if (self.failure) return;
    try {
      self.failure = {status, abi::text(message, "a message"), abi::where(at)};
    } catch (const std::bad_alloc&) {
      self.failure = {LAMINA_ERROR_MEMORY, "", {}};
    } catch (const std::exception& unreadable) {
      self.failure = {status, unreadable.what(), {}};
    }
  }

 private:
  // Something that a position of the last segment shares with an earlier layer.
  static lamina_status_t share(lamina_reply_t* reply, std::string_view name, std::uint32_t position,
                               std::uint32_t layer,
                               std::optional<std::int64_t> PositionSpec::*shared,
                               std::string_view relation) {
    return guarded(reply, ConfigFunction::plan, name, [&](Reply& self) {
      auto& segments = self.result.plan.segments;
      if (segments.empty()) abi::refuse("{}: no segment was given before", name);
      std::vector<PositionSpec>& unit = segments.back().unit;
      if (position >= unit.size())
        abi::refuse("{}: position {} does not exist; the segment has {} positions", name, position,
                    unit.size());
      if (unit[position].*shared)
        abi::refuse("{}: position {} already {} layer {}", name, position, relation,
                    *(unit[position].*shared));
      unit[position].*shared = layer;
    });
  }

  template <typename Body>
  static lamina_status_t guarded(lamina_reply_t* reply, ConfigFunction belongs_to,
                                 std::string_view name, Body&& body) {
    if (reply == nullptr) return LAMINA_ERROR_ARGUMENT;
    auto& self = *static_cast<Reply*>(reply);
    if (self.failure) return self.failure->status;
    try {
      if (self.function_ != belongs_to)
        abi::refuse("'{}' is called in '{}', but belongs to '{}'", name,
                    kFunctionNames[static_cast<int>(self.function_)],
                    kFunctionNames[static_cast<int>(belongs_to)]);
      body(self);
      return LAMINA_OK;
    } catch (const std::bad_alloc&) {
      self.failure = {LAMINA_ERROR_MEMORY, "", {}};
    } catch (const abi::ContractError& error) {
      self.failure = {error.status(), error.what(), {}};
    } catch (const std::exception& error) {
      self.failure = {LAMINA_ERROR_INTERNAL, error.what(), {}};
    }
    return self.failure->status;
  }

  Setting read_setting(const lamina_setting_t& from) const {
    Setting out{abi::text(from.name, "a setting's name"), config::Value(false)};
    const ModelKey* key = family_.find_own_key(out.key);
    if (key == nullptr)
      abi::refuse("sets the key '{}', which the family does not declare", out.key);
    auto value = abi::value(from.value, fmt::format("the value of '{}'", out.key));
    if (!value || !abi::has_kind(*value, key->kind))
      abi::refuse("sets '{}' to {}; expected {}", out.key, abi::kind_name(from.value.type),
                  abi::kind_name(key->kind));
    out.value = abi::in_kind(std::move(*value), key->kind);
    return out;
  }

  // Values set by a position have the same restrictions as the config's.
  Setting read_override(const lamina_setting_t& from) const {
    Setting out = read_setting(from);
    const auto accepted =
        config::check_value(family_.find_own_key(out.key)->key, out.key, out.value, "");
    if (const auto* refused = std::get_if<ErrorText>(&accepted))
      abi::refuse("overrides a key with an invalid value: {}", refused->what);
    if (const std::int64_t* number = beyond_limits(out.value))
      abi::refuse("overrides '{}' with {}; expected an integer between -2^31 and 2^31", out.key,
                  *number);
    return out;
  }

  void check_block(std::uint32_t id, std::string_view what) const {
    if (std::none_of(family_.blocks().begin(), family_.blocks().end(),
                     [&](const Block& block) { return block.id == id; }))
      abi::refuse("{} is block {}, which the family does not declare", what, id);
  }

  SegmentSpec read_segment(const lamina_segment_t* from) const {
    const lamina_segment_t segment = abi::copy(from, "lamina_segment_t");
    abi::check_flags(segment.flags, LAMINA_SEGMENT_UNROLL, "a segment");
    SegmentSpec out{.name = abi::text(segment.name, "a segment's name"),
                    .times = segment.times,
                    .unroll = (segment.flags & LAMINA_SEGMENT_UNROLL) != 0};
    const std::string shown = out.name.empty() ? "a segment" : "segment '" + out.name + "'";
    if (segment.times == 0) abi::refuse("{} is repeated 0 times; remove it", shown);
    for (const auto& position : abi::copies<lamina_position_t>(segment.unit, "lamina_position_t")) {
      abi::check_flags(position.flags, 0, "a position");
      PositionSpec at{.block = position.block};
      check_block(at.block, "a position");
      for (const auto& setting : abi::plain<lamina_setting_t>(position.overrides, "overrides"))
        at.overrides.push_back(read_override(setting));
      out.unit.push_back(std::move(at));
    }
    if (out.unit.empty()) abi::refuse("{} has an empty unit", shown);
    if (out.times > kMaxLayers || out.num_layers() > kMaxLayers)
      abi::refuse("{} has {} layers; the maximum is {}", shown, out.num_layers(), kMaxLayers);
    return out;
  }

  EmbedSpec read_embed(const lamina_embed_t* from) const {
    const lamina_embed_t embed = abi::copy(from, "lamina_embed_t");
    abi::check_flags(embed.flags, 0, "the embedding");
    EmbedSpec out;
    if (embed.scale != 0) out.scale = not_negative(embed.scale, "embed.scale");
    if (embed.positions > LAMINA_POSITIONS_SINUSOIDAL)
      abi::refuse("embed.positions is {}; expected 0, 1 or 2", embed.positions);
    out.positions = static_cast<Positions>(embed.positions);
    out.max_positions = embed.max_positions;
    if (out.positions == Positions::learned && out.max_positions < 1)
      abi::refuse("embed.max_positions is {}; learned positions require at least 1",
                  out.max_positions);
    out.dropout = not_negative(embed.dropout, "embed.dropout");
    if (static_cast<float>(out.dropout) >= 1)
      abi::refuse("embed.dropout is {}; it must be below 1 in float32", out.dropout);
    if (embed.init_std != 0) out.init_std = not_negative(embed.init_std, "embed.init_std");
    out.positions_init_std = embed.positions_init_std != 0
                                 ? not_negative(embed.positions_init_std, "positions_init_std")
                                 : out.init_std;
    out.entry = embed.entry;
    if (out.entry) check_block(out.entry, "embed.entry");
    out.num_carries = std::max<std::size_t>(embed.n_carry, 1);
    out.num_per_layer = embed.n_per_layer;
    if (!out.entry && (out.num_carries > 1 || out.num_per_layer > 0))
      abi::refuse(
          "embed has {} carries and {} tensors per layer, but no entry block that produces "
          "them",
          out.num_carries, out.num_per_layer);
    if (out.num_carries > kMaxCarries || out.num_per_layer > kMaxCarries)
      abi::refuse("embed has {} carries and {} tensors per layer; the maximum is {}",
                  out.num_carries, out.num_per_layer, kMaxCarries);
    return out;
  }

  HeadSpec read_head(const lamina_head_t* from) const {
    const lamina_head_t head = abi::copy(from, "lamina_head_t");
    abi::check_flags(
        head.flags,
        LAMINA_HEAD_TIED | LAMINA_HEAD_NO_LOSS | LAMINA_HEAD_BIAS | LAMINA_HEAD_BIDIRECTIONAL,
        "the head");
    HeadSpec out;
    out.tied = head.flags & LAMINA_HEAD_TIED;
    out.no_loss = head.flags & LAMINA_HEAD_NO_LOSS;
    out.bias = head.flags & LAMINA_HEAD_BIAS;
    out.bidirectional = head.flags & LAMINA_HEAD_BIDIRECTIONAL;
    if (head.logit_scale != 0) out.logit_scale = not_negative(head.logit_scale, "head.logit_scale");
    out.soft_cap = not_negative(head.soft_cap, "head.soft_cap");
    if (head.init_std != 0) out.init_std = not_negative(head.init_std, "head.init_std");
    out.norm = read_norm(head.norm);
    out.exit = head.exit;
    if (out.exit) check_block(out.exit, "head.exit");
    return out;
  }

  MtpSpec read_mtp(const lamina_mtp_t* from) const {
    const lamina_mtp_t mtp = abi::copy(from, "lamina_mtp_t");
    abi::check_flags(mtp.flags,
                     LAMINA_MTP_NORMED_HIDDEN | LAMINA_MTP_SHIFTED_POSITIONS |
                         LAMINA_MTP_FINAL_NORM | LAMINA_MTP_CHAINED | LAMINA_MTP_CARRIES,
                     "multi-token prediction");
    MtpSpec out{.block = mtp.block, .depth = mtp.depth};
    if (out.depth < 1 || out.depth > kMaxDepth)
      abi::refuse("mtp.depth is {}; expected 1 to {}", out.depth, kMaxDepth);
    check_block(out.block, "mtp");
    for (const auto& setting : abi::plain<lamina_setting_t>(mtp.overrides, "overrides"))
      out.overrides.push_back(read_override(setting));
    out.normed_hidden = mtp.flags & LAMINA_MTP_NORMED_HIDDEN;
    out.shifted_positions = mtp.flags & LAMINA_MTP_SHIFTED_POSITIONS;
    out.final_norm = mtp.flags & LAMINA_MTP_FINAL_NORM;
    out.chained = mtp.flags & LAMINA_MTP_CHAINED;
    out.carries = mtp.flags & LAMINA_MTP_CARRIES;
    if (out.carries && out.normed_hidden)
      abi::refuse(
          "mtp.flags has both LAMINA_MTP_CARRIES and LAMINA_MTP_NORMED_HIDDEN; the final norm "
          "applies to the output of the exit block");
    out.weight_key = abi::text(mtp.weight_key, "mtp.weight_key");
    if (!out.weight_key.empty()) {
      const ModelKey* key = family_.find_own_key(out.weight_key);
      if (key == nullptr ||
          !(key->kind == LAMINA_KIND_FLOAT || key->kind == LAMINA_KIND_FLOAT_LIST))
        abi::refuse("mtp.weight_key is '{}'; expected a declared key of numbers", out.weight_key);
    }
    return out;
  }

  const Family& family_;
  ConfigFunction function_;
};

constexpr lamina_reply_api_t kReplyApi = {.size = sizeof(lamina_reply_api_t),
                                          .abi_minor = LAMINA_ABI_MINOR,
                                          .set = Reply::set,
                                          .problem = Reply::problem,
                                          .segment = Reply::segment,
                                          .embed = Reply::embed,
                                          .head = Reply::head,
                                          .fail = Reply::fail};

Reply::Reply(const Family& family, ConfigFunction function)
    : lamina_reply{&kReplyApi}, family_(family), function_(function) {}

}  // namespace

lamina_status_t ExtensionCalls::predict(lamina_reply_t* reply, const lamina_mtp_t* mtp) {
  return Reply::predict(reply, mtp);
}
lamina_status_t ExtensionCalls::read_from(lamina_reply_t* reply, std::uint32_t position,
                                          std::uint32_t donor) {
  return Reply::read_from(reply, position, donor);
}
lamina_status_t ExtensionCalls::params_of(lamina_reply_t* reply, std::uint32_t position,
                                          std::uint32_t owner) {
  return Reply::params_of(reply, position, owner);
}
lamina_status_t ExtensionCalls::export_as(lamina_reply_t* reply, lamina_str_t family) {
  return Reply::export_as(reply, family);
}

ReplyResult call_config_function(const Family& family, ConfigFunction function,
                                 lamina_status_t (*pointer)(void*, const lamina_config_t*,
                                                            lamina_reply_t*),
                                 void* user, const ModelConfig& config) {
  const std::string_view name = kFunctionNames[static_cast<int>(function)];
  const ConfigView view(config);
  Reply reply(family, function);
  const PluginIdentity& plugin = family.plugin();
  const std::string origin =
      fmt::format("plugin '{}' {}, family '{}'", plugin.id, plugin.version, family.name());
  const auto fail = [&](std::string what, std::vector<std::string> notes = {}) {
    notes.push_back(plugin.path);
    throw PluginError({origin, std::move(what), std::move(notes)});
  };
  lamina_status_t status = LAMINA_OK;
  std::string change;
  try {
    const PluginCall call(plugin, family.name(), fmt::format("function '{}'", name));
    status = pointer(user, view.handle(), &reply);
    change = call.change();
  } catch (const std::bad_alloc&) {
    throw;  // not the plugin's fault
  } catch (const std::exception& thrown) {
    fail(fmt::format("its '{}' threw an exception ({}); exceptions must not leave a plugin", name,
                     thrown.what()));
  } catch (...) {
    fail(fmt::format("its '{}' threw an exception; exceptions must not leave a plugin", name));
  }
  if (status == LAMINA_ERROR_MEMORY ||
      (reply.failure && reply.failure->status == LAMINA_ERROR_MEMORY))
    throw std::bad_alloc();
  if (!change.empty())
    fail(fmt::format("its '{}' {}", name, change), {std::string(kLeaveTheProcess)});
  if (!view.unknown_key().empty())
    fail(fmt::format("its '{}' reads the key '{}', which the family does not declare", name,
                     view.unknown_key()));
  if (reply.failure) {
    const auto& [code, message, where] = *reply.failure;
    std::vector<std::string> notes;
    if (!where.file.empty()) notes.push_back(fmt::format("{}:{}", where.file, where.line));
    if (code == LAMINA_ERROR_CONFIG) {
      notes.push_back("reported by " + origin);
      throw UserError(ExitCode::usage, {config.where(), message, std::move(notes)});
    }
    fail(fmt::format("{}: {}", name, message), std::move(notes));
  }
  if (status != LAMINA_OK)
    fail(fmt::format("its '{}' failed with status {} ({}) and no message", name, status,
                     abi::status_name(status)));
  return std::move(reply.result);
}

}  // namespace lamina::registry
