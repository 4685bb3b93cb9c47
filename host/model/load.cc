#include "model/load.h"

namespace lamina::model {

std::vector<std::int32_t> Loaded::end_tokens() const {
  std::vector<std::int32_t> out;
  for (std::int64_t id : opened.published ? opened.published->eos_token_ids() : opened.end_tokens)
    out.push_back(static_cast<std::int32_t>(id));
  if (out.empty() && tokenizer && tokenizer->eos_id()) out.push_back(*tokenizer->eos_id());
  return out;
}

Loaded load(const std::string& path, const registry::Catalog& plugins, DType dtype,
            const Backend& backend, const std::string& adapter) {
  return while_training(path, [&] {
    OpenedModel opened = open_weights(path, plugins, adapter);
    weights::Weights weights =
        weights::Weights::load(*opened.model, opened.weight_files(), dtype, backend);
    std::unique_ptr<text::Tokenizer> tokenizer;
    if (text::has_tokenizer(opened.directory)) tokenizer = text::load_tokenizer(opened.directory);
    return Loaded{std::move(opened), std::move(weights), std::move(tokenizer)};
  });
}

}  // namespace lamina::model
