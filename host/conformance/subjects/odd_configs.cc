#include "conformance/subjects/odd_configs.h"

#include <cmath>
#include <limits>

#include "config/schema.h"

namespace lamina::conformance {

using config::List;
using config::Value;

std::vector<Value> odd_values(const config::Key& key, const Value* now) {
  const double infinite = std::numeric_limits<double>::infinity();
  switch (key.type) {
    case config::Type::integer:
      return {0, -1, 3, std::int64_t{1} << 30, std::int64_t{1} << 40, std::int64_t{1} << 62};
    case config::Type::number:
      return {0.0, -1.0, 1e300, infinite, -infinite, std::nan("")};
    case config::Type::boolean:
      return {true, false};
    case config::Type::string:
      return {"", "nonsense"};
    case config::Type::list:
    case config::Type::table:  // only for elements; plugins do not declare one
      break;
  }
  List list = now && now->get_if<List>() ? *now->get_if<List>() : List{};
  Value element = key.element == config::Type::string   ? Value("nonsense")
                  : key.element == config::Type::number ? Value(-1.0)
                                                        : Value(-1);
  std::vector<Value> out{List{}, List{element}};
  if (list.empty()) return out;
  List longer = list, shorter = list, other = list;
  longer.push_back(list.back());
  shorter.pop_back();
  other.back() = element;
  out.insert(out.end(), {longer, shorter, other});
  if (key.element == config::Type::integer) {
    other.back() = std::int64_t{1} << 40;
    out.push_back(other);
  }
  return out;
}

Value value_of_another_type(const config::Key& key) {
  if (key.type == config::Type::string) return 3;
  return key.type == config::Type::list ? Value(true) : Value("text");
}

config::ModelSource with_value(config::ModelSource source, const std::string& key, Value value) {
  config::RawEntry& entry = source.raw.entries.emplace_back();
  entry.key = "model." + key;
  entry.value = std::move(value);
  entry.origin.kind = config::Origin::Kind::command_line;
  entry.origin.text = "--set model." + key;
  return source;
}

config::ModelSource without_value(config::ModelSource source, const config::Key& key) {
  std::erase_if(source.raw.entries, [&](const config::RawEntry& entry) {
    return config::is_called(key, std::string_view(entry.key).substr(6));
  });
  return source;
}

}  // namespace lamina::conformance
