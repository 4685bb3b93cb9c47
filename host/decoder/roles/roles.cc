#include "decoder/roles/roles.h"

#include "core/error.h"

namespace lamina::decoder {
namespace {

Type scalar_i32(const TracePhase&) { return {DType::i32, {}, {}}; }
Type of_rows(const TracePhase& p) { return {DType::i32, {p.batch}, {}}; }
Type of_tokens(const TracePhase& p) { return {DType::i32, {p.batch, p.tokens}, {}}; }
Type of_flat_tokens(const TracePhase& p) { return {DType::i32, {p.batch * p.tokens}, {}}; }
Type of_places(const TracePhase& p) { return {DType::i32, {3, p.batch, p.tokens}, {}}; }
Type of_temperature(const TracePhase&) { return {DType::f64, {}, {}}; }
Type of_draws(const TracePhase& p) { return {DType::f64, {p.batch}, {}}; }
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
    InputInfo{Input::tokens, "tokens", of_tokens},
    InputInfo{Input::positions, "positions", of_tokens},
    InputInfo{Input::positions_3d, "positions_3d", of_places},
    InputInfo{Input::segments, "segments", of_tokens},
    InputInfo{Input::labels, "labels", of_flat_tokens},
    InputInfo{Input::loss_scales, "loss_scales", nullptr},
    InputInfo{Input::seed, "seed", of_seed},
    InputInfo{Input::reference, "reference", nullptr},
    InputInfo{Input::teacher_logp, "teacher_logp", nullptr},
    InputInfo{Input::teacher_ids, "teacher_ids", nullptr},
    InputInfo{Input::teacher_hidden, "teacher_hidden", nullptr},
    InputInfo{Input::start, "start", of_rows},
    InputInfo{Input::count, "count", of_rows},
    InputInfo{Input::rows, "rows", of_rows},
    InputInfo{Input::temperature, "temperature", of_temperature},
    InputInfo{Input::draws, "draws", of_draws},
    InputInfo{Input::embedding_overrides, "embedding_overrides", of_embedding_overrides},
    InputInfo{Input::override_index, "override_index", of_tokens},
    InputInfo{Input::image_blocks, "image_blocks", of_tokens},
    InputInfo{Input::deepstack_features, "deepstack_features", of_deepstack_features},
    InputInfo{Input::compressed_tokens, "compressed_tokens", of_token_ids},
    InputInfo{Input::embedding, "embedding", of_activations},
    InputInfo{Input::normed, "normed", of_activations},
    InputInfo{Input::layer_index, "layer_index", scalar_i32, true},
    InputInfo{Input::layer_constant, "layer_constant", nullptr, true},
    InputInfo{Input::parameter, "parameter", nullptr},
    InputInfo{Input::state, "state", nullptr},
    InputInfo{Input::gradient_sum, "gradient_sum", nullptr},
};

constexpr std::array kOutputs = {
    OutputInfo{Output::losses, "losses"},
    OutputInfo{Output::token_losses, "token_losses"},
    OutputInfo{Output::named_loss, ""},
    OutputInfo{Output::metric, ""},
    OutputInfo{Output::task_sum, ""},
    OutputInfo{Output::segment_logp, "segment_logp"},
    OutputInfo{Output::teacher_logp, "teacher_logp"},
    OutputInfo{Output::teacher_ids, "teacher_ids"},
    OutputInfo{Output::teacher_hidden, "teacher_hidden"},
    OutputInfo{Output::state, ""},
    OutputInfo{Output::update, "update"},
    OutputInfo{Output::logits, "logits"},
    OutputInfo{Output::likeliest_logits, "likeliest_logits"},
    OutputInfo{Output::likeliest_ids, "likeliest_ids"},
    OutputInfo{Output::drawn_logits, "drawn_logits"},
    OutputInfo{Output::drawn_first, "drawn_first"},
    OutputInfo{Output::drawn_before, "drawn_before"},
    OutputInfo{Output::drawn_largest, "drawn_largest"},
    OutputInfo{Output::total_weight, "total_weight"},
    OutputInfo{Output::gradient, ""},
    OutputInfo{Output::gradient_ids, ""},
    OutputInfo{Output::normed, "normed"},
    OutputInfo{Output::hidden, ""},
    OutputInfo{Output::record, ""},
    OutputInfo{Output::mtp_hidden, "mtp_hidden"},
    OutputInfo{Output::mtp_normed, "mtp_normed"},
    OutputInfo{Output::mtp_logits, "mtp_logits"},
    OutputInfo{Output::mtp_counted, "mtp_counted"},
    OutputInfo{Output::mtp_agreed, "mtp_agreed"},
};

template <typename Kinds, typename Role>
constexpr bool is_whole(const Kinds& kinds, Role last) {
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (static_cast<std::size_t>(kinds[i].role) != i) return false;
  return kinds.size() == static_cast<std::size_t>(last) + 1;
}
static_assert(is_whole(kInputs, Input::gradient_sum) && is_whole(kOutputs, Output::mtp_agreed));

}  // namespace

const InputInfo& kind_of(Input role) { return kInputs[static_cast<std::size_t>(role)]; }
const OutputInfo& kind_of(Output role) { return kOutputs[static_cast<std::size_t>(role)]; }

Type host_input_type(Input role, const TracePhase& phase) {
  LAMINA_ASSERT(kind_of(role).type != nullptr);
  return kind_of(role).type(phase);
}

}  // namespace lamina::decoder
