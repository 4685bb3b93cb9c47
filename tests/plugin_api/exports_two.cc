// A library that check_plugin.cmake must refuse: two symbols, no manifest, an executable stack, and
// a needed library outside the C and C++ runtimes.
extern "C" {
__attribute__((visibility("default"))) int lamina_plugin_v0() { return 0; }
__attribute__((visibility("default"))) int foreign_symbol() { return 1; }
}
