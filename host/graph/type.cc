#include "graph/type.h"

#include <deque>
#include <mutex>
#include <unordered_map>

#include "core/error.h"

namespace lamina {
namespace {

struct AxisTable {
  std::mutex mutex;
  std::deque<std::string> names{""};  // stable addresses
  std::unordered_map<std::string_view, AxisId> ids;
};

AxisTable& axis_table() {
  static AxisTable* const table = new AxisTable;  // names must outlive static objects
  return *table;
}

}  // namespace

AxisId intern_axis(std::string_view name) {
  if (name.empty()) return 0;
  AxisTable& table = axis_table();
  std::lock_guard lock(table.mutex);
  if (auto found = table.ids.find(name); found != table.ids.end()) return found->second;
  LAMINA_ASSERT(table.names.size() < 0xffff);
  table.names.emplace_back(name);
  AxisId id = static_cast<AxisId>(table.names.size() - 1);
  table.ids.emplace(table.names.back(), id);
  return id;
}

std::string_view axis_name(AxisId axis) {
  AxisTable& table = axis_table();
  std::lock_guard lock(table.mutex);
  return table.names[axis];
}

Type Type::with(DType other) const {
  Type out = *this;
  out.dtype = other;
  out.storage = nullptr;
  return out;
}

Type Type::stored_as(const formats::BlockFormat* format) const {
  LAMINA_ASSERT(!format || (ndim() > 0 && dim(-1) % format->num_values == 0));
  Type out = *this;
  out.storage = format;
  return out;
}

std::string to_string(const Type& type) {
  std::string out = std::string(name(type.dtype)) + to_string(type.shape);
  if (type.storage) out += " in " + std::string(type.storage->name);
  return out;
}

}  // namespace lamina
