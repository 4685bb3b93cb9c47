/* abi.h and names.h compile in every language that a plugin may be written in; see CMakeLists. */
#include "lamina/abi.h"
#include "lamina/names.h"

int lamina_abi_compiles(const lamina_plugin_t *plugin);
int lamina_abi_compiles(const lamina_plugin_t *plugin) {
  return plugin->magic == LAMINA_PLUGIN_MAGIC;
}
