// The keys of [model] that the host declares for every family: what it puts between the layers of
// any stack. A family's own keys come from its plugin.
#pragma once

#include <string_view>
#include <vector>

#include "config/key.h"
#include "config/schema.h"

namespace lamina::config {

// The key whose layers the others are about: without any they have no effect.
inline constexpr std::string_view kEngramLayers = "engram_layers";
// The key whose default is that of the model's own norms, where the family declares kNormEps.
inline constexpr std::string_view kEngramNormEps = "engram_norm_eps";
inline constexpr std::string_view kNormEps = "rms_norm_eps";

const std::vector<Key>& host_model_keys();

// The run file's sections with these keys in [model]: for help and the reference page.
const Schema& documented_schema();

}  // namespace lamina::config
