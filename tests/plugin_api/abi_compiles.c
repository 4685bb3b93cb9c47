/* abi.h, names.h and ext/ compile in every language that a plugin may be written in; see CMakeLists. */
#include "lamina/abi.h"
#include "lamina/ext/auxiliary.h"
#include "lamina/ext/custom_ops.h"
#include "lamina/ext/draft/custom_ops_gpu.h"
#include "lamina/ext/export.h"
#include "lamina/ext/gguf.h"
#include "lamina/ext/layer_sharing.h"
#include "lamina/ext/mtp.h"
#include "lamina/ext/time_region.h"
#include "lamina/names.h"

int lamina_abi_compiles(const lamina_plugin_t *plugin);
int lamina_abi_compiles(const lamina_plugin_t *plugin) {
  return plugin->magic == LAMINA_PLUGIN_MAGIC;
}
