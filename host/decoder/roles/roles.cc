#include "decoder/roles/roles.h"

#include "core/error.h"

namespace lamina::decoder {
namespace {

Type scalar_i32(const TracePhase&) { return {DType::i32, {}, {}}; }
Type of_rows(const TracePhase& p) { return {DType::i32, {p.batch}, {}}; }
Type of_tokens(const TracePhase& p) { return {DType::i32, {p.batch, p.tokens}, {}}; }
Type of_flat_tokens(const TracePhase& p) { return {DType::i32, {p.batch * p.tokens}, {}}; }
Type of_places(const TracePhase& p) { return {DType::i32, {3, p.batch, p.tokens}, {}}; }
Type of_seed(const TracePhase&) { return {DType::i64, {2}, {}}; }
Type of_token_ids(const TracePhase& p) { return {DType::i32, {p.num_token_ids}, {}}; }
Type of_activations(const TracePhase& p) { return p.activations(); }
Type of_embedding_overrides(const TracePhase& p) {
  return {p.dtype, {p.embedding_overrides.count, p.hidden_size}, {}};
}
Type of_deepstack_features(const TracePhase& p) {
  return {p.dtype, {p.embedding_overrides.layers * p.embedding_overrides.count, p.hidden_size}, {}};
}

// In the order of the enumerators.
constexpr std::array kInputs = {
    InputKind{Input::tokens, "tokens", of_tokens},
    InputKind{Input::positions, "positions", of_tokens},
    InputKind{Input::positions_3d, "positions_3d", of_places},
    InputKind{Input::segments, "segments", of_tokens},
    InputKind{Input::labels, "labels", of_flat_tokens},
    InputKind{Input::loss_scales, "loss_scales", nullptr},
    InputKind{Input::seed, "seed", of_seed},
    InputKind{Input::reference, "reference", nullptr},
    InputKind{Input::teacher_logp, "teacher_logp", nullptr},
    InputKind{Input::teacher_ids, "teacher_ids", nullptr},
    InputKind{Input::teacher_hidden, "teacher_hidden", nullptr},
    InputKind{Input::start, "start", of_rows},
    InputKind{Input::count, "count", of_rows},
    InputKind{Input::rows, "rows", of_rows},
    InputKind{Input::embedding_overrides, "embedding_overrides", of_embedding_overrides},
    InputKind{Input::override_index, "override_index", of_tokens},
    InputKind{Input::image_blocks, "image_blocks", of_tokens},
    InputKind{Input::deepstack_features, "deepstack_features", of_deepstack_features},
    InputKind{Input::compressed_tokens, "compressed_tokens", of_token_ids},
    InputKind{Input::embedding, "embedding", of_activations},
    InputKind{Input::normed, "normed", of_activations},
    InputKind{Input::layer_index, "layer_index", scalar_i32, true},
    InputKind{Input::layer_constant, "layer_constant", nullptr, true},
    InputKind{Input::parameter, "parameter", nullptr},
    InputKind{Input::state, "state", nullptr},
    InputKind{Input::gradient_sum, "gradient_sum", nullptr},
    InputKind{Input::update_scalars, "update_scalars", nullptr},
    InputKind{Input::updating, "updating", nullptr},
    InputKind{Input::master, "master", nullptr},
    InputKind{Input::optimizer_state, "optimizer_state", nullptr},
};

constexpr std::array kOutputs = {
    OutputKind{Output::losses, "losses"},
    OutputKind{Output::token_losses, "token_losses"},
    OutputKind{Output::named_loss, ""},
    OutputKind{Output::metric, ""},
    OutputKind{Output::task_sum, ""},
    OutputKind{Output::segment_logp, "segment_logp"},
    OutputKind{Output::teacher_logp, "teacher_logp"},
    OutputKind{Output::teacher_ids, "teacher_ids"},
    OutputKind{Output::teacher_hidden, "teacher_hidden"},
    OutputKind{Output::state, ""},
    OutputKind{Output::update, "update"},
    OutputKind{Output::logits, "logits"},
    OutputKind{Output::gradient, ""},
    OutputKind{Output::gradient_ids, ""},
    OutputKind{Output::normed, "normed"},
    OutputKind{Output::hidden, ""},
    OutputKind{Output::record, ""},
    OutputKind{Output::mtp_hidden, "mtp_hidden"},
    OutputKind{Output::mtp_normed, "mtp_normed"},
    OutputKind{Output::mtp_logits, "mtp_logits"},
    OutputKind{Output::mtp_counted, "mtp_counted"},
    OutputKind{Output::mtp_agreed, "mtp_agreed"},
    OutputKind{Output::updated, ""},
    OutputKind{Output::gradient_check, ""},
};

template <typename Kinds, typename Role>
constexpr bool is_whole(const Kinds& kinds, Role last) {
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (static_cast<std::size_t>(kinds[i].role) != i) return false;
  return kinds.size() == static_cast<std::size_t>(last) + 1;
}
static_assert(is_whole(kInputs, Input::optimizer_state) &&
              is_whole(kOutputs, Output::gradient_check));

}  // namespace

const InputKind& kind_of(Input role) { return kInputs[static_cast<std::size_t>(role)]; }
const OutputKind& kind_of(Output role) { return kOutputs[static_cast<std::size_t>(role)]; }

Type host_input_type(Input role, const TracePhase& phase) {
  LAMINA_ASSERT(kind_of(role).type != nullptr);
  return kind_of(role).type(phase);
}

}  // namespace lamina::decoder
