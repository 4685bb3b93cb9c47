#include "registry/abi_ops.h"

#include <fmt/ranges.h>

#include <cmath>

#include "ops/registry.h"

namespace lamina::registry::abi {
namespace {

// Limit for sizes, counts and offsets, which shape rules add and multiply; far above any tensor.
constexpr std::int64_t kMaxInteger = std::int64_t{1} << 45;

std::int64_t checked_integer(std::int64_t value, std::string_view what) {
  if (value < -kMaxInteger || value > kMaxInteger)
    refuse("{} is {}; it must be between -2^45 and 2^45", what, value);
  return value;
}

// Indexed by AttrValue::index().
constexpr std::string_view kAttrKinds[] = {"an integer",         "a number",          "a string",
                                           "a list of integers", "a list of numbers", "a graph"};

AttrValue attr_value(const Op& op, const OpAttr& attr, const lamina_value_t& value) {
  const std::string what = fmt::format("attribute '{}' of op '{}'", attr.name, op.name);
  const auto wrong_kind = [&] {
    refuse("{} must be {}, got {}", what, kAttrKinds[attr.fallback.index()], kind_name(value.type));
  };
  const auto number = [&](double x) {
    if (std::isnan(x)) refuse("{} must be a number, got NaN", what);
    return x;
  };
  check_padding(value, what);
  switch (value.type) {
    case LAMINA_KIND_INT:
    case LAMINA_KIND_BOOL:
      if (attr.fallback.index() != 0) wrong_kind();
      return checked_integer(value.v.i, what);
    case LAMINA_KIND_FLOAT:
      if (attr.fallback.index() != 1) wrong_kind();
      return number(value.v.f);
    case LAMINA_KIND_STRING:
      if (attr.fallback.index() != 2) wrong_kind();
      return text(value.v.s, what);
    case LAMINA_KIND_INT_LIST: {
      if (attr.fallback.index() != 3) wrong_kind();
      std::vector<std::int64_t> out = plain<std::int64_t>(value.v.list, what);
      for (std::int64_t x : out) checked_integer(x, what);
      return out;
    }
    case LAMINA_KIND_FLOAT_LIST: {
      if (attr.fallback.index() != 4) wrong_kind();
      std::vector<double> out = plain<double>(value.v.list, what);
      for (double x : out) number(x);
      return out;
    }
    default:
      wrong_kind();
  }
  return {};
}

}  // namespace

const Op& op(std::uint32_t id, std::uint32_t revision) {
  if (const Op* found = ops::find(id, revision)) return *found;
  std::string name;
  std::vector<std::uint32_t> revisions;
  for (const Op& op : ops::all()) {
    if (op.id != id || op.host_only()) continue;
    if (name.empty()) name = op.name;
    revisions.push_back(op.revision);
  }
  throw ContractError(
      LAMINA_ERROR_UNSUPPORTED,
      revisions.empty()
          ? fmt::format("op number {} is unknown to this host (plugin ABI {}.{})", id,
                        LAMINA_ABI_MAJOR, LAMINA_ABI_MINOR)
          : fmt::format("op '{}' is requested in revision {}; this host has revision {}", name,
                        revision, fmt::join(revisions, ", ")));
}

NamedAttrs attrs(const Op& op, const lamina_span_t& list) {
  NamedAttrs out;
  std::vector<bool> seen(op.num_plugin_attrs);
  for (const lamina_attr_t& attr :
       plain<lamina_attr_t>(list, fmt::format("the attributes of op '{}'", op.name))) {
    if (attr.since > LAMINA_ABI_MINOR)
      throw ContractError(
          LAMINA_ERROR_UNSUPPORTED,
          fmt::format("attribute {} of op '{}' requires a host with plugin ABI {}.{}; this host "
                      "has {}.{}",
                      attr.key, op.name, LAMINA_ABI_MAJOR, attr.since, LAMINA_ABI_MAJOR,
                      LAMINA_ABI_MINOR));
    if (attr.key == 0 || attr.key > seen.size())
      refuse("op '{}' has no attribute {}; it has {} attributes", op.name, attr.key, seen.size());
    const std::size_t index = attr.key - 1;
    const OpAttr& declared = op.attrs[index];
    if (seen[index]) refuse("attribute '{}' of op '{}' is given twice", declared.name, op.name);
    seen[index] = true;
    out.emplace_back(declared.name, attr_value(op, declared, attr.value));
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (op.attrs[i].required && !seen[i])
      refuse("op '{}': required attribute '{}' is missing", op.name, op.attrs[i].name);
  return out;
}

std::vector<lamina_value_t> value_views(std::span<const AttrValue> values) {
  std::vector<lamina_value_t> out;
  const auto list = [](const auto& items, std::uint32_t kind) {
    lamina_value_t view{};
    view.type = kind;
    view.v.list = {items.data(), static_cast<std::uint32_t>(items.size()), sizeof(items[0])};
    return view;
  };
  for (const AttrValue& value : values) {
    lamina_value_t view{};
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      view.type = LAMINA_KIND_INT;
      view.v.i = *integer;
    } else if (const auto* number = std::get_if<double>(&value)) {
      view.type = LAMINA_KIND_FLOAT;
      view.v.f = *number;
    } else if (const auto* words = std::get_if<std::string>(&value)) {
      view.type = LAMINA_KIND_STRING;
      view.v.s = str(*words);
    } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
      view = list(*integers, LAMINA_KIND_INT_LIST);
    } else if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
      view = list(*numbers, LAMINA_KIND_FLOAT_LIST);
    }
    out.push_back(view);
  }
  return out;
}

void check_flags(std::uint32_t flags, std::uint32_t known, std::string_view what) {
  if ((flags & ~known) != 0)
    throw ContractError(LAMINA_ERROR_UNSUPPORTED,
                        fmt::format("{} has flags {:#x}; this host does not know {:#x}", what,
                                    flags, flags & ~known));
}

}  // namespace lamina::registry::abi
