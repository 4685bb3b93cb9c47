#include "train/optimizer/update_kinds.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "core/error.h"

namespace lamina::train {
namespace {

// Relative to the rate that an update gives the rule, which contains the multiplier.
double weight_decay(const decoder::Parameter& p, const config::OptimizerSection& config) {
  return p.learning.weight_decay.value_or(p.decays() ? config.weight_decay : 0.0) /
         p.learning.multiplier;
}

// True if updates by the rule's graph keep values of the size of the parameter, or copy its state
// from host memory.
bool needs_buffers(UpdateRule rule, const config::OptimizerSection& config) {
  return !is_elementwise(rule) || config.moments == "8bit" || config.offload;
}

// Returns the kind without sizes and numbers: graphs of equal ones have one structure.
UpdateKind structure_of(const UpdateKind& kind) {
  UpdateKind out{.rule = kind.rule, .rows = std::min<std::int64_t>(kind.rows, 2)};
  if (kind.rule == UpdateRule::muon && kind.rows > kind.width) out.rows = 3;
  out.split_rows.assign(kind.split_rows.size(), 1);
  return out;
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
                                       const config::OptimizerSection& config, bool copy,
                                       std::int64_t most) {
  const UpdateRule rule = rule_of(p, config);
  const std::int64_t n = p.num_elements();
  UpdatePiece piece{.kind = {.rule = rule, .weight_decay = weight_decay(p, config), .copy = copy}};
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
    const std::int64_t left = needs_buffers(rule, config) ? std::min(most, n - piece.first) : n;
    kind.rows = blocks ? std::max<std::int64_t>(left / kBlock, 1) : 1;
    kind.width = blocks ? std::min(left, kBlock) : left;
    out.push_back(piece);
    piece.first += kind.rows * kind.width;
  }
  return out;
}

std::vector<std::vector<UpdatePiece>> rule_groups(const decoder::ParameterTable& parameters,
                                                  const config::OptimizerSection& config,
                                                  const GradientLists& lists,
                                                  const std::function<bool(int)>& has_copy,
                                                  std::int64_t most) {
  std::vector<UpdatePiece> pieces, of_lists;
  for (int i = 0; i < std::ssize(parameters.all()); ++i) {
    const decoder::Parameter& p = parameters[i];
    if (!p.learns() || lists.is_shared(i) || is_fused(rule_of(p, config), config)) continue;
    const auto index = static_cast<std::size_t>(i);
    const bool has_list = index < lists.step.size() && lists.step[index] > 0;
    for (UpdatePiece& piece : update_pieces(p, config, has_copy(i), most)) {
      piece.parameter = i;
      (has_list ? of_lists : pieces).push_back(std::move(piece));
    }
  }
  // A device may compute neighbours of equal graphs in one call. Small ones fill the groups first.
  std::ranges::stable_sort(pieces, {}, [](const UpdatePiece& piece) {
    return std::tuple(structure_of(piece.kind), piece.kind.copy, piece.kind.weight_decay,
                      piece.num_elements());
  });
  std::vector<std::vector<UpdatePiece>> out;
  std::int64_t room = 0;
  for (UpdatePiece& piece : pieces) {
    const bool joins = !out.empty() && piece.num_elements() <= room &&
                       structure_of(out.back().front().kind) == structure_of(piece.kind);
    if (!joins) {
      out.emplace_back();
      room =
          needs_buffers(piece.kind.rule, config) ? most : std::numeric_limits<std::int64_t>::max();
    }
    room -= piece.num_elements();
    out.back().push_back(std::move(piece));
  }
  for (UpdatePiece& piece : of_lists) out.push_back({std::move(piece)});
  return out;
}

}  // namespace lamina::train
