/* The smallest plugin in plain C: one family, one block that adds a constant. Each FAULT_* breaks
 * one rule of abi.h. */
#include "lamina/abi.h"
#include "lamina/names.h"

#ifndef PLUGIN_ID
#define PLUGIN_ID "org.example.tiny"
#endif
#ifndef FAMILY
#define FAMILY "tiny"
#endif
#define STR(text) {"" text, sizeof(text) - 1}
#define SPAN(array) {array, sizeof(array) / sizeof((array)[0]), sizeof((array)[0])}

#ifndef FAULT_NO_MANIFEST
#if defined(FAULT_BAD_JSON)
#define MANIFEST "{\"id\": "
#else
#ifdef FAULT_MANIFEST_ABI
#define MANIFEST_ABI "7"
#else
#define MANIFEST_ABI ABI_MINOR_TEXT
#endif
#define MANIFEST                                                                              \
  "{\"id\": \"" PLUGIN_ID "\", \"version\": \"1.0\", \"abi_major\": 0, \"abi_built\": "       \
  MANIFEST_ABI ", \"abi_min_host\": 0, \"arch\": \"x86-64\", \"families\": [{\"name\": \""    \
  FAMILY "\", \"doc\": \"A tiny family.\", \"aliases\": [\"" FAMILY "_alias\"], "             \
  "\"hf_model_types\": [\"" FAMILY "_type\"], \"hf_architectures\": [\"TinyForCausalLM\"]}]}"
#endif
__attribute__((section(LAMINA_MANIFEST_SECTION), used)) static const char manifest[] = MANIFEST;
#endif

#ifndef FAULT_ENTRY_ABI
#define ENTRY_ABI LAMINA_ABI_MINOR
#else
#define ENTRY_ABI 7
#endif

static lamina_status_t tiny_init(const lamina_host_t *host) { return host ? 0 : LAMINA_ERROR_ARGUMENT; }
static void tiny_deinit(void) {}
static const void *tiny_interface(lamina_str_t id) {
  (void)id;
  return 0;
}

#ifdef FAULT_NO_ENTRY
#define lamina_plugin_v0 plugin_without_a_name
static __attribute__((used))
#else
__attribute__((visibility("default")))
#endif
const lamina_plugin_t lamina_plugin_v0 = {
    .magic = LAMINA_PLUGIN_MAGIC,
    .size = sizeof(lamina_plugin_t),
    .abi_major = LAMINA_ABI_MAJOR,
    .abi_built = ENTRY_ABI,
    .id = STR(PLUGIN_ID),
    .version = STR("1.0"),
    .init = tiny_init,
    .deinit = tiny_deinit,
    .get_interface = tiny_interface,
};
