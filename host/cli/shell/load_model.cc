#include "cli/shell/load_model.h"

#include "cli/shell/plugins.h"

namespace lamina::cli {

model::Loaded load_model(const std::string& path, const Globals& globals, DType dtype,
                         const Device& device, const model::WeightChoice& choice) {
  device.set_threads(globals.threads.value_or(0), /*pinned=*/false);
  const model::FindPlugins plugins = [&globals]() -> const registry::Catalog& {
    return plugin_catalog(globals);
  };
  model::Loaded out = model::load(path, plugins, dtype, device.backend(), choice);
  device.use_threads(globals.threads);
  return out;
}

}  // namespace lamina::cli
