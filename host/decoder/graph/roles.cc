#include "decoder/graph/roles.h"

namespace lamina::decoder {

std::string_view role_name(Role role) {
  switch (role) {
    case Role::tokens:
      return "tokens";
    case Role::positions:
      return "positions";
    case Role::positions_3d:
      return "positions_3d";
    case Role::segments:
      return "segments";
    case Role::labels:
      return "labels";
    case Role::loss_scale:
      return "loss_scale";
    case Role::z_loss_scale:
      return "z_loss_scale";
    case Role::aux_scale:
      return "aux_scale";
    case Role::mtp_scale:
      return "mtp_scale";
    case Role::seed:
      return "seed";
    case Role::start:
      return "start";
    case Role::count:
      return "count";
    case Role::rows:
      return "rows";
    case Role::given_rows:
      return "given_rows";
    case Role::given_index:
      return "given_index";
    case Role::given_blocks:
      return "given_blocks";
    case Role::given_features:
      return "given_features";
    case Role::compressed_tokens:
      return "compressed_tokens";
    case Role::embedding:
      return "embedding";
    case Role::layer_index:
      return "layer_index";
    case Role::layer_constant:
      return "layer_constant";
    default:
      return "value";
  }
}

Type host_input_type(Role role, const TracePhase& phase) {
  switch (role) {
    case Role::seed:
      return {DType::i64, {2}, {}};
    case Role::start:
    case Role::count:
    case Role::rows:
      return {DType::i32, {phase.batch}, {}};
    case Role::layer_index:
      return {DType::i32, {}, {}};
    case Role::positions_3d:
      return {DType::i32, {3, phase.batch, phase.tokens}, {}};
    case Role::labels:
      return {DType::i32, {phase.batch * phase.tokens}, {}};
    case Role::compressed_tokens:
      return {DType::i32, {phase.num_token_ids}, {}};
    case Role::given_rows:
      return {phase.dtype, {phase.given.count, phase.hidden_size}, {}};
    case Role::given_features:
      return {phase.dtype, {phase.given.layers * phase.given.count, phase.hidden_size}, {}};
    case Role::embedding:
      return phase.activations();
    default:
      return {DType::i32, {phase.batch, phase.tokens}, {}};
  }
}

}  // namespace lamina::decoder
