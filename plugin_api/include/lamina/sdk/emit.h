// One use of an op, checked against ops.def at compile time: the names of attributes, and that
// their values have the right kind.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lamina/sdk/tensor.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

enum class Op : std::uint32_t {
#define LAMINA_OP(id, name, revision, inputs, outputs, attributes, doc) name = id,
#include "lamina/ops.def"
};

// A row of ops.def.
struct OpSpec {
  Op op;
  std::uint32_t revision;
  std::string_view name, inputs, outputs, attributes;
};

inline constexpr OpSpec kOpSpecs[] = {
#define LAMINA_OP(id, name, revision, inputs, outputs, attributes, doc) \
  {Op::name, revision, #name, inputs, outputs, attributes},
#include "lamina/ops.def"
};

constexpr const OpSpec& spec_of(Op op) {
  for (const OpSpec& spec : kOpSpecs)
    if (spec.op == op) return spec;
  throw "no such op";
}

constexpr std::uint32_t count_words(std::string_view text) {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != ' ' && (i == 0 || text[i - 1] == ' ')) ++count;
  return count;
}

// An attribute of `op` by name; a name that ops.def does not have, or has with another kind, does
// not compile.
template <Op op, std::uint32_t kind>
struct AttrName {
  std::uint32_t key = 0;

  static consteval std::uint32_t kind_of(std::string_view letters) {
    return letters == "i" || letters == "b" ? LAMINA_KIND_INT
           : letters == "f"                 ? LAMINA_KIND_FLOAT
           : letters == "s"                 ? LAMINA_KIND_STRING
           : letters == "il"                ? LAMINA_KIND_INT_LIST
                                            : LAMINA_KIND_FLOAT_LIST;
  }

  consteval AttrName(const char* name) {
    const std::string_view attributes = spec_of(op).attributes;
    std::uint32_t position = 0;
    for (std::size_t i = 0; i < attributes.size();) {
      std::size_t end = attributes.find(' ', i);
      if (end == std::string_view::npos) end = attributes.size();
      const std::string_view word = attributes.substr(i, end - i);
      const std::size_t colon = word.find(':');
      ++position;
      if (word.substr(0, colon) == name) {
        const std::string_view rest = word.substr(colon + 1);
        key = position;
        if (kind_of(rest.substr(0, rest.find('='))) != kind) throw "it has another kind in ops.def";
      }
      i = end + 1;
    }
    if (key == 0) throw "ops.def has no such attribute";
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

// Collects attributes by rising key; strings and lists are borrowed.
template <Op op>
class Attrs {
 public:
  Attrs& integer(AttrName<op, LAMINA_KIND_INT> name, std::int64_t value) {
    return add(name.key, to_value(value));
  }
  Attrs& flag(AttrName<op, LAMINA_KIND_INT> name, bool value) {
    return add(name.key, to_value(std::int64_t{value}));
  }
  Attrs& number(AttrName<op, LAMINA_KIND_FLOAT> name, double value) {
    return add(name.key, to_value(value));
  }
  Attrs& text(AttrName<op, LAMINA_KIND_STRING> name, std::string_view value) {
    return add(name.key, to_value(value));
  }
  Attrs& integers(AttrName<op, LAMINA_KIND_INT_LIST> name, std::span<const std::int64_t> values) {
    return add(name.key, to_value(values));
  }
  const std::vector<lamina_attr_t>& list() const { return list_; }

 private:
  Attrs& add(std::uint32_t key, lamina_value_t value) {
    list_.push_back({key, 0, value});
    return *this;
  }
  std::vector<lamina_attr_t> list_;
};

// Adds the op and returns its outputs. The trace is that of the state or of the first input that
// there is; an op with neither is given a State without a handle.
template <Op op, std::size_t outputs = count_words(spec_of(op).outputs)>
std::array<Tensor, outputs> emit_all(std::span<const Tensor> inputs, const Attrs<op>& attrs,
                                     State state, At at) {
  lamina_build_t* build = state.build;
  std::vector<lamina_tensor_t> handles;
  for (const Tensor& input : inputs) {
    if (!build) build = input.build;
    handles.push_back(input.handle);
  }
  if (!build)
    throw Error(LAMINA_ERROR_ARGUMENT,
                std::string(spec_of(op).name) + ": all its inputs are empty tensors", at);
  std::array<lamina_tensor_t, outputs> results{};
  const lamina_where_t where = to_where(at);
  lamina_emit_t desc{};
  desc.size = sizeof desc;
  desc.op = static_cast<std::uint32_t>(op);
  desc.revision = spec_of(op).revision;
  desc.inputs = to_span(handles);
  desc.attrs = to_span(attrs.list());
  desc.state = state.handle;
  desc.outputs = results.data();
  desc.n_outputs = outputs;
  check(build->api->emit(build, &desc, &where));
  std::array<Tensor, outputs> out;
  for (std::size_t i = 0; i < outputs; ++i) out[i] = {build, results[i]};
  return out;
}

// The first output only.
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
