#include "plugin_api/recorder.h"

#include <string_view>

#include "lamina/ext/auxiliary.h"
#include "lamina/ext/export.h"

namespace lamina::testing {
namespace {

template <class T>
std::vector<T> copy_list(lamina_span_t span) {
  std::vector<T> out;
  for (std::uint32_t i = 0; i < span.count; ++i)
    out.push_back(*reinterpret_cast<const T*>(static_cast<const char*>(span.ptr) +
                                              std::size_t{i} * span.stride));
  return out;
}

std::vector<std::string> copy_strings(lamina_span_t span) {
  std::vector<std::string> out;
  for (const lamina_str_t& text : copy_list<lamina_str_t>(span)) out.push_back(copy(text));
  return out;
}

RecordingBuild& self(lamina_build_t* build) { return *static_cast<RecordingBuild*>(build); }

// Ids of ops whose result does not have the shape of the first input.
enum Shaped : std::uint32_t { kReshape = 40, kSlice = 42, kLinear = 60 };

std::vector<std::int64_t> result_shape(const RecordingBuild& build, const Emission& e) {
  std::vector<std::int64_t> shape;
  if (!e.inputs.empty() && e.inputs[0]) shape = build.shapes[e.inputs[0] - 1];
  // Attributes with their default are not sent.
  const auto integer = [&](std::uint32_t key) {
    return e.attrs.contains(key) ? std::get<std::int64_t>(e.attrs.at(key)) : 0;
  };
  if (e.op == kReshape) shape = std::get<std::vector<std::int64_t>>(e.attrs.at(1));
  if (e.op == kSlice) {
    const std::int64_t dim = integer(1), count = std::ssize(shape);
    shape.at(static_cast<std::size_t>(dim < 0 ? dim + count : dim)) = integer(3);
  }
  if (e.op == kLinear) shape.back() = build.shapes[e.inputs[1] - 1][0];
  return shape;
}

lamina_status_t emit(lamina_build_t* build, const lamina_emit_t* emit, const lamina_where_t* at) {
  RecordingBuild& b = self(build);
  if (b.refuse_emissions) return LAMINA_ERROR_SHAPE;
  Emission e;
  e.op = emit->op;
  e.revision = emit->revision;
  e.inputs = copy_list<lamina_tensor_t>(emit->inputs);
  for (const lamina_attr_t& attr : copy_list<lamina_attr_t>(emit->attrs))
    e.attrs[attr.key] = copy_value(attr.value);
  e.state = emit->state;
  e.outputs = emit->n_outputs;
  for (const std::string& scope : b.scopes) e.scope += scope;
  e.file = copy(at->file);
  e.line = at->line;
  const std::vector<std::int64_t> shape = result_shape(b, e);
  for (std::uint32_t i = 0; i < emit->n_outputs; ++i) emit->outputs[i] = b.add_tensor(shape);
  b.emissions.push_back(e);
  return LAMINA_OK;
}

lamina_status_t param(lamina_build_t* build, const lamina_param_t* param, const lamina_where_t*,
                      lamina_tensor_t* out) {
  RecordingBuild& b = self(build);
  Parameter p{copy(param->name),
              copy_list<std::int64_t>(param->dims),
              copy_strings(param->axes),
              param->role,
              param->init,
              param->init_a};
  *out = b.add_tensor(p.dims);
  b.params.push_back(std::move(p));
  return LAMINA_OK;
}

lamina_status_t state(lamina_build_t* build, const lamina_state_desc_t* state,
                      const lamina_where_t*, lamina_state_t* out) {
  RecordingBuild& b = self(build);
  b.states.push_back(
      {copy(state->name), state->kind, copy_list<std::int64_t>(state->dims), state->window});
  *out = b.states.size();
  return LAMINA_OK;
}

lamina_status_t input(lamina_build_t* build, std::uint32_t kind, const lamina_where_t*,
                      lamina_tensor_t* out) {
  self(build).inputs.push_back(kind);
  *out =
      self(build).add_tensor(kind == LAMINA_INPUT_LAYER_INDEX ? std::vector<std::int64_t>{}
                                                              : std::vector<std::int64_t>{-1, -2});
  return LAMINA_OK;
}

lamina_status_t layer_constant(lamina_build_t* build, lamina_str_t, lamina_span_t,
                               const lamina_where_t*, lamina_tensor_t* out) {
  *out = self(build).add_tensor({});
  return LAMINA_OK;
}

lamina_status_t type(lamina_build_t* build, lamina_tensor_t tensor, const lamina_where_t*,
                     lamina_type_t* out) {
  const std::vector<std::int64_t>& shape = self(build).shapes.at(tensor - 1);
  out->ndim = static_cast<std::uint32_t>(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) out->dims[i] = shape[i];
  return LAMINA_OK;
}

lamina_status_t scope(lamina_build_t* build, lamina_str_t name, std::uint32_t push) {
  if (push)
    self(build).scopes.push_back(copy(name));
  else
    self(build).scopes.pop_back();
  return LAMINA_OK;
}

lamina_status_t tag(lamina_build_t* build, lamina_tensor_t tensor, lamina_str_t name,
                    const lamina_where_t*, lamina_tensor_t* out) {
  self(build).tags.push_back(copy(name));
  *out = self(build).add_tensor(self(build).shapes.at(tensor - 1));
  return LAMINA_OK;
}

lamina_status_t axes(lamina_build_t*, lamina_tensor_t tensor, lamina_span_t, const lamina_where_t*,
                     lamina_tensor_t* out) {
  *out = tensor;
  return LAMINA_OK;
}

void fail_build(lamina_build_t* build, lamina_status_t status, lamina_str_t message,
                const lamina_where_t* at) {
  self(build).failure = status;
  self(build).message = copy(message);
  if (at) self(build).failed_file = copy(at->file);
}

constexpr lamina_build_api_t kBuildApi = {
    sizeof(lamina_build_api_t),
    LAMINA_ABI_MINOR,
    emit,
    param,
    state,
    input,
    layer_constant,
    type,
    scope,
    tag,
    axes,
    fail_build,
};

// Writes the stored value to `out`; lists and strings stay owned by the config.
lamina_status_t get(const lamina_config_t* config, lamina_str_t key, lamina_value_t* out) {
  const auto& values = static_cast<const RecordingConfig*>(config)->values;
  const auto found = values.find(copy(key));
  if (found == values.end()) return LAMINA_ERROR_NOT_FOUND;
  *out = {};
  const Value& value = found->second;
  if (const auto* i = std::get_if<std::int64_t>(&value)) {
    out->type = LAMINA_KIND_INT;
    out->v.i = *i;
  } else if (const auto* f = std::get_if<double>(&value)) {
    out->type = LAMINA_KIND_FLOAT;
    out->v.f = *f;
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    out->type = LAMINA_KIND_BOOL;
    out->v.i = *flag;
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    out->type = LAMINA_KIND_STRING;
    out->v.s = {text->data(), text->size()};
  } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
    out->type = LAMINA_KIND_INT_LIST;
    out->v.list = {list->data(), static_cast<std::uint32_t>(list->size()), sizeof(std::int64_t)};
  }
  return LAMINA_OK;
}

constexpr lamina_config_api_t kConfigApi = {sizeof(lamina_config_api_t), LAMINA_ABI_MINOR, get};

RecordingReply& self(lamina_reply_t* reply) { return *static_cast<RecordingReply*>(reply); }

lamina_status_t segment(lamina_reply_t* reply, const lamina_segment_t* segment) {
  RecordedSegment out{copy(segment->name), {}, segment->times};
  for (const lamina_position_t& position : copy_list<lamina_position_t>(segment->unit)) {
    RecordedPosition& p = out.unit.emplace_back();
    p.block = position.block;
    for (const lamina_setting_t& o : copy_list<lamina_setting_t>(position.overrides))
      p.overrides[copy(o.name)] = copy_value(o.value);
  }
  self(reply).segments.push_back(out);
  return LAMINA_OK;
}

constexpr lamina_reply_api_t kReplyApi = {
    sizeof(lamina_reply_api_t),
    LAMINA_ABI_MINOR,
    [](lamina_reply_t* reply, const lamina_setting_t* setting) {
      self(reply).derived[copy(setting->name)] = copy_value(setting->value);
      return LAMINA_OK;
    },
    [](lamina_reply_t* reply, lamina_str_t key, lamina_str_t message, const lamina_where_t*) {
      self(reply).problems.emplace_back(copy(key), copy(message));
      return LAMINA_OK;
    },
    segment,
    [](lamina_reply_t* reply, const lamina_embed_t* embed) {
      self(reply).embed = *embed;
      return LAMINA_OK;
    },
    [](lamina_reply_t* reply, const lamina_head_t* head) {
      self(reply).head = *head;
      if (head->norm == nullptr) return LAMINA_OK;
      self(reply).norm = *head->norm;
      for (const lamina_attr_t& attr : copy_list<lamina_attr_t>(head->norm->attrs))
        self(reply).norm_attrs[attr.key] = copy_value(attr.value);
      return LAMINA_OK;
    },
    [](lamina_reply_t* reply, lamina_status_t status, lamina_str_t message, const lamina_where_t*) {
      self(reply).failure = status;
      self(reply).message = copy(message);
    },
};

}  // namespace

Value copy_value(const lamina_value_t& value) {
  switch (value.type) {
    case LAMINA_KIND_INT:
      return value.v.i;
    case LAMINA_KIND_FLOAT:
      return value.v.f;
    case LAMINA_KIND_BOOL:
      return value.v.i != 0;
    case LAMINA_KIND_STRING:
      return copy(value.v.s);
    case LAMINA_KIND_INT_LIST:
      return copy_list<std::int64_t>(value.v.list);
    case LAMINA_KIND_FLOAT_LIST:
      return copy_list<double>(value.v.list);
    case LAMINA_KIND_STRING_LIST:
      return copy_strings(value.v.list);
    default:
      return std::monostate{};
  }
}

const lamina_host_t& recording_host() {
  static constexpr lamina_auxiliary_api_t kAuxiliary = {
      sizeof(lamina_auxiliary_api_t), 0,
      [](lamina_build_t*, const lamina_auxiliary_t*, const lamina_where_t*) { return LAMINA_OK; },
      [](lamina_build_t*, const lamina_update_t*, const lamina_where_t*) { return LAMINA_OK; }};
  static constexpr lamina_export_api_t kExport = {
      sizeof(lamina_export_api_t), 0, [](lamina_reply_t*, lamina_str_t) { return LAMINA_OK; },
      [](lamina_build_t*, lamina_tensor_t, lamina_str_t, const lamina_where_t*) {
        return LAMINA_OK;
      }};
  static const lamina_host_t kHost = {
      sizeof(lamina_host_t),
      LAMINA_ABI_MINOR,
      {"recorder", 8},
      {"0", 1},
      [](const lamina_host_t*, lamina_str_t id) -> const void* {
        if (copy(id) == LAMINA_EXPORT_ID) return &kExport;
        return copy(id) == LAMINA_AUXILIARY_ID ? &kAuxiliary : nullptr;
      },
      [](const lamina_host_t*, std::int32_t, lamina_str_t, const lamina_where_t*) {},
      [](const lamina_host_t*, std::uint32_t, std::uint32_t, std::uint32_t) {
        return std::uint64_t{1};
      }};
  return kHost;
}

RecordingBuild::RecordingBuild(std::int64_t width) : lamina_build{&kBuildApi} {
  add_tensor({-1, -2, width});
}

lamina_tensor_t RecordingBuild::add_tensor(std::vector<std::int64_t> shape) {
  shapes.push_back(std::move(shape));
  return shapes.size();
}

RecordingConfig::RecordingConfig() : lamina_config{&kConfigApi} {}
RecordingReply::RecordingReply() : lamina_reply{&kReplyApi} {}

RecordingConfig configure(const lamina_family_t& family, std::map<std::string, Value> values) {
  RecordingConfig config;
  const std::vector<lamina_key_t> keys = copy_list<lamina_key_t>(family.keys);
  for (const lamina_key_t& key : keys) {
    if ((key.flags & LAMINA_KEY_IGNORED) && config.values.contains(copy(key.name))) continue;
    const auto given = values.find(copy(key.name));
    config.values[copy(key.name)] =
        given != values.end() ? given->second : copy_value(key.fallback);
  }
  for (const lamina_key_t& key : keys) {
    Value& value = config.values[copy(key.name)];
    if (value.index() == 0 && key.same_as.len) value = config.values[copy(key.same_as)];
  }
  if (family.derive) {
    RecordingReply reply;
    family.derive(family.user, &config, &reply);
    for (const auto& [name, value] : reply.derived)
      if (config.values[name].index() == 0) config.values[name] = value;
  }
  return config;
}

}  // namespace lamina::testing
