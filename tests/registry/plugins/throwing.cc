// A plugin in C++ whose block leaks an exception.
#include <new>
#include <stdexcept>
#include <string_view>

#include "lamina/abi.h"
#include "lamina/names.h"

namespace {

template <std::size_t n>
constexpr lamina_str_t str(const char (&text)[n]) {
  return {text, n - 1};
}
template <typename T, std::size_t n>
constexpr lamina_span_t span(const T (&items)[n]) {
  return {items, n, sizeof(T)};
}

[[gnu::section(LAMINA_MANIFEST_SECTION), gnu::used]] const char manifest[] =
    R"({"id": "org.example.throwing", "version": "1", "abi_major": 0, "abi_built": )" ABI_MINOR_TEXT
    R"(, "abi_min_host": 0, "families": [{"name": "throwing"}]})";

lamina_status_t build(void*, lamina_build_t*, const lamina_config_t*, const lamina_io_t*) {
  throw std::runtime_error("oops");
}
lamina_status_t build_greedily(void*, lamina_build_t*, const lamina_config_t*, const lamina_io_t*) {
  throw std::bad_alloc();
}
lamina_status_t plan(void*, const lamina_config_t*, lamina_reply_t*) { throw 1; }
lamina_status_t options(void*, const lamina_config_t*, lamina_reply_t*) { return LAMINA_OK; }

constexpr lamina_key_t key(lamina_str_t name) {
  lamina_key_t out{};
  out.size = sizeof out;
  out.type = LAMINA_KIND_INT;
  out.name = name;
  out.doc = str("A number.");
  return out;
}
constexpr lamina_key_t kKeys[] = {key(str("vocab_size")), key(str("hidden_size")),
                                  key(str("num_hidden_layers"))};
const lamina_block_t kBlocks[] = {
    {sizeof(lamina_block_t), 1, 0, 0, str("layer"), nullptr, build},
    {sizeof(lamina_block_t), 2, 0, 0, str("greedy"), nullptr, build_greedily}};

lamina_family_t family() {
  lamina_family_t out{};
  out.size = sizeof out;
  out.name = str("throwing");
  out.keys = span(kKeys);
  out.blocks = span(kBlocks);
  out.plan = plan;
  out.options = options;
  return out;
}

lamina_status_t init(const lamina_host_t*) { return LAMINA_OK; }
void deinit() {}
const void* get_interface(lamina_str_t id) {
  if (std::string_view(id.ptr, id.len) != LAMINA_FAMILIES_ID) return nullptr;
  static const lamina_family_t families[] = {family()};
  static const lamina_families_t table = {sizeof(lamina_families_t), 0, span(families)};
  return &table;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] const lamina_plugin_t lamina_plugin_v0 = {
    LAMINA_PLUGIN_MAGIC,
    sizeof(lamina_plugin_t),
    LAMINA_ABI_MAJOR,
    LAMINA_ABI_MINOR,
    0,
    0,
    str("org.example.throwing"),
    str("1"),
    {},
    {},
    init,
    deinit,
    get_interface,
};
