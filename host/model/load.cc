#include "model/load.h"

#include <chrono>
#include <future>
#include <thread>

#include "core/cpu_mask.h"
#include "train/loop/run_directory.h"

namespace lamina::model {

std::vector<std::int32_t> Loaded::end_tokens() const {
  std::vector<std::int32_t> out;
  for (std::int64_t id : opened.published ? opened.published->eos_token_ids() : opened.end_tokens)
    out.push_back(static_cast<std::int32_t>(id));
  if (out.empty() && tokenizer && tokenizer->eos_id()) out.push_back(*tokenizer->eos_id());
  return out;
}

Loaded load(const std::string& path, const registry::Catalog& plugins, DType dtype,
            const Backend& backend, const WeightChoice& choice) {
  const FindPlugins found = [&plugins]() -> const registry::Catalog& { return plugins; };
  return load(path, found, dtype, backend, choice);
}

Loaded load(const std::string& path, const FindPlugins& plugins, DType dtype,
            const Backend& backend, const WeightChoice& choice,
            const std::function<void(const decoder::Model&)>& described) {
  check_description(path);
  return while_training(path, [&] {
    // Resolved once for both: training may write a new checkpoint at any time.
    const std::string files = model_files(path);
    OpenedModel opened = open_weights(is_adapter(path) ? path : files, plugins(), choice);
    // Reading a large vocabulary takes longer than the weights, so it has a thread, if there is
    // one; otherwise it is read when needed. It starts after the plugin was loaded, because files
    // opened during that would count as the plugin's (check_counts() in registry/library.cc).
    auto tokenizer = std::async(
        std::launch::async | std::launch::deferred, [&files, caller = std::this_thread::get_id()] {
          if (std::this_thread::get_id() != caller) unpin_this_thread();
          return text::has_tokenizer(files) ? text::load_tokenizer(files) : nullptr;
        });
    const std::shared_ptr<io::WeightFiles> weight_files = opened.weight_files();
    set_storage(*opened.model, *weight_files, choice, dtype);
    if (described) described(*opened.model);
    weights::Weights weights = weights::Weights::load(*opened.model, weight_files, dtype, backend,
                                                      choice.workers, choice.between);
    // Uses the time until the vocabulary is read: mapping is a large part of the time to the first
    // token.
    weights.map_pages(
        [&] { return tokenizer.wait_for(std::chrono::seconds(0)) == std::future_status::timeout; });
    return Loaded{std::move(opened), std::move(weights), tokenizer.get()};
  });
}

}  // namespace lamina::model
