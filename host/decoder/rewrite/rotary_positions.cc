// rope_min_timescale, rope_linear_scaling_factor and partial_rotary_factor: changes the angles of
// rotary positions, and the rotated share of a head.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "config/model_keys.h"
#include "decoder/rewrite/rewriter.h"
#include "decoder/rewrite/rewrites.h"
#include "ops/operands.h"

namespace lamina::decoder {
namespace {

namespace in = operand::rope;

bool stretches(const BlockOptions& options) {
  return options.min_timescale != 1 || options.linear_scaling != 1;
}

bool wanted(const TracePhase& phase) {
  return stretches(phase.options) || phase.options.rotary_share < 1;
}

// Angles are position / (linear * m * (theta / m)^(2 i / dims)): the angles of another theta,
// scaled linearly.
void stretch(Node& node, const BlockOptions& options) {
  const std::string scaling = std::get<std::string>(attr(node, "scaling"));
  const bool has_frequencies = node.inputs[in::kFrequencies] != kNoValue;
  if (has_frequencies || (scaling != "none" && scaling != "linear"))
    refuse_option(
        fmt::format("model.{}",
                    options.min_timescale != 1 ? config::kMinTimescale : config::kLinearScaling),
        fmt::format("needs rotations that are scaled linearly or not at all; this model's {}",
                    has_frequencies ? "have their own frequencies" : "are " + scaling));
  const double factor = scaling == "linear" ? std::get<double>(attr(node, "factor")) : 1;
  node.set_attr("theta", std::get<double>(attr(node, "theta")) / options.min_timescale);
  node.set_attr("scaling", std::string("linear"));
  node.set_attr("factor", factor * options.min_timescale * options.linear_scaling);
}

void refuse_share(std::string why) {
  refuse_option(fmt::format("model.{}", config::kRotaryShare), std::move(why));
}

void rotate_in_part(Node& node, std::int64_t head_width, double share) {
  if (attr(node, "rotary_dim") != AttrValue(std::int64_t{0}) ||
      attr(node, "frequency_dim") != AttrValue(std::int64_t{0}) ||
      attr(node, "mrope_section") != AttrValue(std::vector<std::int64_t>{}) ||
      node.inputs[in::kFrequencies] != kNoValue)
    refuse_share("this family fixes which channels of a head rotate");
  const auto rotary = static_cast<std::int64_t>(static_cast<double>(head_width) * share);
  if (rotary == 0 || rotary % 2 != 0)
    refuse_share(fmt::format(
        "{} of {} channels of a head would rotate; the number must be even and at least 2", rotary,
        head_width));
  node.set_attr("rotary_dim", rotary);
}

void apply(Recording& recording, const BlockContext& context) {
  const BlockOptions& options = context.phase.options;
  Rewriter r(recording, context);
  r.run([&](NodeId id) {
    Node node = r.from().node(id);
    const OpFacts& facts = node.op->def->facts;
    if (facts.attends == Attends::to_latents && options.rotary_share < 1)
      refuse_share(
          fmt::format("the attention of this model is {}, whose keys have a part that rotates and "
                      "one that does not",
                      node.op->name));
    if (!facts.rotates) return false;
    if (stretches(options)) stretch(node, options);
    if (options.rotary_share < 1)
      rotate_in_part(node, r.from().type(node.inputs[in::kX]).dim(3), options.rotary_share);
    r.copy(id, node, r.operands(id));
    return true;
  });
}

}  // namespace

constinit const Rewrite kRotaryPositions = {"rotary positions", wanted, apply};

}  // namespace lamina::decoder
