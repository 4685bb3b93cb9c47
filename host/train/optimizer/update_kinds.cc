#include "train/optimizer/update_kinds.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace lamina::train {
namespace {

// Relative to the rate that an update gives the rule, which contains the multiplier.
double weight_decay(const decoder::Parameter& p, const config::OptimizerSection& config) {
  return p.learning.weight_decay.value_or(p.decays() ? config.weight_decay : 0.0) /
         p.learning.multiplier;
}

}  // namespace

bool is_fused(UpdateRule rule, const config::OptimizerSection& config) {
  return rule == UpdateRule::adamw && config.name == "adamw" && config.moments == "float32" &&
         config.eps_root == 0;
}

FusedAdamw fused_kind(const decoder::Parameter& p, const config::OptimizerSection& config,
                      std::int64_t slots, bool copy) {
  FusedAdamw kind{.rows = p.num_elements(), .weight_decay = weight_decay(p, config), .copy = copy};
  if (slots == 0) return kind;
  kind.rows = p.desc.shape[0];
  kind.width = p.desc.shape[1];
  kind.slots = slots;
  return kind;
}

std::vector<std::vector<FusedPart>> fused_groups(const decoder::ParameterTable& parameters,
                                                 const config::OptimizerSection& config,
                                                 const GradientLists& lists,
                                                 const std::function<bool(int)>& has_copy) {
  // Whole tensors before tables: a device may update all of one op in one call.
  std::vector<FusedPart> parts, tables;
  for (int i = 0; i < std::ssize(parameters.all()); ++i) {
    const decoder::Parameter& p = parameters[i];
    if (!p.learns() || lists.is_shared(i) || !is_fused(rule_of(p, config), config)) continue;
    const auto index = static_cast<std::size_t>(i);
    const std::int64_t slots = index < lists.step.size() ? lists.step[index] : 0;
    FusedPart part{.parameter = i, .kind = fused_kind(p, config, slots, has_copy(i))};
    if (slots > 0) {
      tables.push_back(part);
      continue;
    }
    const std::int64_t n = p.num_elements();
    for (; part.first < n; part.first += part.kind.rows) {
      part.kind.rows = config.offload ? std::min(kMaxPiece, n - part.first) : n;
      parts.push_back(part);
    }
  }
  std::vector<std::vector<FusedPart>> out;
  std::int64_t room = 0;
  const auto add = [&](const FusedPart& part, std::int64_t elements) {
    if (out.empty() || (config.offload && elements > room)) {
      out.emplace_back();
      room = kMaxPiece;
    }
    out.back().push_back(part);
    room -= elements;
  };
  for (const FusedPart& part : parts) add(part, part.num_elements());
  for (const FusedPart& part : tables) add(part, kMaxPiece + 1);
  return out;
}

std::vector<UpdatePiece> update_pieces(const decoder::Parameter& p,
                                       const config::OptimizerSection& config, bool copy) {
  const UpdateRule rule = rule_of(p, config);
  const std::int64_t n = p.num_elements();
  UpdatePiece piece{{.rule = rule, .weight_decay = weight_decay(p, config), .copy = copy}};
  UpdateKind& kind = piece.kind;
  const bool blocks = config.moments == "8bit";
  if (!is_elementwise(rule)) {
    LAMINA_ASSERT(!blocks);
    const Shape& shape = p.desc.shape;
    kind.width = shape.ndim() > 0 ? shape[-1] : 1;
    kind.rows = shape.ndim() > 1 ? shape[-2] : 1;
    kind.batch = n / std::max<std::int64_t>(kind.rows * kind.width, 1);
    kind.split_rows = p.learning.split_rows;
    return {std::move(piece)};
  }
  std::vector<UpdatePiece> out;
  while (piece.first < n) {
    const std::int64_t left = std::min(kMaxPiece, n - piece.first);
    kind.rows = blocks ? std::max<std::int64_t>(left / kBlock, 1) : 1;
    kind.width = blocks ? std::min(left, kBlock) : left;
    out.push_back(piece);
    piece.first += kind.rows * kind.width;
  }
  return out;
}

}  // namespace lamina::train
