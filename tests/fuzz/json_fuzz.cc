// A JSON document: parsed, walked, each value read as every type.
#include "core/json.h"
#include "fuzz/fuzz.h"

namespace {

using lamina::JsonValue;
using lamina::fuzz::refuse_or_accept;

void walk(JsonValue value) {
  static_cast<void>(value.describe() + value.path() + value.where());
  refuse_or_accept([&] { static_cast<void>(value.as_bool()); });
  refuse_or_accept([&] { static_cast<void>(value.as_int64()); });
  refuse_or_accept([&] { static_cast<void>(value.as_uint64()); });
  refuse_or_accept([&] { static_cast<void>(value.as_double()); });
  refuse_or_accept([&] { static_cast<void>(value.as_string()); });
  if (value.is_array())
    for (JsonValue element : value.elements()) walk(element);
  if (value.is_object())
    for (const auto& [key, member] : value.members()) {
      if (!value.find(key)) __builtin_trap();
      walk(member);
    }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  if (size > 4096) return 0;  // find() and path() are linear: larger inputs only take longer
  refuse_or_accept(
      [&] { walk(JsonDocument::parse(std::string(fuzz::text_of(data, size)), "x.json").root()); });
  return 0;
}
