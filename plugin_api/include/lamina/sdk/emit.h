// Emits ops, with attribute names and the kinds of their values checked against ops.def at compile
// time.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/sdk/op_rows.h"
#include "lamina/sdk/target.h"
#include "lamina/sdk/tensor.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// The name of an attribute of `op`. A name that is not in ops.def, or has another kind there, does
// not compile.
template <Op op, std::uint32_t kind>
struct AttrName {
  AttrRow row;
  std::int64_t integer = 0;  // the default, if there is one
  double number = 0;

  consteval AttrName(const char* name) : row(find_attr(row_of(op).attributes, name)) {
    if (row.key == 0) does_not_compile("ops.def has no such attribute");
    if (row.kind != kind) does_not_compile("the attribute has another kind in ops.def");
    if (row.has_fallback && kind == LAMINA_KIND_INT) integer = parse_integer(row.fallback);
    if (row.has_fallback && kind == LAMINA_KIND_FLOAT) number = parse_number(row.fallback);
  }
};

inline lamina_value_t to_value(std::int64_t value) {
  lamina_value_t out{};
  out.type = LAMINA_KIND_INT;
  out.v.i = value;
  return out;
}
inline lamina_value_t to_value(double value) {
  lamina_value_t out{};
  out.type = LAMINA_KIND_FLOAT;
  out.v.f = value;
  return out;
}
inline lamina_value_t to_value(bool value) {
  lamina_value_t out{};
  out.type = LAMINA_KIND_BOOL;
  out.v.i = value ? 1 : 0;
  return out;
}
inline lamina_value_t to_value(std::string_view value) {
  lamina_value_t out{};
  out.type = LAMINA_KIND_STRING;
  out.v.s = to_str(value);
  return out;
}
inline lamina_value_t to_value(std::span<const std::int64_t> values) {
  lamina_value_t out{};
  out.type = LAMINA_KIND_INT_LIST;
  out.v.list = to_span(values);
  return out;
}
inline lamina_value_t to_value(std::span<const double> values) {
  lamina_value_t out{};
  out.type = LAMINA_KIND_FLOAT_LIST;
  out.v.list = to_span(values);
  return out;
}

// Refuses `what`, which came with minor `since`, because LAMINA_TARGET_MINOR is older.
[[noreturn]] inline void refuse_younger(const std::string& what, std::uint32_t since, At at) {
  const std::string major = std::to_string(LAMINA_ABI_MAJOR) + ".";
  raise(Error(LAMINA_ERROR_UNSUPPORTED,
              what + " needs plugin ABI " + major + std::to_string(since) +
                  ", but this plugin supports hosts from " + major +
                  std::to_string(LAMINA_TARGET_MINOR) + "; set TARGET_MINOR " +
                  std::to_string(since) + " in lamina_add_plugin",
              at));
}

// Collects attributes by rising key and leaves out those with their default, so that a host older
// than an attribute need not know it. Strings and lists are borrowed.
class AttrList {
 public:
  const std::vector<lamina_attr_t>& list() const { return list_; }

  void add(const AttrRow& row, lamina_value_t value, bool is_default) {
    if (!is_default) list_.push_back({row.key, row.since, value});
  }
  // For attributes that only some configs need: the caller asks the host instead of the target.
  void checked_by_caller() { checked_ = true; }
  void check_target(std::string_view op, At at) const {
    if (checked_) return;
    for (const lamina_attr_t& attr : list_)
      if (attr.since > LAMINA_TARGET_MINOR)
        refuse_younger("attribute " + std::to_string(attr.key) + " of op '" + std::string(op) + "'",
                       attr.since, at);
  }

 private:
  std::vector<lamina_attr_t> list_;
  bool checked_ = false;
};

// The attributes of one op.
template <Op op>
class Attrs : public AttrList {
 public:
  Attrs& integer(AttrName<op, LAMINA_KIND_INT> name, std::int64_t value) {
    return with(name.row, to_value(value), name.row.has_fallback && value == name.integer);
  }
  Attrs& flag(AttrName<op, LAMINA_KIND_INT> name, bool value) {
    return integer(name, std::int64_t{value});
  }
  Attrs& number(AttrName<op, LAMINA_KIND_FLOAT> name, double value) {
    // A default of 0 is not -0.
    const bool is_default = name.row.has_fallback && value == name.number &&
                            std::signbit(value) == std::signbit(name.number);
    return with(name.row, to_value(value), is_default);
  }
  Attrs& text(AttrName<op, LAMINA_KIND_STRING> name, std::string_view value) {
    return with(name.row, to_value(value), name.row.has_fallback && value == name.row.fallback);
  }
  Attrs& integers(AttrName<op, LAMINA_KIND_INT_LIST> name, std::span<const std::int64_t> values) {
    return with(name.row, to_value(values), values.empty());
  }
  Attrs& numbers(AttrName<op, LAMINA_KIND_FLOAT_LIST> name, std::span<const double> values) {
    return with(name.row, to_value(values), values.empty());
  }

 private:
  Attrs& with(const AttrRow& row, lamina_value_t value, bool is_default) {
    add(row, value, is_default);
    return *this;
  }
};

// Adds an op and writes its outputs to `out`, one per word of the row; outputs that the target does
// not know are empty. The trace comes from the state or the first input that is not empty; an op
// with neither needs a State without a handle. One function for all ops keeps plugins small and
// fast to compile. [trace]
inline void emit_row(const OpRow& row, std::span<const Tensor> inputs, const AttrList& attrs,
                     State state, At at, std::span<Tensor> out) {
  lamina_build_t* build = state.build;
  std::vector<lamina_tensor_t> handles;
  for (const Tensor& input : inputs) {
    if (!build) build = input.build;
    handles.push_back(input.handle);
  }
  if (!build)
    raise(Error(LAMINA_ERROR_ARGUMENT, std::string(row.name) + ": all its inputs are empty tensors",
                at));
  if (row.since > LAMINA_TARGET_MINOR)
    refuse_younger("op '" + std::string(row.name) + "'", row.since, at);
  attrs.check_target(row.name, at);
  while (!handles.empty() && handles.back() == 0) handles.pop_back();
  if (!row.inputs.ends_with('*') && handles.size() > count_words(row.inputs, LAMINA_TARGET_MINOR))
    refuse_younger(
        "input " + std::to_string(handles.size()) + " of op '" + std::string(row.name) + "'",
        since_of(word_at(row.inputs, handles.size() - 1)), at);
  std::vector<lamina_tensor_t> results(out.size());
  const lamina_where_t where = to_where(at);
  lamina_emit_t desc{};
  desc.size = sizeof desc;
  desc.op = row.id;
  desc.revision = row.revision;
  desc.inputs = to_span(handles);
  desc.attrs = to_span(attrs.list());
  desc.state = state.handle;
  desc.outputs = results.data();
  desc.n_outputs = count_words(row.outputs, LAMINA_TARGET_MINOR);
  check(build->api->emit(build, &desc, &where));
  for (std::size_t i = 0; i < desc.n_outputs; ++i) out[i] = {build, results[i]};
}

// Adds the op and returns its outputs; see emit_row().
template <Op op, std::size_t outputs = count_words(row_of(op).outputs)>
std::array<Tensor, outputs> emit_all(std::span<const Tensor> inputs, const Attrs<op>& attrs,
                                     State state, At at) {
  std::array<Tensor, outputs> out;
  emit_row(row_of(op), inputs, attrs, state, at, out);
  return out;
}

// Adds the op and returns its first output. [trace]
template <Op op>
Tensor emit(std::initializer_list<Tensor> inputs, const Attrs<op>& attrs, At at) {
  return emit_all<op>({inputs.begin(), inputs.size()}, attrs, State{}, at).front();
}
template <Op op>
Tensor emit(std::initializer_list<Tensor> inputs, At at) {
  return emit<op>(inputs, Attrs<op>{}, at);
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
