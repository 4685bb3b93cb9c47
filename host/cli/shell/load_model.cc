#include "cli/shell/load_model.h"

#include "cli/shell/plugins.h"
#include "cli/shell/signals.h"
#include "device/workers.h"

namespace lamina::cli {

model::Loaded load_model(const std::string& path, const Globals& globals, DType dtype,
                         const Device& device, const model::WeightChoice& choice,
                         const std::function<void(const decoder::Model&)>& described) {
  device.set_threads(globals.threads.value_or(0), /*pinned=*/false);
  const model::FindPlugins plugins = [&globals]() -> const registry::Catalog& {
    return plugin_catalog(globals);
  };
  model::WeightChoice with_threads = choice;
  with_threads.workers = device::workers(device);
  with_threads.between = end_if_asked;
  model::Loaded out = model::load(path, plugins, dtype, device.backend(), with_threads, described);
  device.use_threads(globals.threads);
  return out;
}

}  // namespace lamina::cli
