#include "ops/registry.h"

#include <iterator>
#include <unordered_map>

#include "core/error.h"
#include "ops/op.h"
#include "ops/op_code.h"
#include "ops/rows.h"

namespace lamina::ops {

namespace {

// In the order of parse_rows().
constexpr const OpDef* kDefs[] = {
#define LAMINA_OP(id, name, ...) &name##_op,
#include "lamina/ops.def"
#define LAMINA_INTERNAL_OP(name, ...) &name##_op,
#include "ops/internal.def"
};

constexpr std::uint64_t key(std::uint32_t id, std::uint32_t revision) {
  return std::uint64_t{id} << 32 | revision;
}

struct Table {
  std::vector<Op> ops = parse_rows();
  std::unordered_map<std::string_view, const Op*> by_name;
  std::unordered_map<std::uint64_t, const Op*> by_id;
  std::unordered_map<OpCode, const Op*> by_code;

  Table() {
    LAMINA_ASSERT(ops.size() == std::size(kDefs));
    for (std::size_t i = 0; i < ops.size(); ++i) {
      Op& op = ops[i];
      op.def = kDefs[i];
      by_code.emplace(op.code, &op);
      by_name.emplace(op.name, &op);
      if (!op.host_only()) by_id.emplace(key(op.id, op.revision), &op);
    }
  }
};

const Table& table() {
  static const Table instance;
  return instance;
}

}  // namespace

std::span<const Op> all() { return table().ops; }

const Op* find(std::string_view name) {
  auto found = table().by_name.find(name);
  return found == table().by_name.end() ? nullptr : found->second;
}

const Op* find(std::uint32_t id, std::uint32_t revision) {
  auto found = table().by_id.find(key(id, revision));
  return found == table().by_id.end() ? nullptr : found->second;
}

const Op& get(OpCode code) { return *table().by_code.at(code); }

const Op& get(std::string_view name) {
  const Op* op = find(name);
  LAMINA_ASSERT(op != nullptr);
  return *op;
}

}  // namespace lamina::ops
