#include "decoder/call_limits.h"

#include <algorithm>

#include "core/error.h"
#include "decoder/model.h"
#include "lamina/names.h"

namespace lamina::decoder {

void check_call(std::int64_t rows, std::int64_t tokens) {
  if (rows <= kMaxTokens / std::max<std::int64_t>(tokens, 1)) return;
  throw UserError(ExitCode::usage,
                  {"tokens",
                   fmt::format("{} rows of {} tokens are requested at once; at most {} tokens are "
                               "possible",
                               rows, tokens, kMaxTokens),
                   {"use fewer rows (train.microbatch_size, --batch, --beams) or shorter ones "
                    "(data.sequence_length, --context, --ctx-size)"}});
}

void check_training_length(const Model& model, std::int64_t tokens, std::string_view what) {
  model.check_length(tokens, what);
  const std::optional<std::int64_t> limit = model.max_length();
  if (!limit || tokens <= *limit) return;
  // With train.from, [model] cannot have another value than the directory.
  const config::Entry* entry = model.config().values().find(LAMINA_CONFIG_MAX_POSITIONS);
  const bool is_published = entry && entry->origin.kind == config::Origin::Kind::json;
  throw UserError(
      ExitCode::usage,
      {std::string(what),
       fmt::format("is {}; the model is made for sequences of {} tokens", tokens, *limit),
       {model.config().describe(LAMINA_CONFIG_MAX_POSITIONS),
        fmt::format("use at most {}, or raise {}", *limit,
                    is_published ? "the value in that file"
                                 : fmt::format("model.{}", LAMINA_CONFIG_MAX_POSITIONS))}});
}

}  // namespace lamina::decoder
