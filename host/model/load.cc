#include "model/load.h"

#include <future>

#include "train/run_directory.h"

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
    const std::string base = base_of_adapter(path);
    // Once for both: training may write a checkpoint meanwhile.
    const std::string files = train::resolve_model_files(base.empty() ? path : base);
    // A large vocabulary takes longer than all the rest. Where there is no thread for it, it is
    // read when it is wanted; where the model does not open, that is what is said.
    auto tokenizer = std::async(std::launch::async | std::launch::deferred, [&files] {
      return text::has_tokenizer(files) ? text::load_tokenizer(files) : nullptr;
    });
    OpenedModel opened = open_weights(base.empty() ? files : path, plugins, adapter);
    weights::Weights weights =
        weights::Weights::load(*opened.model, opened.weight_files(), dtype, backend);
    return Loaded{std::move(opened), std::move(weights), tokenizer.get()};
  });
}

}  // namespace lamina::model
